"""Facts as workers store them: bounds, deliveries that come again, lost tails, models that fail or change."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tellback import SignalItem, Tellback
from tellback.errors import ConfigurationError
from tellback.names import Family
from tellback.settings import Settings
from tellback.signals.matching import Vectors
from tellback.state import stored_facts
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.intake_lease import FIELD, Fenced
from tellback.state.keys import Layout, stream_of
from tellback.state.lua_text import script_text
from tellback_workers.loops import fact_writer
from tests.support.lost_tail import restore, snapshot
from tests.support.redis_server import RedisServer
from tests.support.signals import Angles, Bench
from tests.support.stored_facts import found, ids, remembered, store
from tests.support.vector_sets import settings_with


@pytest.fixture
def settings(redis_server: RedisServer, settings: Settings, vector_sets: str) -> Settings:
    """Settings of a server that has vector sets, and of one that does not let us use them."""
    return settings_with(redis_server, settings, vector_sets)


def test_a_fact_of_a_lost_tail_is_not_found_again(tb: Tellback, bench: Bench, database: Database) -> None:
    """Redis comes back without its last second: the worker's copy has a fact that the bank has not."""
    remembered(tb, bench, {"f": "x@40"})
    kept = snapshot(database)
    remembered(tb, bench, {"g": "x"})
    assert ids(found(tb, bench, "x", limit=1)) == ["g"]
    restore(database, kept)
    assert ids(found(tb, bench, "x", limit=1)) == ["f"]


@pytest.mark.parametrize("stored", [1, 2], ids=["as many", "one more"])
def test_facts_of_a_lost_tail_are_not_taken_for_those_stored_since(
    tb: Tellback, bench: Bench, database: Database, stored: int
) -> None:
    """Redis comes back without its last second, and other facts are stored under the same versions."""
    remembered(tb, bench, {"f": "x@40"})
    kept = snapshot(database)
    remembered(tb, bench, {"g": "x"})
    assert ids(found(tb, bench, "x", limit=1)) == ["g"]
    restore(database, kept)
    since = ["h", "i"][:stored]
    remembered(tb, bench, dict.fromkeys(since, "x@10"))
    assert ids(found(tb, bench, "x")) == [*since, "f"]


def test_a_batch_keeps_its_order_when_redis_has_forgotten_one_of_its_scripts(
    tb: Tellback, bench: Bench, database: Database
) -> None:
    """The calls of the forgotten script are repeated: later ones of another script must not have run before them."""
    remembered(tb, bench, {"other": "y"})
    tb.bank("b").remember("a", "x@0")
    tb.bank("b").forget("a")
    tb.flush()
    database.command("SCRIPT", "FLUSH")
    database.command("SCRIPT", "LOAD", script_text("signals/forget_fact"))
    bench.consume()
    assert ids(found(tb, bench, "x@0")) == ["other"]


def test_over_its_bounds_a_bank_loses_what_it_stored_longest_ago(
    settings: Settings, layout: Layout, tb: Tellback, encoder: Angles
) -> None:
    bench = Bench(msgspec.structs.replace(settings, bank_stored_facts=3), layout, encoder)
    remembered(tb, bench, {"a": "x", "b": "x", "c": "x"})
    remembered(tb, bench, {"a": "x@1"})  # remembered again: now the newest
    remembered(tb, bench, {"d": "x"})
    assert sorted(ids(found(tb, bench, "x"))) == ["a", "c", "d"]
    assert [memory.fact_id for memory in store(tb).newest(10)] == ["d", "a", "c"]
    bench.close()
    small = Bench(msgspec.structs.replace(settings, bank_stored_bytes=65_536), layout, encoder)
    remembered(tb, small, {"big": "x" + " " * 40_000 + "."})
    assert store(tb).count() == 4
    remembered(tb, small, {"bigger": "x" + " " * 60_000 + "."})
    assert [memory.fact_id for memory in store(tb).newest(10)] == ["bigger"]
    info = store(tb).info()
    assert info is not None
    assert info.bytes == 60_002 + 8
    remembered(tb, small, {"bigger": "x"})
    info = store(tb).info()
    assert info is not None
    assert info.bytes == 1 + 8
    small.close()


def test_what_is_delivered_again_has_no_effect(tb: Tellback, bench: Bench) -> None:
    """A host whose reply was lost sends a remember again, after another has forgotten the fact."""
    shard = tb.context.layout.of("b")
    stream = stream_of(shard, Family.SIGNALS)
    tb.bank("b").remember("f", "x")
    tb.flush()
    [(_, fields)] = tb.context.database.command("XRANGE", stream, "-", "+")
    bench.consume()
    remembered(tb, bench, {"g": "x@10"})
    tb.bank("b").forget("f")
    tb.flush()
    bench.consume()
    tb.context.database.command("XADD", stream, "*", FIELD, fields[1])
    bench.consume()
    assert store(tb).texts(["f", "g"]) == {"g": "x@10"}
    assert tb.context.database.command("XLEN", stream) == 0


def test_a_consumer_whose_lease_has_passed_on_writes_nothing(tb: Tellback, bench: Bench) -> None:
    tb.bank("b").remember("f", "x")
    tb.flush()
    lease = bench.lease("b")
    entries = bench.read(lease)
    bench.intake.release(lease)
    bench.lease("b")
    with pytest.raises(Fenced):
        bench.loops[Family.SIGNALS].apply(lease, entries)
    assert store(tb).info() is None


def test_one_fact_that_the_model_fails_at_costs_no_other(tb: Tellback, bench: Bench, layout: Layout) -> None:
    """It goes to the dead letters with its reason; the facts and signals around it are applied."""
    bank = tb.bank("b")
    bank.remember("bad", "x@not-a-number")
    bank.remember("good", "x")
    bank.signal([SignalItem(fact_id="good", signal_type="used", query="x")])
    tb.flush()
    for _ in range(6):
        bench.consume()
    assert store(tb).texts(["bad", "good"]) == {"good": "x"}
    assert bank.fact_stats("good").signal_count == 1
    [letter] = DeadLetters(tb.context.database, layout).newest()
    assert "could not convert string to float" in letter.reason


class FlakyModel(Angles):
    """Fails at one text until it has been asked for that alone."""

    failed = False

    def encode(self, texts: Sequence[str]) -> Vectors:
        if not self.failed and "x@77" in texts:
            self.failed = len(texts) == 1
            raise ValueError("out of memory")
        return super().encode(texts)


def test_the_later_text_of_a_fact_stands(settings: Settings, layout: Layout, tb: Tellback) -> None:
    """It stands where the model failed at the first fact, too, and that was tried again."""
    bench = Bench(settings, layout, FlakyModel())
    remembered(tb, bench, {"f": "x@77", "h": "x@3"})
    assert store(tb).texts(["f", "h"]) == {"f": "x@77", "h": "x@3"}
    bench.close()
    bench = Bench(settings, layout, FlakyModel())
    tb.bank("b").remember("f", "x@77")
    tb.bank("b").remember("f", "x@1")
    tb.bank("b").remember("g", "x@2")
    tb.bank("b").forget("g")
    tb.flush()
    bench.consume()
    assert store(tb).texts(["f", "g"]) == {"f": "x@1"}
    bench.close()


def test_facts_of_another_model_are_refused_with_what_to_do(
    settings: Settings, layout: Layout, tb: Tellback, bench: Bench
) -> None:
    """Nothing of the bank changes, and other banks of the shard are served."""
    remembered(tb, bench, {"f": "x"})

    class Other(Angles):
        model = "other"

    other = Bench(settings, layout, Other())
    bank = "b"
    message = (
        "bank 'b' remembers were embedded with the model angles of 52 dimensions, and this process has other of 52"
    )
    with pytest.raises(ConfigurationError, match=message):
        found(tb, other, "x")
    tb.bank(bank).remember("g", "x")
    tb.flush()
    lease = other.lease(bank)
    with pytest.raises(ConfigurationError, match=message):
        other.loops[Family.SIGNALS].apply(lease, other.read(lease))
    other.intake.release(lease)
    other.close()
    bench.consume()
    assert sorted(ids(found(tb, bench, "x"))) == ["f", "g"]


def test_a_process_that_was_behind_learns_what_came_and_what_went(
    tb: Tellback, bench: Bench, settings: Settings, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The updates may come in several replies, and the facts may all have been forgotten and started over."""
    monkeypatch.setattr(stored_facts, "LOAD_BATCH", 3)
    other = Bench(settings, layout, Angles())
    remembered(tb, bench, {f"f{i}": f"x@{i}" for i in range(8)})
    assert ids(found(tb, other, "x", limit=3)) == ["f0", "f1", "f2"]
    for i in range(0, 8, 2):
        tb.bank("b").forget(f"f{i}")
    remembered(tb, bench, {"f1": "x@30", "f8": "x@2"})
    assert ids(found(tb, other, "x")) == ["f8", "f3", "f5", "f7", "f1"]
    for i in (8, 1, 3, 5, 7):
        tb.bank("b").forget(f"f{i}")
    remembered(tb, bench, {"new": "x"})
    assert ids(found(tb, other, "x")) == ["new"]
    other.close()


def test_who_is_forgotten_waits_for_a_fact_that_failed_however_many_are_between(
    tb: Tellback, bench: Bench, database: Database
) -> None:
    """It was forgotten at once and stored afterwards, if more than 64 entries stood between: the fact came back."""
    bank = tb.bank("b")
    bank.remember("f", "x@bad")
    for number in range(fact_writer.BATCH):
        bank.remember(f"other-{number}", "x")
    bank.forget("f")
    tb.flush()
    lease = bench.lease("b")
    with pytest.raises(ValueError, match="bad"):
        bench.loops[Family.SIGNALS].apply(lease, bench.read(lease))
    assert database.command("XLEN", lease.stream) == 2, "to remember and to forget it"
