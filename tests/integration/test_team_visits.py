"""Visits of teams follow what is new in them: which teams and which of their shards are visited, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tellback import Tellback, connect
from tellback.messaging.append_call import notification
from tellback.names import Family
from tellback.settings import Settings
from tellback.state import steady
from tellback.state.database import Database
from tellback.state.fleet import IDLE_SECONDS, QUIET_SECONDS, WHOLE_SECONDS, TeamVisits
from tellback.state.intake import Notifications, StreamRef
from tellback.state.keys import NOTIFICATIONS, Layout, Shard, stream_of
from tellback.state.redis_py import RedisConnections
from tellback.state.script_calls import Command
from tellback.state.team import open_layout
from tellback_workers import scheduler, team_search
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import TeamScheduler
from tellback_workers.team_search import SCAN_SECONDS, TeamSearch
from tests.support.clocks import ServerClock, later
from tests.support.redis_server import RedisServer
from tests.support.team_visits import TEAM, due_at_once, nobody_woken, stand_in, visit
from tests.support.turns import deadline_passes, opened, overdue, state
from tests.support.waiting import wait_until


def test_a_claim_belongs_to_one_and_for_its_time(layout: Layout, fleet: TeamVisits, clock: ServerClock) -> None:
    fleet.notice([layout.team])
    assert fleet.claim_visits(30.0, 10).active == [TEAM], "at once, since it is new"
    assert fleet.claim_visits(30.0, 10).active == []
    clock.passes(29)
    assert fleet.claim_visits(30.0, 10).active == []
    clock.passes(2)
    assert fleet.claim_visits(30.0, 10).active == [TEAM]


def test_a_team_without_news_for_a_minute_rests_until_the_next(
    layout: Layout, runtime: Runtime, fleet: TeamVisits, clock: ServerClock
) -> None:
    period = runtime.settings.beat_period
    fleet.notice([layout.team])
    clock.passes(period)
    visit(runtime)
    assert fleet.last_noticed().keys() == {TEAM}, "it may be in the middle of something"
    clock.passes(QUIET_SECONDS)
    visit(runtime)
    assert fleet.last_noticed() == {}
    clock.passes(period)
    assert fleet.claim_visits(period, 10).active == []
    fleet.notice([layout.team])
    clock.passes(period)
    assert fleet.claim_visits(period, 10).active == [TEAM]


def there(database: Database, keys: Sequence[str]) -> int:
    """Return how many of these keys there are, each asked for alone: on a cluster they lie in several slots."""
    return sum(database.pipeline([("EXISTS", key) for key in keys]))


def test_keys_of_many_new_teams_are_checked_four_in_a_run(
    runtime: Runtime, fleet: TeamVisits, database: Database, clock: ServerClock
) -> None:
    """A burst of thousands of teams must not wait for such checks; a key that a visit meets itself comes first."""
    teams = [Layout(f"t{number:02}", 1) for number in range(10)]
    health = [layout.shard(0).key("health") for layout in teams]
    timers = teams[-1].shard(0).key("timers")
    database.pipeline([("HSET", layout.shard(0).key("team"), "shards", 1) for layout in teams])
    database.pipeline([("SET", key, "changed by hand") for key in (*health, timers)])
    fleet.notice([TEAM, *(layout.team for layout in teams)])
    scheduler = TeamScheduler(runtime, nobody_woken)
    left: list[int] = []
    for _ in range(3):
        scheduler.run()
        left.append(there(database, health))
        assert database.command("EXISTS", timers) == 0
        clock.passes(runtime.settings.beat_period)
    assert left == [7, 3, 0]


@pytest.mark.parametrize("always_wrong", [0, 5])
def test_each_team_gets_its_check_of_keys(
    runtime: Runtime,
    fleet: TeamVisits,
    database: Database,
    clock: ServerClock,
    monkeypatch: pytest.MonkeyPatch,
    always_wrong: int,
) -> None:
    """The first teams are due again before the last ones had their turn, or need a check in each run."""
    for name in ("KEYS_SECONDS", "IDLE_KEYS_SECONDS"):
        monkeypatch.setattr(scheduler, name, 0.0)
    shards = [Layout(f"t{number:02}", 1).shard(0) for number in range(10)]
    database.pipeline([("HSET", shard.key("team"), "shards", 1) for shard in shards])
    database.pipeline([("SET", shard.key("health"), "changed by hand") for shard in shards[always_wrong:]])
    fleet.notice([shard.team for shard in shards])
    visits = TeamScheduler(runtime, nobody_woken)
    for _ in range(5):
        database.pipeline([("SET", shard.key("timers"), "changed by hand") for shard in shards[:always_wrong]])
        visits.run()
        clock.passes(runtime.settings.beat_period)
    assert there(database, [shard.key("health") for shard in shards]) == 0
    database.pipeline([("DEL", shard.key("timers")) for shard in shards])


def test_the_visits_of_many_teams_take_as_many_round_trips_as_one(
    runtime: Runtime, fleet: TeamVisits, clock: ServerClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That includes what ends the visits, and the look at each shard's clock."""
    trips = 0

    def counted(connections: RedisConnections, commands: Sequence[Command], **options: Any) -> Any:
        nonlocal trips
        trips += commands[0][0] != "EVAL"  # which loads a script, because the fixture's clock changes them
        return run_all(connections, commands, **options)

    def no_search(search: TeamSearch, only: Sequence[str]) -> None:
        """Leave out the walk over the keys: what it finds in a step is chance."""

    run_all = RedisConnections.run_all
    monkeypatch.setattr(RedisConnections, "run_all", counted)
    monkeypatch.setattr(TeamSearch, "step", no_search)
    seen = list[int]()
    visit(runtime)  # notes that the team of the fixtures was created
    for number in (1, 40):
        teams = [runtime.layout(f"team-{n}").team for n in range(number)]
        fleet.notice(teams)
        clock.passes(QUIET_SECONDS)
        trips = 0
        visit(runtime)
        seen.append(trips)
        assert fleet.last_noticed() == {}
        assert all(runtime.database.pipeline([("EXISTS", f"tb:{{{team}.3}}:clock") for team in teams]))
    # A slow measurement of the clock is repeated, for all teams at once: two trips a try, of which the last has one.
    assert seen[1] - seen[0] <= 2 * (steady.TRIES - 1) - 1


def test_only_the_shard_that_a_notification_named_is_visited(
    runtime: Runtime, database: Database, layout: Layout, fleet: TeamVisits, clock: ServerClock
) -> None:
    """The others cost nothing; what a dispatcher has read of rests after one visit that finds nothing."""
    notified(database, layout.shard(2))
    clock.passes(runtime.settings.beat_period)
    visit(runtime)
    assert [database.command("EXISTS", shard.key("clock")) for shard in layout.all] == [0, 0, 1, 0]
    assert fleet.active() == set()
    assert fleet.last_noticed().keys() == {TEAM}, "for a minute, which listings show"


def test_a_shard_stays_active_while_something_waits_or_is_new_in_its_team(
    runtime: Runtime, database: Database, layout: Layout, fleet: TeamVisits, clock: ServerClock
) -> None:
    period, stream = runtime.settings.beat_period, stream_of(layout.shard(2), Family.EVENTS)
    database.command("XADD", stream, "*", "m", b"waits")
    notified(database, layout.shard(2))
    for _ in range(3):
        clock.passes(2 * period)
        visit(runtime)
        assert fleet.active() == {TEAM}
    database.command("DEL", stream)
    clock.passes(period)
    [claimed] = fleet.claim_visits(period, 10).active
    assert claimed == f"{TEAM}.2"
    clock.passes(0.1)
    fleet.notice([claimed])
    fleet.rest([claimed])
    assert fleet.active() == {TEAM}, "nobody has looked since"


def test_plain_xadd_in_another_shard_of_an_active_team_is_found_in_a_while(
    runtime: Runtime, database: Database, layout: Layout, fleet: TeamVisits, clock: ServerClock
) -> None:
    """From then on all shards are visited in each period, as long as such entries are found once a minute."""
    period, silent = runtime.settings.beat_period, stream_of(layout.shard(1), Family.EVENTS)
    notified(database, layout.shard(2))
    visit(runtime)
    found: list[StreamRef] = []
    database.command("XADD", silent, "*", "m", b"waits")
    clock.passes(period)
    visit(runtime, wake=found.extend)
    assert found == []
    clock.passes(WHOLE_SECONDS)
    visit(runtime, wake=found.extend)
    assert found == [(layout.shard(1), Family.EVENTS)]
    for _ in range(3):
        clock.passes(0.9 * QUIET_SECONDS)
        visit(runtime, wake=found.extend)
        database.command("DEL", silent)
        clock.passes(period)
        visit(runtime)
        assert fleet.active() == {TEAM}
        database.command("XADD", silent, "*", "m", b"waits")
    assert len(found) == 4


def notified(database: Database, shard: Shard) -> None:
    """A host has notified of events in a shard of a team, and a dispatcher has read of them."""
    database.command("DEL", NOTIFICATIONS)  # the one that announced the team of the fixtures
    dispatcher = Notifications(database)
    dispatcher.wait(1)
    database.command(*notification(stream_of(shard, Family.EVENTS)))
    wait_until(lambda: dispatcher.wait(1), "the dispatcher has read of them")
    TeamVisits(database).claim_visits(60.0, 100)


def test_a_team_in_which_something_waits_does_not_rest(
    tb: Tellback, runtime: Runtime, fleet: TeamVisits, clock: ServerClock
) -> None:
    """A turn is open for longer than a minute, and nothing happens meanwhile."""
    turn = opened(tb)
    visit(runtime)
    clock.passes(2 * QUIET_SECONDS)
    visit(runtime)
    assert fleet.active() == {TEAM}
    deadline_passes(tb, turn)
    clock.passes(runtime.settings.beat_period)
    visit(runtime)
    assert state(turn) == "fallback"


def test_an_idle_team_that_no_notification_named_is_visited_now_and_then(
    tb: Tellback, runtime: Runtime, database: Database, fleet: TeamVisits, clock: ServerClock
) -> None:
    """Its notification was lost; from then on the team is visited in each period."""
    fleet.notice([TEAM])
    clock.passes(QUIET_SECONDS)
    fleet.rest([TEAM])
    turn = overdue(tb)
    database.command("DEL", NOTIFICATIONS)
    clock.passes(runtime.settings.beat_period)
    visit(runtime)
    assert state(turn) == "open"
    clock.passes(IDLE_SECONDS)
    visit(runtime)
    assert state(turn) == "fallback"
    assert fleet.last_noticed().keys() == {TEAM}


def test_a_team_that_only_plain_xadd_uses_is_found(own_redis: RedisServer, settings: Settings) -> None:
    """There are as many other keys as a step looks at, and keys of such a name that are no team's stream."""
    runtime = Runtime(msgspec.structs.replace(settings, redis_url=own_redis.url))
    database, fleet, woken = runtime.database, TeamVisits(runtime.database), list[StreamRef]()
    database.pipeline([("SET", f"other:{number}", 1) for number in range(1_900)])
    database.command("SET", "tb:{fake.0}:in:events", 1)
    database.command("XADD", "tb:{NO TEAM.0}:in:events", "*", "m", b"{}")
    database.command("XADD", stream_of(Layout("acme", 1).shard(0), Family.EVENTS), "*", "m", b"{}")
    visiting = TeamScheduler(runtime, woken.extend)
    visiting.run()
    assert fleet.known() == ["acme"]
    assert set(woken) == {(runtime.layout("acme").shard(0), Family.EVENTS)}
    database.close()


def test_a_team_of_plain_xadd_that_redis_lost_is_found_again_with_its_shards(
    own_redis: RedisServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hosts cannot store it again, and no worker looked for a name that it had seen before."""
    runtime = Runtime(msgspec.structs.replace(settings, redis_url=own_redis.url))
    database, woken = runtime.database, list[StreamRef]()
    layout = open_layout(database, "acme", runtime.settings.shards + 4)
    stream = stream_of(layout.all[-1], Family.EVENTS)
    monkeypatch.setattr(team_search, "KNOWN_SECONDS", 0.0)
    visiting = TeamScheduler(runtime, woken.extend)
    for _ in range(2):
        database.command("XADD", stream, "*", "m", b"{}")
        for _ in range(3):
            visiting.run(0.0)
            later(monkeypatch, SCAN_SECONDS)
        assert runtime.layout("acme") == layout
        assert woken.pop() == (layout.all[-1], Family.EVENTS)
        woken.clear()
        database.command("FLUSHALL")
        TeamVisits(database).notice(["acme"])
        visiting.run(0.0)  # it is gone
        assert TeamVisits(database).known() == []
    database.close()


def test_the_first_search_that_meets_a_removed_team_of_plain_xadd_makes_it_again(
    own_redis: RedisServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that still knew the team stored nothing: its events waited for a second minute."""
    runtime = Runtime(msgspec.structs.replace(settings, redis_url=own_redis.url))
    database, woken = runtime.database, list[StreamRef]()
    stream = (runtime.layout("acme").shard(0), Family.EVENTS)
    visiting = TeamScheduler(runtime, woken.extend)
    database.command("FLUSHALL")  # as a removal, which takes the team out of all lists too
    database.command("XADD", stream_of(*stream), "*", "m", b"{}")
    visiting.run(0.0)
    assert woken == [stream]
    assert TeamVisits(database).known() == ["acme"]
    database.close()


def test_a_team_that_redis_lost_is_forgotten(runtime: Runtime, fleet: TeamVisits) -> None:
    """Forged notifications name teams that do not exist; their list must not grow for ever."""
    fleet.notice(["nobody", "nothing"])
    fleet.visit_soon(fleet.known())
    visit(runtime)
    assert fleet.known() == [TEAM], "which has keys"


def test_a_worker_that_serves_some_teams_visits_only_these(
    tb: Tellback, settings: Settings, database: Database
) -> None:
    with connect(settings=msgspec.structs.replace(settings, team="zoo")) as other:
        ours, theirs = overdue(other), overdue(tb)
        due_at_once(database)
        restricted = Runtime(msgspec.structs.replace(settings, teams="zoo"))
        stand_in(restricted)
        restricted.database.close()
        assert (state(ours), state(theirs)) == ("fallback", "open")


def test_a_worker_that_serves_thousands_of_teams_visits_the_longest_due_first(fleet: TeamVisits) -> None:
    """Otherwise those that a run has no time for would wait for ever behind the first ones."""
    served = [f"team-{number}" for number in range(9_000)]  # more names than Lua unpacks
    fleet.notice(["other", *served])
    visited = [place for _ in range(90) for place in fleet.claim_visits(0.0, 100, served).active]
    assert sorted(visited) == sorted(served)
