"""A key that a whole shard shares gets another type by hand: that costs its own content, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest
from redis.exceptions import ResponseError

from tellback import (
    FeedbackProviderConfig,
    FeedbackTrigger,
    SignalItem,
    Tellback,
    ToolUsageMonitor,
    connect,
)
from tellback.cli.metrics_collector import render_metrics
from tellback.client.client_context import ActivityNotice
from tellback.client.fleet import team_status
from tellback.doctor.backlog import check_keys, check_outbox
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.fleet import TeamVisits
from tellback.state.intake import Intake
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.job_listing import JobListing
from tellback.state.jobs import CANDIDATES, Jobs
from tellback.state.keys import FAMILIES, FLEET, NOTIFICATIONS, Layout, guidestats_of, stream_of
from tellback.state.limits import LimitStore
from tellback.state.quarantine import OF_A_SHARD
from tellback.state.sessions import Sessions
from tests.support.busy_shards import ALL, HOST, OWN, BusyShard, SchedulerVisits
from tests.support.clocks import later
from tests.support.jobs import CommandQueue
from tests.support.signals import Bench, item, signal
from tests.support.tool_calls import calls, publish
from tests.support.turns import HELLO, opened, sent, state, store
from tests.support.waiting import wait_until

STRAYED = [
    *("due", "running", "pools", "timers", "sessions", "turns", "polled", "channels", "banks"),
    *("factbanks", "out:chat", f"jobs:{HOST}", "handover:h2", "fleet:teams", "fleet:active", "fleet:noticed"),
    "fleet:workers",
]
BROKEN = [*(":".join(parts) for parts in OF_A_SHARD), "out:chat", f"jobs:{HOST}", f"joborder:{HOST}"]


def overwrite(database: Database, key: str, kind: str) -> None:
    """Have a key hold another type than `kind`."""
    database.command("DEL", key)
    database.command(*(("RPUSH", key, "by hand") if kind == "string" else ("SET", key, "by hand")))


@pytest.mark.parametrize("name", BROKEN)
def test_a_key_of_another_type_costs_what_it_held_and_nothing_else(
    database: Database, visits: SchedulerVisits, places: list[BusyShard], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Other duties of its shard, other shards and other teams continue, and a second visit finds nothing to report."""
    broken, *others = places
    key = broken.shard.key(*name.split(":"))
    overwrite(database, key, FAMILIES[name.partition(":")[0]].type)
    visits.visit(3)
    assert [visits.done(place) for place in others] == [ALL, ALL]
    assert visits.done(broken) == ALL - OWN.get(name, set())
    assert caplog.text.count("key.quarantined") == caplog.text.count(f"key.quarantined key='{key}'") == 1
    assert database.command("TYPE", key.replace("}:", "}:quarantine:")) in {b"string", b"list"}
    if name in {":".join(parts) for parts in OF_A_SHARD}:
        [finding] = list(check_keys(database, broken.tb.context.layout))
        assert (finding.check, key in finding.found) == ("quarantined keys", True)


@pytest.mark.parametrize("name", STRAYED)
def test_a_member_that_is_none_of_ours_stops_nothing(
    database: Database, visits: SchedulerVisits, places: list[BusyShard], name: str
) -> None:
    """One in a list of all teams ended every visit of every team; another ended a channel, a sweep or a listing."""
    of_the_fleet, parts = name.startswith("fleet:"), name.removeprefix("fleet:").split(":")
    index = (FLEET if of_the_fleet else places[0].shard).key(*parts)
    for place in places:
        opened(place.tb, conversation="answered").respond(HELLO)
    for number, stray in enumerate((b"\xff\xfe", b"{", b"x" * 70 + b" Y")):
        database.command("ZADD", index, 0.5 + number, stray)
    visits.visit(3)
    assert [visits.done(place) for place in places] == [ALL] * 3
    deliveries = [(turn, kind) for place in places for turn, kind, _ in sent(place.tb)]
    for place in places:
        assert (place.turn.id, "fallback") in deliveries
        assert place.tb.handed_over(to="h2") == []
        assert "tellback_workers" in render_metrics(place.tb)
        assert [job.command_id for job in JobListing(database, place.tb.context.layout).unfinished()]
        assert team_status(place.tb.context.database, place.tb.context.layout).team == place.shard.team
        assert check_outbox(database, place.tb.context.layout).found == "deliveries waiting: 0"
    database.command("DEL", index)  # it has no lifetime if nothing of ours was in it


@pytest.mark.parametrize("name", ["sessions", "polled"])
def test_a_score_that_is_no_time_ends_no_listing(tb: Tellback, database: Database, layout: Layout, name: str) -> None:
    """Hosts write these scores, and an infinite one cannot become a whole number."""
    assert list(tb.outbox("chat")) == []
    for shard in layout.all:
        database.command("ZADD", shard.key("sessions"), 1_000, f"of {shard.index}")
    database.command("ZADD", layout.shard(0).key(name), "+inf", "by hand")
    listed = [found.session for found in Sessions(database, layout).newest(10)]
    assert sorted(listed) == [f"of {shard.index}" for shard in layout.all]
    assert "tellback_outbox" in render_metrics(tb)
    for shard in layout.all:
        database.command("DEL", shard.key("sessions"), shard.key("polled"))


def test_members_that_are_none_of_ours_keep_no_command_from_its_worker(
    database: Database, layout: Layout, jobs: Jobs, queue: CommandQueue
) -> None:
    """More of them than a claim names: it asked for the same ones again and again."""
    pool = layout.shard(0).key("jobs", ANY_POOL)
    wanted = queue.put("s")
    for number in range(CANDIDATES + 1):
        database.command("ZADD", pool, -1, b"%d:\xff" % number)
    lease = jobs.lease(JobClaimant(ANY_POOL, seconds=60, worker="w@test", host="h"))
    assert lease is not None
    assert lease.command_id == wanted
    assert database.command("EXISTS", pool) == 0


@pytest.mark.parametrize("shards", ["0", "-1", "1000000000", "many"])
def test_a_team_whose_number_of_shards_is_none_stops_no_other(
    database: Database, visits: SchedulerVisits, places: list[BusyShard], shards: str
) -> None:
    """A host of the team may write it. A worker that listed a billion shards would end, and with it every team's."""
    key = places[0].shard.key("team")
    database.command("HSET", key, "shards", shards)
    visits.visit(1)
    assert visits.done(places[2]) == ALL
    with pytest.raises(ValueError, match=shards):
        connect(settings=msgspec.structs.replace(places[0].tb.context.settings, team="a"))
    database.command("HSET", key, "shards", 4)


def test_a_team_that_cannot_be_read_stops_no_other(
    database: Database, visits: SchedulerVisits, places: list[BusyShard]
) -> None:
    """Its number of shards is unknown, so its key stays as it is, and it is left out."""
    overwrite(database, places[0].shard.key("team"), "hash")
    visits.visit(1)
    assert visits.done(places[2]) == ALL
    database.command("DEL", places[0].shard.key("team"))


@pytest.mark.parametrize("field", ["skew", "last", "most"])
def test_a_clock_that_cannot_be_read_stops_no_other_team(
    database: Database, visits: SchedulerVisits, places: list[BusyShard], field: str
) -> None:
    """A host may write its team's clock: the first look at all shards failed, and with it each visit of every team."""
    database.command("HSET", places[0].shard.key("clock"), field, "by hand")
    visits.visit(3)
    assert visits.done(places[2]) == ALL
    database.command("DEL", places[0].shard.key("clock"))


@pytest.mark.parametrize("name", ["teams", "active", "noticed"])
def test_the_lists_of_teams_are_made_again(
    database: Database, visits: SchedulerVisits, places: list[BusyShard], name: str
) -> None:
    """The run that meets a key of another type fails; the notifications that follow name the teams again."""
    overwrite(database, FLEET.key(name), "zset")
    with suppress(ResponseError):  # what fails depends on the list
        visits.visit(1)
    TeamVisits(database).notice({place.shard.team for place in places})
    visits.visit(1)
    assert [visits.done(place) for place in places] == [ALL] * 3


def test_no_turn_is_opened_and_no_answer_is_lost_while_the_scheduler_cannot_be_notified(
    tb: Tellback, database: Database, visits: SchedulerVisits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transport keeps the message on an error of ours, and the next try succeeds; an answer waits on disk."""
    turn = opened(tb, conversation="before")
    later(monkeypatch, ActivityNotice.EVERY)
    overwrite(database, NOTIFICATIONS, "stream")
    assert turn.respond(HELLO) == "spooled"
    with pytest.raises(Unavailable, match="the scheduler cannot be notified; try again"):
        opened(tb)
    with suppress(ResponseError):
        visits.visit(1)
    assert not opened(tb).duplicate


def test_no_turn_is_opened_and_no_answer_is_lost_while_the_clock_cannot_be_read(
    database: Database, visits: SchedulerVisits, places: list[BusyShard]
) -> None:
    """`respond` and `open_turn` raised an error of redis-py, which no transport expects, and the answer was gone."""
    turn = opened(places[0].tb, conversation="before")
    for shard in places[0].tb.context.layout.all:
        overwrite(database, shard.key("clock"), "hash")
    assert turn.respond(HELLO) == "spooled"
    with pytest.raises(Unavailable, match="holds another type than Tellback gives it"):
        opened(places[0].tb)
    visits.visit(3)
    assert turn.respond(HELLO) == "accepted"
    assert not opened(places[0].tb).duplicate


@pytest.mark.parametrize("name", ["sigstats", "banks"])
def test_a_signal_counts_once_whatever_a_shared_key_holds(
    tb: Tellback, bench: Bench, database: Database, name: str
) -> None:
    """A script that fails in the middle would leave a part of its effect: it fails before any, or continues."""
    key = tb.context.layout.of("b").key(name)
    overwrite(database, key, FAMILIES[name].type)
    signal(tb, bench, [SignalItem(fact_id="f", signal_type="used", query="x", signal_id="one")])
    database.command("DEL", key)
    bench.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 1


@pytest.mark.parametrize("name", ["sessions", "timers", "guidestats"])
def test_a_call_counts_once_whatever_a_shared_key_holds(
    tb: Tellback, consume: Callable[[], None], database: Database, name: str
) -> None:
    shard = tb.context.layout.of("s")
    key = guidestats_of(shard, database.now_ms()) if name == "guidestats" else shard.key(name)
    overwrite(database, key, FAMILIES[name].type)
    publish(tb, 1)
    consume()
    database.command("DEL", key)
    consume()
    assert calls(tb) == 1


def test_an_entry_waits_for_its_place_among_the_dead_letters(
    tb: Tellback, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    """It had left its stream when the script failed; the calls beside it are counted in the meantime."""
    shard = layout.of("s")
    stream, dead = stream_of(shard, Family.EVENTS), shard.key("dead")
    database.command("XADD", stream, "*", "m", "no JSON")
    publish(tb, 3)
    overwrite(database, dead, "stream")
    for _ in range(2):
        consume()
    assert (calls(tb), database.command("XLEN", stream)) == (3, 1)
    database.command("DEL", dead)
    consume()
    assert [letter.raw for letter in DeadLetters(database, layout).newest()] == ["no JSON"]
    assert database.command("XLEN", stream) == 0


@pytest.mark.parametrize("name", ["limits", "bucket", "turns"])
def test_a_host_publishes_and_opens_turns_whatever_its_limits_hold(tb: Tellback, database: Database, name: str) -> None:
    """A worker renames the key within minutes; until then the host must not put events into its quarantine."""
    LimitStore(database, tb.context.layout).change(events_per_second=1_000)
    for shard in tb.context.layout.all:
        overwrite(database, shard.key(name), "hash")
    publish(tb, 3)
    turn = opened(tb)
    assert state(turn) == "open"
    assert database.command("XLEN", stream_of(tb.context.layout.of("s"), Family.EVENTS)) == 3
    for shard in tb.context.layout.all:
        database.command("DEL", shard.key(name))


def test_a_writers_mark_of_another_type_puts_no_event_into_quarantine(tb: Tellback, database: Database) -> None:
    """Each of its process's events in the stream went there, for as long as the process lived."""
    publish(tb, 2)
    stream = stream_of(tb.context.layout.of("s"), Family.EVENTS)
    [mark] = database.command("KEYS", stream.replace("}:in:", "}:writer:") + ":*")
    overwrite(database, mark.decode(), "string")
    publish(tb, 1)
    assert not tb.context.publisher.spooled
    assert database.command("XLEN", stream) == 3
    assert database.command("GET", mark) == b"3"


@pytest.mark.parametrize("family", Family)
def test_a_stream_is_consumed_whatever_its_counter_of_fences_holds(
    database: Database, layout: Layout, family: Family
) -> None:
    """No consumer could take it until the next check of all keys, five minutes later."""
    intake, shard = Intake(database, layout), layout.shard(0)
    first = intake.take_lease(shard, family, 5)
    assert first is not None
    intake.release(first)
    overwrite(database, shard.key("fence", family), "string")
    second = intake.take_lease(shard, family, 5)
    assert second is not None
    assert second.fence != first.fence
    intake.release(second)


def test_a_limit_that_is_no_number_costs_no_host_its_work(tb: Tellback, database: Database) -> None:
    """A tool call, a signal and a user's message raised an error of a script."""
    shards = tb.context.layout.all
    for shard in shards:
        many = [part for name in ("sessions", "banks", "turns", "rate", "burst", "bytes") for part in (name, "many")]
        database.command("HSET", shard.key("limits"), *many)
    tb.prompt("s", "p").tool_invoked("t")
    tb.flush()
    assert not tb.context.publisher.spooled
    tb.bank("b").signal([item("f", "q")])
    assert state(opened(tb)) == "open"
    database.command("DEL", *(shard.key("limits") for shard in shards))


def test_a_dead_letter_stays_if_the_audit_log_cannot_name_who_dropped_it(
    tb: Tellback, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    """It was gone, and then the script failed."""
    shard, dead = layout.of("s"), DeadLetters(database, layout)
    database.command("XADD", stream_of(shard, Family.EVENTS), "*", "m", "no JSON")
    publish(tb, 1)
    consume()
    [letter] = dead.newest()
    overwrite(database, shard.key("audit"), "list")
    for act in (dead.drop, dead.replay):
        with pytest.raises(ResponseError):
            act(letter.id)
    assert [each.id for each in dead.newest()] == [letter.id]
    database.command("DEL", shard.key("audit"))


@pytest.mark.parametrize("name", ["turnstats", "channels"])
def test_an_answer_is_sent_whatever_a_shared_key_holds(tb: Tellback, database: Database, name: str) -> None:
    turn = opened(tb)
    key = store(tb).shard(turn.id).key(name)
    overwrite(database, key, FAMILIES[name].type)
    turn.respond(HELLO)
    assert sent(tb) == [(turn.id, "answer", "hello")]
    database.command("DEL", key)


def test_feedback_that_cannot_be_read_keeps_no_other_from_its_agent(
    tb: Tellback, consume: Callable[[], None], database: Database
) -> None:
    """A worker of a newer release may have stored it; the call raised, and what else it had taken was lost."""
    every_call = FeedbackProviderConfig(ToolUsageMonitor(), FeedbackTrigger(every_n_calls=1))
    prompt = tb.prompt("s", "p", feedback_providers=[every_call])
    prompt.tool_invoked("t")
    consume()
    mailbox = tb.context.layout.of("s").key("mailbox", "s", "p", prompt.evaluation)
    database.command("LPUSH", mailbox, "{", "5", '{"severity":"of a newer release"}')
    assert [feedback.provider_name for feedback in prompt.feedback()] == ["ToolUsageMonitor"]
    assert prompt.feedback() == []


@pytest.mark.parametrize("name", ["timers", "clock"])
def test_feedback_of_a_timer_is_given_whatever_a_shared_key_holds(
    tb: Tellback, consume: Callable[[], None], database: Database, name: str
) -> None:
    """It had left the mailbox when the script failed, and all other feedback with it."""
    every_call = FeedbackProviderConfig(ToolUsageMonitor(), FeedbackTrigger(every_n_calls=1))
    prompt = tb.prompt("s", "p", feedback_providers=[every_call])
    prompt.tool_invoked("t")
    consume()
    shard = tb.context.layout.of("s")
    mailbox = shard.key("mailbox", "s", "p", prompt.evaluation)
    database.command("RPUSH", mailbox, database.command("LINDEX", mailbox, 0)[:-1] + b',"slot":0,"every":1000}')
    overwrite(database, shard.key(name), FAMILIES[name].type)
    given = prompt.feedback()
    database.command("DEL", shard.key(name))
    assert len(given or wait_until(prompt.feedback, "it is given once the clock can be read")) == 2
