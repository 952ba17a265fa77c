"""Signals of a whole session, submitted once at its end: `with bank.session(...)`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tellback import InvalidInput, Settings, SignalSession, SpoolFull, StateConflict, Tellback, aio, connect
from tellback.client import signal_session
from tellback.state.limits import LimitStore
from tests.support.redis_server import RedisServer
from tests.support.signals import Angles, Bench, counted, item


def fail_in(session: SignalSession) -> None:
    with session as signals:
        signals.used("f1", query="a")
        _ = 1 / 0


def waiting(bench: Bench) -> int:
    return sum(bench.intake.lengths().values())


def test_signals_are_collected_and_submitted_once_at_the_end(tb: Tellback, bench: Bench) -> None:
    with tb.bank("b").session("s1") as signals:
        signals.used("f1", "f3", query="a")
        signals.ignored("f2", query="a", confidence=0.5)
        signals.helpful("f1", query="b", context="thumbs up")
        signals.not_helpful(*list[str](), query="b")
        signals.add(item("f4", "b", "not_helpful"))
        tb.flush()
        assert (signals.collected, signals.session, waiting(bench)) == (5, "s1", 0)
    tb.flush()
    assert waiting(bench) == 1, "one batch"
    bench.consume()
    shown = [(e["fact_id"], e["signal_type"], e["query"], e["confidence"]) for e in tb.history("s1")]
    assert shown == [
        ("f1", "used", "a", 1.0),
        ("f3", "used", "a", 1.0),
        ("f2", "ignored", "a", 0.5),
        ("f1", "helpful", "b", 1.0),
        ("f4", "not_helpful", "b", 1.0),
    ]


def test_a_block_that_raises_submits_what_was_collected(tb: Tellback, bench: Bench) -> None:
    """Facts that the agent used before it failed were used; the block's error is raised as it was."""
    with pytest.raises(ZeroDivisionError) as raised:
        fail_in(tb.bank("b").session("s1"))
    assert not hasattr(raised.value, "__notes__")
    tb.flush()
    bench.consume()
    assert tb.bank("b").fact_stats("f1").signal_count == 1


def test_each_signal_is_checked_when_it_is_collected(tb: Tellback, bench: Bench) -> None:
    """The error comes where the mistake is, and nothing of that call is collected."""
    bank = tb.bank("b")
    with bank.session("s1") as signals:
        with pytest.raises(InvalidInput, match=r"signals\[1\].fact_id is empty"):
            signals.used("f1", "", query="a")
        with pytest.raises(InvalidInput, match="query is blank"):
            signals.used("f1", query=" ")
        with pytest.raises(InvalidInput, match="confidence is 2"):
            signals.ignored("f1", query="a", confidence=2)
        with pytest.raises(InvalidInput, match="use tellback"):
            signals.add(cast("Any", "f1"))
        assert signals.collected == 0
    with pytest.raises(StateConflict, match="begin another"):
        signals.used("f1", query="a")
    with pytest.raises(InvalidInput):
        bank.session("")
    tb.flush()
    assert waiting(bench) == 0, "an empty session submits nothing"


@pytest.mark.parametrize(("limit", "value"), [("MAX_SIGNALS", 100), ("MAX_CHARACTERS", 1_000)])
def test_a_long_session_is_bounded(
    tb: Tellback, bench: Bench, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """Beyond its bound, what there is goes out, and collecting continues."""
    monkeypatch.setattr(signal_session, limit, value)
    with tb.bank("b").session("s1") as signals:
        most = 0
        for i in range(250):
            signals.used("f", query=f"a@{i:08}")
            most = max(most, signals.collected)
        assert most == 99
    tb.flush()
    bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 250


def test_threads_of_a_host_collect_into_one_session(tb: Tellback, bench: Bench) -> None:
    with tb.bank("b").session("s1") as signals, ThreadPoolExecutor(8) as threads:
        for _ in range(400):
            threads.submit(signals.used, "f", query="a")
    tb.flush()
    bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 400


def test_what_could_not_be_submitted_stays_and_counts_once(
    tb: Tellback, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Part of it may have gone out before it failed: each signal has its id from when it was collected."""
    signals = tb.bank("b").session("s1")
    signals.add(*(item("f", "a") for _ in range(700)))
    publish, calls = tb.context.publisher.publish, list[int]()

    def failing(message: Any, accepted: Callable[[], None] = lambda: None) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise SpoolFull("no room")
        publish(message, accepted)

    monkeypatch.setattr(tb.context.publisher, "publish", failing)  # the disk is full at the second batch
    with pytest.raises(SpoolFull), signals:
        pass
    assert signals.collected == 700
    assert signals.submit() == 700
    tb.flush()
    bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 700


def test_where_both_fail_the_blocks_error_is_raised_with_a_note(
    tb: Tellback, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(message: Any, accepted: Callable[[], None] = lambda: None) -> None:
        del message, accepted
        raise SpoolFull("no room")

    monkeypatch.setattr(tb.context.publisher, "publish", full)
    with pytest.raises(ZeroDivisionError) as raised:
        fail_in(tb.bank("b").session("s1"))
    [noted] = raised.value.__notes__
    assert "not submitted: 1 signal of session s1: no room" in noted
    assert waiting(bench) == 0


def test_a_team_at_its_limit_of_banks_does_not_hide_the_blocks_error(tb: Tellback) -> None:
    layout = tb.context.layout
    LimitStore(tb.context.database, layout).change(banks=1)
    first, second = [tb.bank(name) for name in map(str, range(100)) if layout.of(name) == layout.of("0")][:2]
    first.signal([item("f", "a")])
    with pytest.raises(ZeroDivisionError) as raised:
        fail_in(second.session("s1"))
    [noted] = raised.value.__notes__
    assert "the limit of banks of team default is reached" in noted


@pytest.mark.faults
def test_a_session_that_ends_while_redis_is_away_is_spooled(tmp_path: Path) -> None:
    """The host continues, the signals are on its disk, and the next client of the host sends them; each counts once."""
    (tmp_path / "redis").mkdir()
    with RedisServer.start(tmp_path / "redis") as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"))
        with connect(settings=settings) as tb:
            layout = tb.context.layout
            with tb.bank("b").session("s1") as signals:
                signals.used("f", query="a")
                server.kill()
                signals.helpful("f", query="a")
            tb.flush()
            assert tb.context.publisher.spooled
        server.launch()
        with connect(settings=settings) as tb:
            tb.bank("b").signal([item("f", "b")])
            tb.flush()
            bench = Bench(settings, layout, Angles())
            bench.consume()
            assert tb.bank("b").fact_stats("f").signal_breakdown == counted(used=2, helpful=1)
            bench.close()


async def _fail_in(session: aio.SignalSession) -> None:
    async with session as failing:
        await failing.helpful("f1", query="a")
        raise KeyError


async def _with_asyncio(settings: Settings) -> int:
    async with aio.connect(settings=settings) as tb:
        bank = await tb.bank("b")
        async with bank.session("s1") as signals:
            await signals.used("f1", "f2", query="a")
            with pytest.raises(InvalidInput):
                await signals.ignored("f1", query="")
            collected = signals.collected
        with pytest.raises(KeyError):
            await _fail_in(bank.session("s2"))
        await tb.flush()
        return collected


def test_the_same_under_asyncio(tb: Tellback, bench: Bench, settings: Settings) -> None:
    import asyncio

    assert asyncio.run(_with_asyncio(settings)) == 2
    bench.consume()
    assert msgspec.to_builtins(tb.bank("b").fact_stats("f1"))["signal_breakdown"]["helpful"] == 1
    assert [entry["fact_id"] for entry in tb.history("s1")] == ["f1", "f2"]
