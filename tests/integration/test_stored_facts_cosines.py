"""The semantic score of a fact that a bank holds is a cosine, whatever rounding makes of it.

Facts that a bank holds while Redis is away, restarts, or has forgotten what was forgotten.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tellback import Tellback, connect
from tellback.embedding.recall import FactSearch
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.settings import Settings
from tellback.state import stored_facts
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.team import open_layout
from tests.support.redis_server import RedisServer
from tests.support.signals import Angles, Bench, serving


def test_a_semantic_score_stays_between_minus_one_and_one(
    tb: Tellback, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A float32 product of a vector with itself may be a little above 1."""

    def rounded(*_: object) -> list[tuple[str, float]]:
        return [("same", 1.0000001192092896), ("near", 0.5), ("opposite", -1.0000001192092896)]

    monkeypatch.setattr(FactSearch, "nearest", rounded)
    bank = tb.bank("b")
    for fact_id in ("same", "near", "opposite"):
        bank.remember(fact_id, "x@0")
    tb.flush()
    bench.consume()
    with serving(bench):
        hits = bank.recall("x@0", wait=20)
    assert [(hit.fact_id, hit.semantic) for hit in hits] == [("same", 1.0), ("near", 0.5), ("opposite", -1.0)]


def test_what_is_stored_while_redis_is_away_waits_on_disk_and_a_recall_waits_for_it(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path) as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"))
        database = Database(server.url)
        layout = open_layout(database, settings.team, settings.shards)
        with connect(settings=settings) as tb:
            bank = tb.bank("b")
            bank.remember("old", "x@40")
            tb.flush()
            server.kill()
            bank.remember("f", "x")
            bank.forget("old")
            tb.flush()
            assert tb.spooled
            with pytest.raises(Unavailable):
                bank.recall("x", wait=0.1)
            server.launch()
            bench = Bench(settings, layout, Angles())
            with serving(bench, Family.SIGNALS, Family.RECALLS):
                assert [hit.fact_id for hit in bank.recall("x", wait=60)] == ["f"]
            server.restart()
            with serving(bench):
                assert [(hit.fact_id, hit.text) for hit in bank.recall("x", wait=60)] == [("f", "x")]
            bench.close()
        database.close()


def test_a_recall_waits_for_what_a_full_intake_holds_back(tb: Tellback, settings: Settings, layout: Layout) -> None:
    """Facts that wait on disk for room in the stream are waited for as well."""
    del tb  # an emptied Redis
    bench = Bench(settings, layout, Angles())
    with connect(settings=msgspec.structs.replace(settings, intake_max=1)) as host:
        bank = host.bank("b")
        for i in range(3):
            bank.remember(f"f{i}", f"x@{i}")
            host.flush()
        assert host.spooled
        with serving(bench, Family.SIGNALS, Family.RECALLS):
            assert [hit.fact_id for hit in bank.recall("x", wait=60)] == ["f0", "f1", "f2"]
    bench.close()


def test_a_process_that_missed_too_much_loads_all_again(
    tb: Tellback, settings: Settings, layout: Layout, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of forgotten facts 10,000 are kept; one that is no longer listed is in no process's copy either."""

    def without(*_: object) -> bool:
        return False

    monkeypatch.setattr("tellback_workers.loops.fact_writer.has_vector_sets", without)
    bench, behind = Bench(settings, layout, Angles()), Bench(settings, layout, Angles())
    bank, shard = tb.bank("b"), layout.of("b")
    for i in range(4):
        bank.remember(f"f{i}", f"x@{i}")
    tb.flush()
    bench.consume()
    with serving(behind):
        assert [hit.fact_id for hit in bank.recall("x", limit=1, wait=20)] == ["f0"]
    bank.forget("f0")
    tb.flush()
    bench.consume()
    factinfo, gone = shard.key("factinfo", "b"), shard.key("factdeleted", "b")
    version = int(database.command("HINCRBY", factinfo, "version", 1))
    database.command("ZADD", gone, *(part for i in range(10_000) for part in (version, f"gone{i}")))
    bank.forget("f1")
    tb.flush()
    bench.consume()
    assert database.command("ZCARD", gone) == 10_000
    assert database.command("HGET", factinfo, "floor") == b"%d" % version
    info = stored_facts.FactStore(database, shard, "b").info()
    assert info is not None
    assert info.kind == "vectors"
    with serving(behind):
        assert [hit.fact_id for hit in bank.recall("x", limit=1, wait=20)] == ["f2"]
    bench.close()
    behind.close()
