"""Notifications, by which the dispatchers of all teams learn that something is new, against a real Redis."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
import pytest

from tellback import Settings, Tellback, Unavailable, connect
from tellback.broker import KEY_PREFIX
from tellback.client.client_context import ActivityNotice
from tellback.messaging.append_call import notification
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.fleet import NOTICES, QUIET_SECONDS, TeamVisits
from tellback.state.intake import Notifications, Notified, StreamRef, mark_pending
from tellback.state.keys import NOTIFICATIONS, Layout, Shard, stream_of
from tellback_workers import dispatcher
from tellback_workers.dispatcher import Dispatcher, Rescue
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import StandIn
from tests.support.clocks import ServerClock, later
from tests.support.tool_calls import publish
from tests.support.turns import opened, overdue, state
from tests.support.waiting import blocked, wait_until

FAMILY = Family.EVENTS


def notify(database: Database, *about: str) -> None:
    for each in about:
        database.command(*notification(each))


def listening(database: Database) -> Notifications:
    """A dispatcher that has waited once, so that the group exists."""
    notifications = Notifications(database)
    notifications.wait(1)
    return notifications


def waiting(database: Database) -> int:
    return int(database.command("XLEN", NOTIFICATIONS))


def test_each_notification_names_its_stream_once_and_to_one_dispatcher(database: Database, layout: Layout) -> None:
    first, second = listening(database), Notifications(database)
    stream = stream_of(layout.shard(1), FAMILY)
    notify(database, stream, stream, "acme", "acme")
    assert first.wait(10) == [Notified("default", (1, FAMILY)), Notified("acme")]
    assert second.wait(10) == first.wait(10) == []
    notify(database, stream)
    assert second.wait(10) == [Notified("default", (1, FAMILY))]


def test_dispatchers_that_wait_at_once_share_what_comes(database: Database) -> None:
    listening(database)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(Notifications(database).wait, 15_000) for _ in range(4)]
        wait_until(lambda: blocked(database) == 4, "all of them wait")
        notify(database, *"abcd")
        assert sorted(name.team for each in found for name in each.result(timeout=60)) == list("abcd")


def test_forged_notifications_are_skipped(database: Database) -> None:
    notifications = listening(database)
    forged = [
        "", "Upper", "a b", "x" * 65, "tb:{acme.0}:in:", "tb:{acme.0}:in:none", "tb:{acme}:in:events",
        "tb:{acme.0}:turn", "tb:{acme.99999}:in:events", "tb:{../x.0}:in:events", "tb:{acme.-1}:in:events",
        "x" * 100_000, "acme\n", "tb:{acme.٣}:in:events",
    ]  # fmt: skip
    notify(database, *forged, "acme")
    database.command("XADD", NOTIFICATIONS, "*", "k", b"\xff\xfe")
    database.command("XADD", NOTIFICATIONS, "*", b"\xff", "b", "and", "more")
    assert notifications.wait(10) == [Notified("acme"), Notified("b")]
    fleet = TeamVisits(database)
    notify(database, *forged)
    fleet.claim_visits(5.0, 100)
    assert set(fleet.known()) <= {"acme", "b"}
    assert waiting(database) == 0


LAST_ID: Final = b"18446744073709551615-18446744073709551615"


@pytest.mark.parametrize("hidden", [False, True])
def test_the_last_possible_id_stops_notifications_until_the_next_visits_only(
    database: Database, layout: Layout, settings: Settings, *, hidden: bool
) -> None:
    """Every agent may append to the stream: after that id none of any team could open a turn. Requirement A-554."""
    sharing, watching = listening(database), Notifications(database)
    notify(database, "before")
    assert sharing.wait(10) == [Notified("before")]
    assert watching.watch(1) == []
    database.command("XADD", NOTIFICATIONS, LAST_ID, "k", "acme")
    if hidden:
        database.command("XDEL", NOTIFICATIONS, LAST_ID)
    assert sharing.wait(10) == watching.watch(10) == ([] if hidden else [Notified("acme")])
    with pytest.raises(Unavailable, match="scheduler cannot be notified"):
        ActivityNotice(database, layout).send()
    connect(settings=msgspec.structs.replace(settings, team="new")).close()  # raised an error of Redis' client
    TeamVisits(database).claim_visits(5.0, 10)
    ActivityNotice(database, layout).send()
    wait_until(lambda: sharing.wait(10) == [Notified("default")], "dispatchers get it")
    notify(database, "zoo")
    assert sharing.wait(10) == [Notified("zoo")]
    wait_until(lambda: Notified("zoo") in watching.watch(10), "who watches gets it")


def test_who_watches_goes_on_after_an_id_of_the_future_and_its_removal(database: Database) -> None:
    watching = Notifications(database)
    notify(database, "before")
    watching.watch(1)
    database.command("XADD", NOTIFICATIONS, "18446744073709551000-0", "k", "acme")
    assert watching.watch(10) == [Notified("acme")]
    database.command("DEL", NOTIFICATIONS)
    notify(database, "zoo")
    wait_until(lambda: watching.watch(10) == [Notified("zoo")], "it reads the new stream")
    assert watching.watch(10) == []


def test_who_watches_goes_on_if_the_first_notification_comes_between_its_reads(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching, command = Notifications(database), database.command

    def late(*parts: str | bytes | float) -> object:
        reply = command(*parts)
        if parts[0] == "XREAD":
            monkeypatch.undo()
            notify(database, "zoo")
        return reply

    monkeypatch.setattr(database, "command", late)
    assert watching.watch(1) == []
    assert watching.watch(10) == [Notified("zoo")]


def test_the_group_comes_back_after_the_database_was_emptied(database: Database) -> None:
    notifications = listening(database)
    database.command("FLUSHALL")
    notify(database, "acme")
    wait_until(lambda: notifications.wait(10) == [Notified("acme")], "it is named all the same")


def test_who_watches_takes_nothing_from_others(database: Database) -> None:
    """The watcher is a worker that serves only some teams."""
    notify(database, "before")
    watching, sharing = Notifications(database), listening(database)
    sharing.wait(10)
    assert watching.watch(1) == []
    notify(database, "acme")
    assert watching.watch(10) == [Notified("acme")]
    assert watching.watch(1) == []
    assert sharing.wait(10) == [Notified("acme")]
    notify(database, "acme", "acme")
    assert sharing.wait(10) == watching.watch(10) == [Notified("acme")]


def test_who_watches_goes_on_when_visits_removed_what_it_read(database: Database) -> None:
    watching = Notifications(database)
    notify(database, "acme")
    watching.watch(1)
    TeamVisits(database).claim_visits(5.0, 10)  # removes what it watched
    notify(database, "zoo")
    assert watching.watch(10) == [Notified("zoo")]


def test_a_notification_whose_reader_died_is_noted_by_the_next_visits(database: Database, clock: ServerClock) -> None:
    fleet = TeamVisits(database)
    dead = listening(database)
    notify(database, "acme", stream_of(Layout("zoo", 4).shard(3), FAMILY))
    assert len(dead.wait(10)) == 2
    assert fleet.claim_visits(5.0, 10).active == ["acme"], "a wake-up of a stream is on its way"
    assert waiting(database) == 0, "what was noted does not stay"
    clock.passes(5)
    assert sorted(fleet.claim_visits(5.0, 10).active) == ["acme", "zoo.3"]


def test_a_notification_that_nobody_read_is_visited_at_once(database: Database) -> None:
    """This holds in a shard that was visited a moment ago, too."""
    fleet = TeamVisits(database)
    for _ in range(2):
        notify(database, stream_of(Layout("zoo", 4).shard(3), FAMILY))
        assert fleet.claim_visits(5.0, 10).active == ["zoo.3"]


def test_a_burst_of_notifications_is_noted_bit_by_bit(database: Database) -> None:
    fleet = TeamVisits(database)
    database.pipeline([notification(f"t{number}") for number in range(NOTICES + 1)])
    assert fleet.claim_visits(5.0, 1).more
    assert waiting(database) == 1
    assert not fleet.claim_visits(5.0, 1).more
    assert len(fleet.known()) == NOTICES + 1


def test_a_host_notifies_of_a_stream_that_nobody_consumes(tb: Tellback, database: Database) -> None:
    shard = tb.context.layout.of("s")
    notifications = listening(database)
    assert notifications.wait(10) == [Notified("default")], "its client created the team"
    publish(tb, 1)
    assert notifications.wait(10) == [Notified("default", (shard.index, FAMILY))]
    publish(tb, 1)
    assert notifications.wait(10) == [Notified("default", (shard.index, FAMILY))], "no wake-up is pending yet"
    assert mark_pending(database, [(shard, FAMILY)]) == ["due"]
    publish(tb, 1)
    assert notifications.wait(10) == []
    lease = consumed(tb, shard)
    publish(tb, 1)
    assert notifications.wait(10) == []
    database.command("DEL", lease)
    publish(tb, 1)
    assert notifications.wait(10) == [Notified("default", (shard.index, FAMILY))]


def consumed(tb: Tellback, shard: Shard) -> str:
    """Consume a stream, which takes the pending marker away."""
    lease = Runtime(tb.context.settings).intake("default").take_lease(shard, FAMILY, 5)
    assert lease is not None
    return lease.key


def test_a_turn_notifies_its_team_now_and_then(
    tb: Tellback, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a deadline and no event, so nothing else announces it; visits continue for a minute after each."""
    notifications = listening(database)
    assert notifications.wait(10) == [Notified("default")], "its client created the team"
    for _ in range(3):
        opened(tb)
    assert notifications.wait(10) == [Notified("default")]
    assert waiting(database) == 2
    later(monkeypatch, QUIET_SECONDS / 2)
    opened(tb)
    assert notifications.wait(10) == [Notified("default")]


@pytest.mark.usefixtures("app")
def test_wakeups_of_several_teams_are_published_by_the_one_dispatcher(
    tb: Tellback, settings: Settings, database: Database
) -> None:
    """A team that nobody knew when it started counts too; a name of no shard or no team that exists wakes nobody."""
    dispatcher = Dispatcher(Runtime(settings), [])
    dispatcher.start()
    wait_until(lambda: blocked(database) == 1, "it waits")
    publish(tb, 1)
    wait_until(lambda: named(database) == {("default", tb.context.layout.of("s").index)}, "a wake-up is published")
    notify(database, "tb:{default.99}:in:events", "tb:{nobody.0}:in:events")
    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        publish(other, 1)
        wait_until(lambda: ("zoo", other.context.layout.of("s").index) in named(database), "one for the new team")
    dispatcher.stop()
    assert len(named(database)) == 2


@pytest.mark.usefixtures("app")
def test_a_dispatcher_of_some_teams_leaves_the_others_to_others(
    tb: Tellback, settings: Settings, database: Database
) -> None:
    some = Dispatcher(Runtime(msgspec.structs.replace(settings, teams="zoo")), [])
    some.start()
    wait_until(lambda: blocked(database) == 1, "it waits")
    others = listening(database)
    publish(tb, 1)
    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        publish(other, 1)
        wait_until(lambda: named(database) == {("zoo", other.context.layout.of("s").index)}, "its team is woken")
    some.stop()
    assert {each.team for each in others.wait(10)} == {"default", "zoo"}


@pytest.mark.usefixtures("app")
def test_what_a_stand_in_finds_is_woken_after_the_fallbacks_while_its_dispatcher_waits(
    tb: Tellback, settings: Settings, database: Database
) -> None:
    """A dispatcher that waited for notifications, which the visit had taken, left a burst alone for a second."""
    turn = overdue(tb)
    publish(tb, 1)
    runtime = Runtime(msgspec.structs.replace(settings, beat_period=0.05))
    rescue = Rescue(runtime, [])  # its dispatcher's thread waits
    states: list[str] = []

    def wake(streams: Sequence[StreamRef]) -> None:
        states.extend(state(turn) for _ in streams)
        rescue.wake_or_offer(streams)

    worker = StandIn(runtime, wake)
    worker.start()
    wait_until(lambda: named(database) == {("default", tb.context.layout.of("s").index)}, "a wake-up is published")
    worker.stop()
    runtime.database.close()
    assert set(states) == {"fallback"}, "users come before the broker"


@pytest.mark.usefixtures("broker_away")
def test_what_the_broker_refuses_a_stand_in_is_left_to_its_dispatcher(tb: Tellback, settings: Settings) -> None:
    publish(tb, 1)
    runtime = Runtime(settings)
    rescue = Rescue(runtime, [FAMILY])
    rescue.wake_or_offer([(tb.context.layout.of("s"), FAMILY)])
    had_streams = rescue.has_streams
    rescue.wake_offered()
    assert (had_streams, rescue.has_streams) == (False, True), "the thread that asked consumes nothing, its own does"
    runtime.database.close()


@pytest.mark.usefixtures("broker_away")
def test_while_the_broker_refuses_a_backlog_is_left_after_a_slice(
    tb: Tellback, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a lease for each of several backlogs made the streams behind them wait for many seconds (A-120)."""
    monkeypatch.setattr(dispatcher, "SLICE", 0.0)
    publish(tb, 25)
    stream = tb.context.layout.of("s"), FAMILY
    runtime = Runtime(msgspec.structs.replace(settings, consume_batch=10))
    rescue = Rescue(runtime, [FAMILY])
    rescue.wake([stream])
    left = list[int]()
    while rescue.has_streams:
        rescue.consume_next()
        left.append(runtime.database.command("XLEN", stream_of(*stream)))
    runtime.database.close()
    assert left == [15, 5, 0]


def named(database: Database) -> set[tuple[str, int]]:
    """The streams that the published wake-ups name."""
    queued = [msgspec.json.decode(raw) for raw in database.command("LRANGE", f"{KEY_PREFIX}{FAMILY}", 0, -1)]
    bodies = [msgspec.json.decode(base64.b64decode(each["body"])) for each in queued]
    return {(team, shard) for (_, streams), *_ in bodies for team, shard in streams}
