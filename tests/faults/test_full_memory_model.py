"""A broker that takes nothing, beside a pool of processes that own the model: signals and recalls do not wait."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tellback import RecallHit, Settings, SignalItem, Tellback, connect
from tellback.contracts.signals import MAX_WAIT
from tellback.names import Family
from tellback.state.keys import stream_of
from tests.support.keyleaks import undeclared
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from tests.support.workers import Workers, stopped

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.model, pytest.mark.timeout(300)]

BANKS = [f"bank{number}" for number in range(8)]  # of several shards
SIGNALS = 40  # of each bank
LOADING = 120.0  # seconds for a pool process to load the model on a busy machine
QUERY = "How do we rotate keys?"


@contextmanager
def pooled(settings: Settings, folder: Path) -> Generator[Workers]:
    """A worker with a pool of one process, which loads the model when it first needs it."""
    workers = Workers(settings, folder, queues="signals,recalls", concurrency=1)
    try:
        workers.start()
        yield workers
    finally:
        workers.stop()


def load_model(tb: Tellback) -> None:
    """Have the model loaded through a wake-up, so that no recall waits for that."""
    tb.bank("first").signal([SignalItem(fact_id="f", signal_type="used", query=QUERY)])
    tb.flush()
    wait_until(lambda: waiting(tb) == 0, "the model is loaded", timeout=LOADING)


def signal_all(tb: Tellback, name: str) -> None:
    """Publish a number of signals to each bank, a batch each."""
    for bank in BANKS:
        for number in range(SIGNALS):
            tb.bank(bank).signal(
                [SignalItem(fact_id=name, signal_type="used", query=f"{QUERY} {number % 4}", confidence=0.01)]
            )
    tb.flush()


def applied(tb: Tellback, name: str) -> dict[str, int]:
    return {bank: tb.bank(bank).fact_stats(name).signal_count for bank in BANKS}


def recalled(tb: Tellback) -> list[RecallHit]:
    return tb.bank(BANKS[0]).recall(QUERY, [("f", 0.5), ("g", 0.4)], wait=MAX_WAIT)


def waiting(tb: Tellback) -> int:
    streams = [
        stream_of(shard, family) for shard in tb.context.layout.all for family in (Family.SIGNALS, Family.RECALLS)
    ]
    return sum(tb.context.database.pipeline([("XLEN", stream) for stream in streams]))


def test_a_full_redis_keeps_no_signal_and_no_recall_waiting(tmp_path: Path) -> None:
    """The streams were filled before Redis was full, and none of their wake-ups passes any more."""
    with RedisServer.start(tmp_path) as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"), beat_period=0.5)
        with connect(settings=settings) as tb, pooled(settings, tmp_path) as workers, ThreadPoolExecutor(1) as pool:
            load_model(tb)
            with stopped(workers):
                signal_all(tb, "f")
                asked = pool.submit(recalled, tb)
                wait_until(lambda: waiting(tb) == SIGNALS * len(BANKS) + 1, "all wait")
                tb.context.database.command("CONFIG", "SET", "maxmemory", 1)
            wait_until(lambda: waiting(tb) == 0, f"all is applied, see {workers.logs[0]}")
            assert applied(tb, "f") == dict.fromkeys(BANKS, SIGNALS)
            assert [hit.degraded for hit in asked.result(timeout=60)] == [False, False]
            assert recalled(tb)[0].degraded, "a request that a full Redis refuses is answered by global scores"
            assert tb.dead.count() == 0
            tb.context.database.command("CONFIG", "SET", "maxmemory", 0)
            signal_all(tb, "g")
            wait_until(lambda: waiting(tb) == 0, "and all continues")
            assert applied(tb, "g") == dict.fromkeys(BANKS, SIGNALS)
            assert workers.processes[0].poll() is None
            assert not undeclared(tb.context.database)


def test_a_broker_that_is_away_keeps_no_signal_and_no_recall_waiting(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("state", "broker")]
    for folder in folders:
        folder.mkdir()
    with RedisServer.start(folders[0]) as redis, RedisServer.start(folders[1]) as broker:
        settings = Settings(
            redis_url=redis.url, broker_url=broker.url, data_dir=str(tmp_path / "data"), beat_period=0.5
        )
        with connect(settings=settings) as tb, pooled(settings, tmp_path) as workers:
            load_model(tb)
            broker.kill()
            signal_all(tb, "f")
            assert [hit.degraded for hit in recalled(tb)] == [False, False]
            wait_until(lambda: waiting(tb) == 0, f"all is applied, see {workers.logs[0]}")
            assert applied(tb, "f") == dict.fromkeys(BANKS, SIGNALS)
            assert workers.processes[0].poll() is None
            broker.launch()
            signal_all(tb, "g")
            wait_until(lambda: waiting(tb) == 0, "and all continues")
            assert applied(tb, "g") == dict.fromkeys(BANKS, SIGNALS)
