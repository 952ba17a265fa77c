"""Workers with other models than a bank's leave its signals and facts to those that have it, for a while."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import msgspec
import pytest
from typer.testing import CliRunner

from tellback import Tellback
from tellback.cli.app import app
from tellback.doctor.examination import run_checks
from tellback.embedding.reembedding import Reembedding
from tellback.errors import ConfigurationError
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.embeddings import Encoders
from tellback.state.keys import Layout, stream_of
from tellback.state.stored_facts import FactBacklog, FactStore
from tellback_workers import consumer
from tests.support.clocks import DAY_MS, ServerClock, later
from tests.support.signals import Bench, Wider, item, serving, signal
from tests.support.waiting import wait_until


@pytest.fixture
def other(settings: Settings, layout: Layout) -> Iterator[Bench]:
    """A worker of the same fleet with another model."""
    bench = Bench(settings, layout, Wider())
    yield bench
    bench.close()


@pytest.fixture
def neighbour(layout: Layout) -> str:
    """A bank in the shard of the bank `b`."""
    return next(name for name in map(str, range(100)) if layout.of(name) == layout.of("b"))


def reported(tb: Tellback, bank: str = "b") -> list[str]:
    store = FactStore(tb.context.database, tb.context.layout.of(bank), bank)
    return sorted(memory.fact_id for memory in store.newest(100))


def test_signals_wait_for_the_worker_that_has_the_model(
    tb: Tellback, bench: Bench, other: Bench, neighbour: str
) -> None:
    """The other one comes by as often as it likes; other banks are served, and nothing is embedded in vain."""
    signal(tb, bench, [item("f", "a", "helpful")])
    for _ in range(3):
        tb.bank("b").signal([item("f", "a", "helpful")])
        tb.bank(neighbour).signal([item("f", "a")])
        tb.flush()
        for _ in range(7):
            other.consume()
    assert tb.bank(neighbour).stats().model == "wider"
    assert tb.bank(neighbour).fact_stats("f").signal_count == 3
    assert tb.bank("b").fact_stats("f").signal_count == 1
    assert sum(map(len, other.encoder.calls)) == 1, "the text of all of them"
    assert tb.dead.count() == 0
    bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 4
    assert tb.dead.count() == 0


def test_what_came_before_the_workers_of_a_new_model_is_applied_by_them(
    tb: Tellback, bench: Bench, other: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was there before applies it too, a second after it found the bank to have the former model."""
    signal(tb, bench, [item("f", "a")])
    tb.bank("b").signal([item("f", "a")])
    tb.flush()
    other.consume()
    Reembedding(tb.context.database, layout.of("b"), "b", Wider()).run()
    bench.consume()
    other.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 1, "what was found a moment ago holds"
    later(monkeypatch, 1.1)
    other.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 2
    assert tb.dead.count() == 0


def test_what_waits_too_long_is_a_dead_letter(tb: Tellback, bench: Bench, settings: Settings, layout: Layout) -> None:
    signal(tb, bench, [item("f", "a")])
    short = Bench(msgspec.structs.replace(settings, model_wait=0), layout, Wider())
    tb.bank("b").signal([item("f", "a")])
    tb.flush()
    short.consume()
    short.close()
    [letter] = tb.dead.newest()
    assert "s for a worker with the model of its bank; bank 'b' was begun with the model angles" in letter.reason
    assert "TELLBACK_MODEL" in letter.reason
    assert tb.dead.replay(letter.id)
    bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 2


def test_a_recall_does_not_wait_for_what_became_a_dead_letter(
    tb: Tellback, bench: Bench, settings: Settings, layout: Layout
) -> None:
    """It would wait until its time is over, since that is never applied."""
    bank = tb.bank("b")
    bank.remember("f", "x")
    with serving(bench, Family.SIGNALS, Family.RECALLS):
        assert [hit.fact_id for hit in bank.recall("x", wait=20)] == ["f"]
    bank.remember("g", "x")
    tb.flush()
    backlog = FactBacklog(tb.context.database, layout.of("b"), "b")
    event_id, last = tb.context.awaited_events.of("b"), backlog.newest_id()
    assert event_id
    assert last
    assert not backlog.is_applied(event_id, last)
    short = Bench(msgspec.structs.replace(settings, model_wait=0), layout, Wider())
    short.consume()
    short.close()
    assert tb.dead.count() == 1
    assert backlog.is_applied(event_id, last), "nothing of it waits"
    with serving(bench, Family.SIGNALS, Family.RECALLS):
        assert [hit.fact_id for hit in bank.recall("x", wait=20)] == ["f"]
        bank.remember("h", "x@10")
        assert [hit.fact_id for hit in bank.recall("x", wait=20)] == ["f", "h"]


def test_what_came_while_nobody_worked_waits_too(
    tb: Tellback, bench: Bench, other: Bench, clock: ServerClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time begins when a worker without the model meets it, and is over where that continues."""
    signal(tb, bench, [item("f", "a")])
    tb.bank("b").signal([item("f", "a")])
    tb.flush()
    clock.step(DAY_MS)
    for _ in range(12):
        other.consume()
        assert tb.dead.count() == 0
        later(monkeypatch, 50)
    later(monkeypatch, 70)  # others had it meanwhile, or nobody: it is met for the first time again
    for _ in range(12):
        other.consume()
        assert tb.dead.count() == 0
        later(monkeypatch, 50)
    other.consume()
    [letter] = tb.dead.newest()
    # The test's own seconds count too.
    assert re.match(r"waited 6\d\d s for a worker with the model of its bank", letter.reason)


def test_a_stream_keeps_a_bounded_number_waiting(
    tb: Tellback, bench: Bench, other: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pass looks at all of them, and other banks wait meanwhile."""
    monkeypatch.setattr(consumer, "MAX_DEFERRED", 5)
    signal(tb, bench, [item("f", "a")])
    for _ in range(8):
        tb.bank("b").signal([item("f", "a")])
    tb.flush()
    for _ in range(3):
        other.consume()
    assert (sum(other.intake.lengths().values()), tb.dead.count()) == (5, 3)
    bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 6


def test_what_waits_was_not_delivered(tb: Tellback, bench: Bench, other: Bench) -> None:
    """A poisonous entry has five tries by workers that can try it."""
    signal(tb, bench, [item("f", "a")])
    tb.bank("b").signal([item("f", "a")])
    tb.flush()
    for _ in range(3):
        other.consume()
    lease = bench.lease("b")
    [raw] = bench.intake.read_pending(lease, "0", 10)
    assert raw.deliveries == 2, "the first reading, and this one"


def test_facts_wait_and_keep_their_order(tb: Tellback, bench: Bench, other: Bench, neighbour: str) -> None:
    """A fact to forget waits for the facts to remember before it, or it would come back."""
    bank = tb.bank("b")
    bank.remember("kept", "x")
    tb.flush()
    bench.consume()
    bank.remember("gone", "y")
    tb.bank(neighbour).remember("f", "x")
    bank.forget("gone")
    tb.flush()
    for _ in range(7):
        other.consume()
    bank.forget("kept")
    tb.flush()
    other.consume()
    assert (reported(tb), reported(tb, neighbour)) == (["kept"], ["f"])
    assert sum(map(len, other.encoder.calls)) == 1, "that of the neighbour"
    bench.consume()
    assert reported(tb) == []
    assert tb.dead.count() == 0


def test_a_bank_of_a_model_that_nobody_has_can_be_emptied(
    tb: Tellback, bench: Bench, other: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tb.bank("b").remember("f", "x")
    tb.flush()
    bench.consume()
    tb.bank("b").forget("f")
    tb.bank("b").remember("g", "x")
    tb.flush()
    other.consume()
    assert reported(tb) == []
    later(monkeypatch, 1.1)
    other.consume()
    assert reported(tb) == ["g"]


def test_the_doctor_and_stats_say_who_waits_for_what(
    tb: Tellback, bench: Bench, other: Bench, settings: Settings, layout: Layout
) -> None:
    signal(tb, bench, [item("f", "a")])
    tb.bank("b").signal([item("f", "a")])
    tb.flush()
    other.consume()
    found = {each.found: each for each in run_checks(settings, url_given=True) if each.check.startswith("model of ")}
    [refusing] = [each for found, each in found.items() if found.startswith("wider")]
    assert refusing.state == "note"
    assert "bank 'b' was begun with the model angles" in refusing.found
    assert "TELLBACK_MODEL_WAIT" in refusing.advice

    def said(*arguments: str) -> str:
        return CliRunner().invoke(app, [*arguments, "--redis-url", settings.redis_url], env={"COLUMNS": "200"}).stderr

    assert "1 waiting batch of signals, some of them for a worker with another model" in said("stats", "--bank", "b")
    bench.consume()
    assert said("stats", "--bank", "b") == ""
    [state] = [each for each in Encoders(tb.context.database, layout).all() if each.model == "wider"]
    assert (state.state, "bank 'b'" in state.mismatch) == ("loaded", True)


def test_a_recall_of_ones_own_facts_waits_for_no_other_bank(
    tb: Tellback, bench: Bench, other: Bench, neighbour: str
) -> None:
    """They are applied, though something that came before them waits in the same stream."""
    tb.bank("b").remember("f", "x")
    tb.flush()
    bench.consume()
    tb.bank("b").remember("g", "x")
    tb.bank(neighbour).remember("n", "x")
    tb.flush()
    other.consume()
    with serving(other):
        [hit] = tb.bank(neighbour).recall("x", wait=20)
    assert hit.fact_id == "n"
    assert sum(other.intake.lengths().values()) == 1


def test_a_recall_asks_another_worker(tb: Tellback, bench: Bench, other: Bench) -> None:
    """One with another model than the bank's answers first, and the next one has it."""
    signal(tb, bench, [item("f", "x@0", "helpful")])
    turns = iter([other, other, bench])

    def take_turns() -> None:
        for each in turns:
            wait_until(lambda: tb.context.database.command("XLEN", stream), "a request waits")
            each.consume(Family.RECALLS)

    stream = stream_of(tb.context.layout.of("b"), Family.RECALLS)
    workers = threading.Thread(target=take_turns)
    workers.start()
    [hit] = tb.bank("b").recall("x@0", [("f", 0.5)], wait=30)
    workers.join()
    assert (hit.scope, hit.degraded) == ("cluster", False)


def test_a_recall_that_only_finds_other_models_says_so(tb: Tellback, bench: Bench, other: Bench) -> None:
    """It does after some tries, and long before its wait is over."""
    signal(tb, bench, [item("f", "x@0", "helpful")])
    with serving(other), pytest.raises(ConfigurationError, match="begun with the model angles"):
        tb.bank("b").recall("x@0", [("f", 0.5)], wait=60)
