"""A process that lingers on consumed streams: what it takes, what it leaves to others, and when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
import pytest

from tellback import clock
from tellback.messaging.append_call import notification
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.intake import Intake
from tellback.state.intake_lease import Lease, Read
from tellback.state.keys import Layout, stream_of
from tellback_workers import linger as module
from tellback_workers.linger import NewStreams
from tellback_workers.runtime import Runtime
from tests.support.clocks import later
from tests.support.intake_entries import idle_streams, read_new
from tests.support.lingering import FAMILY, LEASE, LingerBench
from tests.support.waiting import wait_until


@pytest.fixture
def bench(database: Database, layout: Layout) -> LingerBench:
    return LingerBench(database, layout)


def test_what_comes_is_applied_in_order_without_a_wakeup(bench: LingerBench, layout: Layout) -> None:
    with bench.lingering():
        for number in range(50):
            bench.append(0, f"a{number}")
            bench.append(3, f"b{number}")
            assert bench.pending(layout.shard(0)) == "lingering"
        wait_until(lambda: len(bench.recorder.tools) == 100, "all are applied")
    assert [tool for tool in bench.recorder.tools if tool[0] == "a"] == [f"a{n}" for n in range(50)]
    assert [tool for tool in bench.recorder.tools if tool[0] == "b"] == [f"b{n}" for n in range(50)]
    assert bench.due == []
    assert not any(bench.intake.lengths().values())


@pytest.mark.parametrize("few", [module.MAX_STREAMS, 0])
def test_a_stream_of_another_type_is_left_and_ends_nothing(
    bench: LingerBench, layout: Layout, break_type: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Its team may be another. What had been read of the others waited for a visit, to be recovered one by one."""
    monkeypatch.setattr("tellback.state.intake.FEW_STREAMS", few)
    with bench.lingering(lease_seconds=1):
        break_type(stream_of(layout.shard(0), FAMILY))
        bench.append(3, "a", "b")
        wait_until(lambda: bench.recorder.tools == ["a", "b"], "the other stream is applied")
        wait_until(lambda: bench.lingered_on() == len(layout.all) - 1, "the broken one is left")


def test_a_wakeup_that_comes_late_takes_no_pending_marker_away(bench: LingerBench, layout: Layout) -> None:
    with bench.lingering():
        assert bench.intake.take_lease(layout.shard(0), FAMILY, 5) is None
        assert bench.pending(layout.shard(0)) == "lingering"


def test_streams_that_notifications_name_are_taken_whatever_their_team(
    bench: LingerBench, layout: Layout, settings: Settings
) -> None:
    """While it lingers, nobody has to publish a wake-up for them. What it does not serve is left to others."""
    runtime = Runtime(msgspec.structs.replace(settings, teams=f"{layout.team},zoo"))
    zoo, other = runtime.layout("zoo"), runtime.layout("other")
    with bench.lingering(news=NewStreams(runtime, FAMILY)):
        bench.append(zoo.shard(2), "a")
        bench.append(other.shard(0), "b")
        notify(
            bench.database,
            stream_of(zoo.shard(1), Family.TURNS), "tb:{zoo.99}:in:events", "tb:{nobody.0}:in:events", "zoo",
            stream_of(other.shard(0), FAMILY), stream_of(zoo.shard(2), FAMILY),
        )  # fmt: skip
        wait_until(lambda: bench.recorder.tools == ["a"], "it is applied")
        assert bench.pending(zoo.shard(2)) == "lingering"
        bench.append(zoo.shard(2), "c")
        wait_until(lambda: bench.recorder.tools == ["a", "c"], "so is what comes next")
        assert bench.pending(other.shard(0)) == bench.pending(zoo.shard(1)) == "due"
    assert bench.pending(zoo.shard(2)) == "due", "it has left"


def test_a_stream_that_is_named_while_the_first_ones_are_taken_is_taken_too(
    bench: LingerBench, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo, take = Runtime(settings).layout("zoo").shard(2), bench.intake.take_each

    def notified_meanwhile(*wanted: Any, linger: bool) -> Any:
        monkeypatch.undo()
        taken = take(*wanted, linger=linger)
        bench.append(zoo, "a")
        notify(bench.database, stream_of(zoo, FAMILY))
        return taken

    monkeypatch.setattr(bench.intake, "take_each", notified_meanwhile)
    with bench.lingering(news=NewStreams(Runtime(settings), FAMILY)):
        wait_until(lambda: bench.recorder.tools == ["a"], "it is applied")


def test_a_stream_that_was_named_while_another_consumed_it_is_taken_when_it_is_free(
    bench: LingerBench, settings: Settings
) -> None:
    runtime = Runtime(settings)
    zoo = runtime.layout("zoo").shard(2)
    lease = bench.intake.take_lease(zoo, FAMILY, 60)
    assert lease is not None
    with bench.lingering(news=NewStreams(runtime, FAMILY)):
        notify(bench.database, stream_of(zoo, FAMILY))
        bench.append(zoo, "a")
        bench.intake.release(lease)
        wait_until(lambda: bench.recorder.tools == ["a"], "it is applied")


def test_a_stream_that_is_quiet_makes_room_for_others(
    bench: LingerBench, layout: Layout, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is released while one that is busy is kept, and what comes into it later needs a wake-up."""
    monkeypatch.setattr(module, "MAX_STREAMS", 4)
    runtime = Runtime(settings)
    zoo = runtime.layout("zoo").shard(0)
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    with bench.lingering(news=NewStreams(runtime, FAMILY)):
        for tools in ("b", "bb"):
            bench.append(0, "b")
            wait_until(partial(bench.has_applied, tools), "it is applied")
            now += 0.6 * module.IDLE_WHEN_FULL
        wait_until(lambda: bench.lingered_on() == 1, "the quiet ones are released")
        assert bench.pending(layout.shard(0)) == "lingering"
        assert bench.pending(layout.shard(1)) == "due"
        bench.append(zoo, "a")
        notify(bench.database, stream_of(zoo, FAMILY))
        wait_until(partial(bench.has_applied, "bba"), "there is room for the new one")
        now += module.MAX_SECONDS  # with which it ends


def test_a_stream_that_is_quiet_is_kept_while_there_is_room_and_another_is_busy(
    bench: LingerBench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left after 0.5 s, each of 50 streams of two events a second cost a wake-up at every third event."""
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    with bench.lingering(idle_seconds=2.0):
        for tools in ("b", "bb", "bbb"):
            bench.append(0, "b")
            wait_until(partial(bench.has_applied, tools), "it is applied")
            for seconds in (1.5, 0.1):  # with the second check, what the first one found is done
                checks = bench.checks
                now += seconds
                wait_until(partial(bench.has_checked, checks), "it is still there")
            assert bench.lingered_on() == len(layout.all), "the others have been quiet for long"
        now += 2
        wait_until(lambda: not bench.lingered_on(), "all are quiet")


def test_an_agent_that_calls_a_tool_every_few_seconds_needs_no_wakeup(
    bench: LingerBench, layout: Layout, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wake-up for each call took 6 to 9 ms, a call that finds its consumer 2.3, for less processor time."""
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    with bench.lingering(idle_seconds=settings.linger):
        for calls in ("a", "ab", "abc"):
            for seconds in (4, 0.1):  # with the second check, what the first one found is done
                checks = bench.checks
                now += seconds
                wait_until(partial(bench.has_checked, checks), "it is still there")
            bench.append(0, calls[-1])
            wait_until(partial(bench.has_applied, calls), "it is applied")
            assert bench.pending(layout.shard(0)) == "lingering"
        now += module.MAX_SECONDS  # with which it ends


def test_after_a_notification_it_soon_checks_whether_it_is_needed(
    bench: LingerBench, layout: Layout, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wake-up of another family may follow. It waited 0.2 s for a process while the others ran long commands."""
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    news = NewStreams(Runtime(settings), FAMILY)
    with bench.lingering(news=news):
        checks = bench.checks
        [id_] = bench.database.pipeline([notification(stream_of(layout.shard(0), Family.COMMANDS))])
        wait_until(lambda: news.after() == id_.decode(), "it has read the notification")
        now += module.CHECK_SECONDS / 2
        wait_until(partial(bench.has_checked, checks), "it has checked before the next check was due")
        now += module.MAX_SECONDS  # with which it ends


def test_what_comes_between_two_checks_shortens_no_read(bench: LingerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy process read once more for each check, up to forty times a second for nothing."""
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    read_next, times = Intake.read_next, list[int]()

    def noted(self: Intake, after: Mapping[Lease, bytes], count: int, block_ms: int, notified: str | None) -> Read:
        times.append(block_ms)
        return read_next(self, after, count, block_ms, notified)

    monkeypatch.setattr(Intake, "read_next", noted)
    with bench.lingering():
        now += module.CHECK_SECONDS / 2
        bench.append(0, "a")
        wait_until(partial(bench.has_applied, "a"), "it is applied")
        bench.append(0, "b")
        wait_until(partial(bench.has_applied, "ab"), "it is applied by the next read")
        now += module.MAX_SECONDS  # with which it ends
    assert set(times[:-1]) == {25}


def test_it_takes_no_more_streams_than_one_read_may_name(
    bench: LingerBench, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_STREAMS", 5)
    monkeypatch.setattr(module, "IDLE_WHEN_FULL", 60)
    runtime = Runtime(settings)
    zoo = runtime.layout("zoo")
    with bench.lingering(news=NewStreams(runtime, FAMILY)):
        for shard in zoo.all:
            bench.append(shard, "a")
        notify(bench.database, *(stream_of(shard, FAMILY) for shard in zoo.all))
        wait_until(lambda: bench.recorder.tools == ["a"], "the first is taken")
    assert sum(bench.pending(shard) == "due" for shard in zoo.all) == 4
    assert bench.recorder.tools == ["a"]


def notify(database: Database, *names: str) -> None:
    database.pipeline([notification(name) for name in names])


def test_who_leaves_gives_streams_and_markers_back(bench: LingerBench, layout: Layout) -> None:
    with bench.lingering():
        pass
    assert bench.lingered_on() == 0
    assert bench.pending(layout.shard(1)) == "due"
    assert bench.intake.take_lease(layout.shard(1), FAMILY, 5) is not None


def test_it_ends_when_it_is_quiet(bench: LingerBench) -> None:
    assert bench.linger(idle_seconds=0.05) == []
    assert bench.lingered_on() == 0


def test_a_stream_that_another_consumes_is_left_until_it_is_free(bench: LingerBench, layout: Layout) -> None:
    other = bench.intake.take_lease(layout.shard(2), FAMILY, 60)
    assert other is not None
    thread = threading.Thread(target=bench.linger)
    thread.start()
    try:
        wait_until(lambda: bench.lingered_on() == 3, "the others are lingered on")
        bench.append(2, "later")
        bench.append(1, "first")
        wait_until(lambda: bench.recorder.tools == ["first"], "what is ours is applied")
        bench.intake.release(other)
        wait_until(lambda: bench.recorder.tools == ["first", "later"], "what was the other's is applied")
    finally:
        bench.other_work = True
        thread.join(60)


def test_what_a_dead_consumer_left_is_applied_first(bench: LingerBench, layout: Layout) -> None:
    bench.append(0, "left", "fresh")
    lease = bench.intake.take_lease(layout.shard(0), FAMILY, 60)
    assert lease is not None
    assert len(read_new(bench.intake, lease, 1)) == 1
    bench.intake.release(lease)
    with bench.lingering():
        wait_until(lambda: len(bench.recorder.tools) == 2, "both are applied")
    assert bench.recorder.tools == ["left", "fresh"]


def test_a_stream_whose_recovery_takes_long_is_given_up_before_new_entries_are_read(
    bench: LingerBench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New entries would be applied before the rest of those that a dead consumer left."""
    bench.append(0, "left", "left too", "fresh")
    lease = bench.intake.take_lease(layout.shard(0), FAMILY, 60)
    assert lease is not None
    assert len(read_new(bench.intake, lease, 2)) == 2
    bench.intake.release(lease)
    bench.recorder.when_applied = lambda: later(monkeypatch, LEASE / 2)
    assert bench.linger(idle_seconds=1) == [layout.shard(0)]
    assert bench.recorder.tools == ["left"]
    bench.recorder.when_applied = lambda: None
    assert bench.linger(idle_seconds=0.1) == []
    assert bench.recorder.tools == ["left", "left too", "fresh"]


def test_a_lease_that_was_lost_costs_its_stream_only_the_rest_of_it(bench: LingerBench) -> None:
    bench.recorder.lost = "b"
    with bench.lingering():
        bench.append(0, "a", "b")
        bench.append(1, "c")
        wait_until(lambda: {"a", "b", "c"} <= set(bench.recorder.tools), "each is applied")
        wait_until(lambda: not any(bench.intake.lengths().values()), "each is acknowledged")


def test_leases_are_kept_for_as_long_as_it_stays(
    bench: LingerBench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    leases = [shard.key("lease", FAMILY) for shard in layout.all]

    def renewed() -> bool:
        return all(left > 40_000 for left in bench.database.pipeline([("PTTL", lease) for lease in leases]))

    with bench.lingering():
        fences = bench.database.command("MGET", *leases)
        for _ in range(2):
            bench.database.pipeline([("PEXPIRE", lease, 40_000) for lease in leases])
            now += 20
            wait_until(renewed, "all are renewed")
        assert bench.database.command("MGET", *leases) == fences
        assert bench.lingered_on() == 4
        now += module.MAX_SECONDS  # with which it ends


def test_a_backlog_in_many_streams_is_left_to_several_processes(bench: LingerBench, layout: Layout) -> None:
    for shard in layout.all:
        bench.append(shard, *["a"] * 19)
    assert bench.linger(batch=20, idle_seconds=1) == list(layout.all)
    assert len(bench.recorder.tools) == 4 * 6, "a share of a batch of each, and one more"


def test_a_backlog_is_left_to_several_processes(bench: LingerBench, layout: Layout) -> None:
    bench.append(0, *map(str, range(40)))
    bench.append(1, *map(str, range(60)))
    assert bench.linger(batch=20) == [layout.shard(0), layout.shard(1)]
    assert bench.lingered_on() == 0


def test_a_stream_that_nobody_serves_is_found_when_a_lingerer_died(bench: LingerBench, layout: Layout) -> None:
    """Its marker and lease end with it; then a visit of its team finds the stream, as it finds any other."""
    assert len(bench.intake.take_each(layout.all, FAMILY, 10, 0, linger=True)) == 4
    bench.append(0, "a")
    assert idle_streams(bench.database, layout) == []
    keys = [layout.shard(0).key(name, FAMILY) for name in ("lease", "wakeup")]
    assert all(0 < left <= 10_000 for left in bench.database.pipeline([("PTTL", key) for key in keys]))
    bench.database.pipeline([("PEXPIRE", key, 1) for key in keys])
    wait_until(lambda: idle_streams(bench.database, layout) == [(layout.shard(0), FAMILY)], "the visit finds it")


def test_more_streams_than_one_reads_are_left_to_others(bench: LingerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STREAMS", 2)
    bench.append(0, "a")
    bench.append(3, "b")
    bench.linger(idle_seconds=0.05)
    assert bench.recorder.tools == ["a"]
