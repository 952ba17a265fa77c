"""An evaluation in its hash: written by a commit, read by loading, cached by a process."""

from __future__ import annotations

import multiprocessing
import random

import msgspec
import pytest

from tellback import Feedback, FeedbackContext, ProviderSpec
from tellback.contracts.guidance import EvaluationBegun, Outcome, ToolInvoked
from tellback.guidance.evaluation import ProviderInvoker, apply_event
from tellback.guidance.repeats import decode_call
from tellback.guidance.state import RECENT_CALLS, BatchEffects, EvaluationState, new_evaluation
from tellback.names import Family
from tellback.state import evaluation_codec
from tellback.state.evaluation_codec import (
    STATE_FIELDS,
    EvaluationCache,
    EvaluationId,
    LoadedEvaluation,
    decode_state,
    encode_new_calls,
    encode_state,
    new_version,
    newest_fields,
    state_size,
)
from tellback.state.intake_lease import Lease
from tellback.state.keys import Layout

LEASE = Lease(Layout("default", 4).shard(0), Family.EVENTS, 1)
NEXT_LEASE = Lease(Layout("default", 4).shard(0), Family.EVENTS, 2)
IDS = [EvaluationId("s", "p", f"e{n}") for n in range(10)]


class Nobody(ProviderInvoker):
    """An invoker that is never asked."""

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        raise AssertionError(f"{spec.name} was asked of {context.evaluation}")


class Hash:
    """The fields of an evaluation, and how many values were written."""

    def __init__(self) -> None:
        self.fields: dict[str, bytes] = {}
        self.written = 0

    def write(self, state: EvaluationState, kept: int) -> None:
        calls = encode_new_calls(state, kept)
        pairs = dict(zip(calls[::2], calls[1::2], strict=True))
        self.fields |= {str(field): bytes(line) for field, line in pairs.items() if isinstance(line, bytes)}
        self.fields["state"] = encode_state(state)
        self.written = len(pairs)

    def read(self) -> tuple[EvaluationState, int]:
        _, raw, _, _, *lines = (self.fields.get(field) for field in STATE_FIELDS)
        assert raw is not None
        return decode_state(raw, lines)


def call(state: EvaluationState, times: int = 1) -> None:
    event = ToolInvoked(event_id="t", session="s", evaluation="e", prompt="p", tool="search", params={"q": "x"})
    for _ in range(times):
        apply_event(state, event, 1_000 + state.calls, Nobody(), BatchEffects())


def indexes(state: EvaluationState) -> list[int]:
    return [decode_call(line).call_index for line in state.recent]


@pytest.mark.parametrize("calls", [0, 1, 5, 31, 32, 33, 64, 100])
def test_what_is_written_is_what_is_read(calls: int) -> None:
    stored, state = Hash(), new_evaluation("s", "p", "e", 1)
    call(state, calls)
    stored.write(state, 0)
    read, kept = stored.read()
    assert read == state
    assert kept == calls
    assert indexes(read) == list(range(max(1, calls - RECENT_CALLS + 1), calls + 1))


@pytest.mark.parametrize("batch", [1, 7, 32, 40])
def test_a_commit_writes_the_new_calls_alone(batch: int) -> None:
    stored, state, kept = Hash(), new_evaluation("s", "p", "e", 1), 0
    for _ in range(10):
        call(state, batch)
        stored.write(state, kept)
        assert stored.written == min(batch, RECENT_CALLS)
        state, kept = stored.read()
    assert indexes(state) == list(range(10 * batch - min(10 * batch, RECENT_CALLS) + 1, 10 * batch + 1))
    stored.write(state, kept)
    assert stored.written == 0


def test_the_state_itself_holds_no_call() -> None:
    state = new_evaluation("s", "p", "e", 1)
    call(state, 50)
    assert "recent" not in msgspec.json.decode(encode_state(state))
    assert len(state.recent) == RECENT_CALLS
    assert state_size(encode_state(state), state) > len(msgspec.json.encode(state.recent))


@pytest.mark.parametrize("calls", [1, 20, 32, 50])
def test_a_state_of_an_earlier_version_keeps_its_calls_and_hands_them_over_once(calls: int) -> None:
    """It holds them itself: the first commit writes all of them beside it."""
    stored, state = Hash(), new_evaluation("s", "p", "e", 1)
    call(state, calls)
    stored.fields["state"] = msgspec.json.encode(state)
    read, kept = stored.read()
    assert (indexes(read), kept) == (indexes(state), max(0, calls - RECENT_CALLS))
    call(read)
    stored.write(read, kept)
    assert stored.written == min(calls + 1, RECENT_CALLS)
    assert indexes(stored.read()[0]) == indexes(read)


def test_what_a_worker_of_an_earlier_version_adds_meanwhile_follows_what_stands_beside() -> None:
    """While workers are upgraded one that knows no fields of calls writes a state that holds its own."""
    stored, state = Hash(), new_evaluation("s", "p", "e", 1)
    call(state, 40)
    stored.write(state, 0)
    older = msgspec.json.decode(stored.fields["state"], type=EvaluationState)
    call(older, 3)
    stored.fields["state"] = msgspec.json.encode(older)
    read, kept = stored.read()
    assert (indexes(read), kept) == (list(range(12, 44)), 40)


def test_no_two_versions_are_the_same_and_each_is_a_number_of_lua() -> None:
    versions = {new_version() for _ in range(1_000)}
    assert len(versions) == 1_000
    assert all(0 < int(version) <= 2**52 for version in versions)


def test_versions_of_two_processes_differ() -> None:
    """A child goes on with its parent's generator, and a provider may seed that of the module `random`."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        versions = [*pool.map(_versions, range(4), chunksize=1), [new_version() for _ in range(100)]]
    for _ in range(2):
        random.seed(7)
        versions.append([new_version() for _ in range(100)])
    assert len({one for some in versions for one in some}) == 700


def _versions(_: int) -> list[bytes]:
    return [new_version() for _ in range(100)]


def loaded(version: bytes = b"1") -> LoadedEvaluation:
    return LoadedEvaluation(version, new_evaluation("s", "p", "e", 1), frozenset())


def test_what_was_committed_is_known_once_and_under_its_lease_alone() -> None:
    remembered = EvaluationCache()
    assert remembered.take(LEASE, IDS[0]) is None
    for again in (loaded(b"1"), loaded(b"2")):
        remembered.put(LEASE, IDS[0], again, 10)
    assert len(remembered) == 1
    assert remembered.take(LEASE, IDS[0]) is again
    assert remembered.take(LEASE, IDS[0]) is None
    remembered.put(LEASE, IDS[0], again, 10)
    assert remembered.take(NEXT_LEASE, IDS[0]) is None
    assert len(remembered) == 0


def test_the_longest_unused_go_above_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_codec, "MAX_EVALUATIONS", 3)
    remembered = EvaluationCache()
    for id_ in (*IDS[:3], IDS[0], IDS[3]):
        remembered.put(LEASE, id_, loaded(), 10)
    assert [id_ for id_ in IDS if remembered.take(LEASE, id_)] == [IDS[0], IDS[2], IDS[3]]


def test_the_longest_unused_go_above_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_codec, "MAX_BYTES", 100)
    remembered = EvaluationCache()
    for id_, size in zip(IDS, (40, 40, 40, 10), strict=False):
        remembered.put(LEASE, id_, loaded(), size)
    assert [id_ for id_ in IDS if remembered.take(LEASE, id_)] == IDS[1:4]
    remembered.put(LEASE, IDS[0], loaded(), 101)
    assert len(remembered) == 0
    remembered.put(LEASE, IDS[1], loaded(), 100)
    assert len(remembered) == 1
    remembered.put(LEASE, IDS[0], loaded(), 101)
    assert remembered.take(LEASE, IDS[1]), "one that never fits costs no other its place"


def test_what_left_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_codec, "MAX_BYTES", 100)
    remembered = EvaluationCache()
    for _ in range(3):
        remembered.put(LEASE, IDS[0], loaded(), 60)
        assert remembered.take(LEASE, IDS[0])
        for id_, size in ((IDS[0], 40), (IDS[0], 40), (IDS[1], 60)):
            remembered.put(LEASE, id_, loaded(), size)
        assert len(remembered) == 2
        remembered.forget([LEASE])


def test_what_was_committed_under_a_lease_is_forgotten_with_it() -> None:
    remembered = EvaluationCache()
    other = Lease(Layout("other", 4).shard(0), Family.EVENTS, 1)
    remembered.put(LEASE, IDS[0], loaded(), 10)
    remembered.put(LEASE, IDS[1], loaded(), 10)
    remembered.put(other, IDS[0], loaded(), 10)
    remembered.forget([LEASE])
    assert len(remembered) == 1
    assert remembered.take(other, IDS[0])


def test_the_newest_call_and_the_newest_host_are_what_a_session_shows() -> None:
    def invoked(tool: str, outcome: Outcome | None = None) -> ToolInvoked:
        return ToolInvoked(event_id=tool, session="s", evaluation="e", prompt="p", tool=tool, outcome=outcome)

    def begun(host: str) -> EvaluationBegun:
        return EvaluationBegun(event_id="begun", session="s", evaluation="e", prompt="p", host=host or msgspec.UNSET)

    assert newest_fields([begun("one"), invoked("first"), begun("two"), invoked("second"), begun("")]) == [
        *("tool", "second", "status", "ok", "prompt", "p", "host", "two")
    ]
    failed = invoked("search", Outcome(status="error", code="unavailable"))
    assert newest_fields([failed]) == ["tool", "search", "status", "unavailable", "prompt", "p"]
    assert newest_fields([begun("")]) == []
