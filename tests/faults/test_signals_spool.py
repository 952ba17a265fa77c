"""Redis goes away under hosts that signal: everything is on their disk meanwhile, and counts once when it is back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tellback import Settings, Tellback, connect
from tests.support.redis_server import RedisServer
from tests.support.signals import Angles, Bench, counted, item
from tests.support.waiting import wait_until
from tests.support.workers import environment

pytestmark = pytest.mark.faults

# A host that cannot reach Redis, and dies with its signals on disk.
HOST = """
import sys, time, tellback
with tellback.connect() as tb:
    for i in range(50):
        tb.bank("b").signal([tellback.SignalItem(fact_id="f", signal_type="ignored", query="a", signal_id=f"dead-{i}")])
    tb.flush()
    assert tb.context.publisher.spooled
    print("spooled", flush=True)
    time.sleep(60)
"""


def signal(tb: Tellback, first: int, number: int) -> None:
    """So many of one fact; each is sent twice, as by a host that repeats a call."""
    for i in range(first, first + number):
        each = item("f", "a", "used" if i % 2 else "helpful", signal_id=f"{i}")
        for _ in range(2):
            tb.bank("b").signal([each], session="s")


def test_signals_outlive_redis_and_their_host(tmp_path: Path) -> None:
    """Redis is away twice and a host is killed meanwhile; the count is exact, in the order of each process' signals."""
    (tmp_path / "redis").mkdir()
    with RedisServer.start(tmp_path / "redis") as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"), publish_delay=0)
        with connect(settings=settings) as tb:
            layout = tb.context.layout
            signal(tb, 0, 100)
            server.kill()
            signal(tb, 100, 100)
            tb.flush()
            assert tb.context.publisher.spooled
            host = subprocess.Popen(
                [sys.executable, "-c", HOST], env=environment(settings), stdout=subprocess.PIPE
            )  # fmt: skip
            assert host.stdout is not None
            assert host.stdout.readline() == b"spooled\n"
            host.kill()
            host.wait()
            host.stdout.close()
            server.launch()
            signal(tb, 200, 100)
            server.restart()
            signal(tb, 300, 100)
            wait_until(lambda: not tb.context.publisher.spooled, "what was spooled is sent")
        with connect(settings=settings) as tb:
            tb.bank("b").signal([item("last", "a")], session="s")
            tb.flush()
            bench = Bench(settings, layout, Angles())
            bench.consume()
            stats = tb.bank("b").fact_stats("f")
            assert stats.signal_breakdown == counted(used=200, ignored=50, helpful=200)
            own = [entry["signal_type"] for entry in tb.history("s") if entry["fact_id"] == "f"]
            assert own == ["helpful", "used"] * 200
            assert tb.bank("b").stats().clusters == 1
            assert not list(Path(settings.data_dir).rglob("*.spool"))
            bench.close()
