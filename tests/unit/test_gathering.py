"""Calls of the model that threads share: who is served together, what one bad text costs, how long anybody waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tellback import clock
from tellback.embedding import embedder as module
from tellback.embedding.embedder import BatchedEncoder, Row
from tellback.embedding.encoder import RETRY_SECONDS
from tellback.errors import Unavailable
from tellback.signals.matching import Vectors
from tellback.state.intake_lease import Fenced
from tests.support.waiting import wait_until


class Slow:
    """A model that computes when it is let; it fails at texts named bad, and at all of them when it is broken."""

    model = "slow"
    weights = ""
    dimension = 3

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.broken = ""

    def load(self) -> None:
        pass

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        assert self.gate.wait(60)
        if self.broken:
            raise RuntimeError(self.broken)
        if any(text.startswith("bad") for text in texts):
            raise ValueError("a bad text")
        rows = np.ones((len(texts), self.dimension), np.float32)
        rows[[text.startswith("endless") for text in texts]] = np.nan
        return rows


@pytest.fixture
def model() -> Slow:
    return Slow()


class WaitingCallers:
    """Threads that ask while the model computes for somebody else: their texts gather."""

    def __init__(self, model: Slow, gathering: BatchedEncoder) -> None:
        self._model = model
        self.gathering = gathering
        self._threads = ThreadPoolExecutor(16)
        model.gate.clear()
        self.first = self._threads.submit(gathering.encode, ["first"])
        wait_until(lambda: model.calls, "the model computes")

    def ask(self, *texts: str, **options: Any) -> Future[dict[str, Row]]:
        before = self._waiting()
        asked = self._threads.submit(self.gathering.encode, texts, **options)
        wait_until(lambda: self._waiting() > before, "it waits")
        return asked

    def answer(self) -> None:
        self._model.gate.set()

    def _waiting(self) -> int:
        gathering = self.gathering
        everybody = (*gathering._urgent.values(), *gathering._wanted.values(), gathering._alone)
        return sum(map(len, everybody))


@pytest.fixture
def callers(model: Slow) -> Iterator[WaitingCallers]:
    callers = WaitingCallers(model, BatchedEncoder(model, delay=0))
    yield callers
    callers.answer()
    callers._threads.shutdown()


def test_what_waits_while_the_model_computes_shares_one_call(model: Slow, callers: WaitingCallers) -> None:
    """Four streams of one process; a text that two of them need is computed once, and each has its own answer."""
    asked = [callers.ask(f"own {i}", "shared", f"own {i}") for i in range(4)]
    callers.answer()
    assert [sorted(future.result(60)) for future in asked] == [[f"own {i}", "shared"] for i in range(4)]
    assert model.calls == [["first"], ["own 0", "shared", "own 1", "own 2", "own 3"]]


def test_a_text_waits_the_batching_delay_for_others(model: Slow) -> None:
    """Without a call to wait for, it is the delay that brings them together; a full call does not wait for its end."""
    gathering = BatchedEncoder(model, delay=60)
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(gathering.encode, [f"a{i}" for i in range(module.MAX_BATCH - 1)])
        wait_until(lambda: len(gathering._wanted) == module.MAX_BATCH - 1, "it waits for company")
        two = threads.submit(gathering.encode, ["b"])
        assert (len(one.result(60)), len(two.result(60))) == (module.MAX_BATCH - 1, 1)
    assert [len(call) for call in model.calls] == [module.MAX_BATCH]


def test_a_call_is_bounded_by_texts_and_by_characters(model: Slow, callers: WaitingCallers) -> None:
    many = [f"t{i}" for i in range(module.MAX_BATCH + 88)]
    long = [f"{i:03}" + "x" * 100_000 for i in range(110)]
    asked = [callers.ask(*many), callers.ask(*long)]
    callers.answer()
    assert [list(future.result(60)) for future in asked] == [many, long]
    assert len(model.calls[1]) == module.MAX_BATCH
    assert max(len([text for text in call if text in long]) for call in model.calls) == 106
    assert sum(map(len, model.calls)) == 1 + len(many) + len(long), "each text once"


def test_recalls_come_first_and_make_calls_short(model: Slow, callers: WaitingCallers) -> None:
    """Signals may wait, a recall has a deadline: it is in the next call, and that is a short one."""
    signals = callers.ask(*(f"s{i}" for i in range(200)))
    recall = callers.ask("recalled", urgent=True)
    callers.answer()
    assert list(recall.result(60)) == ["recalled"]
    assert len(signals.result(60)) == 200
    assert model.calls[1][0] == "recalled"
    assert [len(call) for call in model.calls[1:]] == [64, 64, 64, 9]


def test_a_suspect_shares_its_call_with_nobody(model: Slow, callers: WaitingCallers) -> None:
    others = [callers.ask("a"), callers.ask("suspect", alone=True), callers.ask("b")]
    callers.answer()
    assert [list(future.result(60)) for future in others] == [["a"], ["suspect"], ["b"]]
    assert sorted(map(sorted, model.calls[1:])) == [["a", "b"], ["suspect"]]


@pytest.mark.parametrize("bad", ["bad", "endless"])
def test_a_text_that_the_model_fails_at_costs_no_other_its_row(model: Slow, bad: str) -> None:
    """The model raises or gives values that are not numbers; halves are tried, so the others take few calls."""
    texts = [*(f"t{i}" for i in range(99)), bad]
    rows = BatchedEncoder(model, delay=0).encode(texts)
    assert [text for text, row in rows.items() if isinstance(row, ValueError)] == [bad]
    assert sum(not isinstance(row, Exception) for row in rows.values()) == 99
    assert len(model.calls) <= 18


def test_a_model_that_fails_at_any_text_is_away(model: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    """No text is to blame then, and none may end in the dead letters; half a minute later it is tried again."""
    now = [1_000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    gathering = BatchedEncoder(model, delay=0)
    model.broken = "out of memory"
    with pytest.raises(Unavailable, match=r"slow fails: RuntimeError: out of memory"):
        gathering.encode([f"t{i}" for i in range(8)])
    assert len(model.calls) <= 5, "the first text that fails alone is enough"
    with pytest.raises(Unavailable, match="out of memory"):
        gathering.ready()
    now[0] += RETRY_SECONDS + 1
    gathering.ready()
    model.broken = ""
    assert len(gathering.encode(["a"])) == 1
    now[0] -= RETRY_SECONDS
    gathering.ready()


def test_who_waits_keeps_what_he_holds_and_stops_when_he_cannot(
    callers: WaitingCallers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer renews its lease while the model computes for others; fenced, it waits no longer."""
    monkeypatch.setattr(module, "KEEP_SECONDS", 0.001)
    kept: list[int] = []

    def keep() -> None:
        kept.append(1)
        if len(kept) == 3:
            raise Fenced

    with pytest.raises(Fenced):
        callers.gathering.encode(["a"], keep=keep)
    assert len(kept) == 3
    callers.answer()
    assert list(callers.first.result(60)) == ["first"]


def test_nobody_waits_for_ever(model: Slow, callers: WaitingCallers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that hangs holds no lease for ever."""
    monkeypatch.setattr(module, "KEEP_SECONDS", 0.001)
    monkeypatch.setattr(module, "MAX_ENCODE_WAIT", 0.01)
    with pytest.raises(Unavailable, match="has not answered"):
        callers.gathering.encode(["a"])
    assert model.calls == [["first"]]


def test_the_thread_ends_when_idle_and_begins_again(model: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    gathering = BatchedEncoder(model, delay=0)
    for _ in range(2):
        gathering.encode(["a"])
        wait_until(lambda: gathering._thread is None, "the thread has ended")
    assert model.calls == [["a"], ["a"]]
    assert gathering.encode([]) == {}


def test_a_model_that_gets_no_thread_is_away_until_it_gets_one(model: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other error would count as a fault of the entry, which becomes a dead letter in the end."""

    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    gathering = BatchedEncoder(model, delay=0)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        with pytest.raises(Unavailable, match="slow has no thread: can't start new thread"):
            gathering.encode(["a"])
    assert set(gathering.encode(["a", "b"])) == {"a", "b"}
