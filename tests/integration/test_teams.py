"""Teams as an operator sees and limits them: `tellback teams`, and what a host of a limited team gets."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

import tellback.aio
from tellback import Settings, SignalItem, Tellback, connect
from tellback.cli.app import app
from tellback.errors import InvalidInput, NotFound, Unavailable
from tellback.names import Family
from tellback.state.audit import newest_actions, system_user
from tellback.state.database import Database
from tellback.state.keys import FLEET, Layout, stream_of
from tellback.state.limits import LimitStore, TeamLimits
from tellback.state.teams import Teams
from tests.support.cli import teams
from tests.support.hooks import run_hook, tool_event
from tests.support.link import Link
from tests.support.redis_server import RedisServer


def open_one(tb: Tellback, number: int) -> None:
    tb.open_turn(channel="chat", conversation=f"c{number}", message_id="m", text="hi")


def waiting(database: Database, layout: Layout) -> int:
    return sum(database.pipeline([("XLEN", stream_of(shard, Family.EVENTS)) for shard in layout.all]))


@pytest.fixture
def one_shard(_emptied: None, settings: Settings, tmp_path: Path) -> Settings:
    """Settings of a team with one shard, whose limits are not divided."""
    return msgspec.structs.replace(settings, team="small", shards=1, data_dir=str(tmp_path / "small"))


def test_a_team_is_created_listed_and_removed_with_all_its_keys(settings: Settings, database: Database) -> None:
    assert teams(settings, "create", "acme", "--shards", "2") == (0, "acme: 2 shards\n")
    assert teams(settings, "create", "acme-2", "--shards", "1")[0] == 0
    assert "team acme exists and has 2 shards" in teams(settings, "create", "acme", "--shards", "3")[1]
    assert teams(settings, "create", "acme") == (0, "acme: 2 shards\n")
    assert teams(settings, "create", "acme-3", "--shards", "1025")[0] == 2
    assert not list(database.scan_step("tb:{acme-3.*", 1000)), "no command could use or remove it"
    for team in ("acme", "acme-2"):
        with connect(settings=msgspec.structs.replace(settings, team=team)) as tb:
            tb.prompt("s", "p").tool_invoked("search")
            open_one(tb, 1)
    listed = [json.loads(line) for line in teams(settings, "list", "--json")[1].splitlines()]
    assert [(row["team"], row["shards"], row["state"], row["open_turns"]) for row in listed] == [
        ("acme", 2, "active", 1),
        ("acme-2", 1, "active", 1),
    ]
    assert all(row["waiting"] for row in listed)
    code, output = teams(settings, "remove", "acme", "--yes")
    assert (code, "removed" in output) == (0, True)
    left = {key for keys in database.scan("tb:*", 1000) for key in keys}
    assert not {key for key in left if key.startswith(b"tb:{acme.")}
    assert {key for key in left if key.startswith(b"tb:{acme-2.")}
    assert database.command("ZRANGE", FLEET.key("teams"), 0, -1) == [b"acme-2"]


def test_a_team_that_has_just_come_into_being_is_listed(settings: Settings, tb: Tellback) -> None:
    """It is listed before any worker has visited it."""
    open_one(tb, 1)
    [row] = [json.loads(line) for line in teams(settings, "list", "--json")[1].splitlines()]
    assert (row["team"], row["state"]) == ("default", "active")


def test_a_removal_asks_first_and_a_team_that_does_not_exist_is_an_error(settings: Settings, tb: Tellback) -> None:
    open_one(tb, 1)
    result = CliRunner().invoke(
        app, ["teams", "remove", "default"], input="n\n", env={"TELLBACK_REDIS_URL": settings.redis_url}
    )
    assert (result.exit_code, "1 open turn?" in result.output) == (1, True)
    assert Teams(tb.context.database).layout("default").team == "default"
    for act in ("suspend", "list"):
        code, output = teams(settings, act, "nobody")
        assert (code, "there is no team nobody" in output) == (1, True)
    with pytest.raises(NotFound):
        Teams(tb.context.database).limits("nobody")


def test_a_suspended_team_accepts_nothing_new_and_sends_what_waited_when_it_is_resumed(
    settings: Settings, database: Database
) -> None:
    with connect(settings=settings) as tb:
        before = tb.open_turn(channel="chat", conversation="c0", message_id="m", text="hi")
        assert teams(settings, "suspend", "default")[0] == 0
        with pytest.raises(Unavailable, match="suspended"):
            open_one(tb, 1)
        tb.prompt("s", "p").tool_invoked("search")
        tb.flush()
        assert waiting(database, tb.context.layout) == 0
        before.no_reply(reason="what is in gets its end")
        assert teams(settings, "resume", "default")[0] == 0
        open_one(tb, 1)
        tb.flush()
        assert waiting(database, tb.context.layout) > 0


def test_submit_to_a_suspended_team_says_that_it_is_suspended(settings: Settings, tb: Tellback) -> None:
    """It does not say that Redis is away: the caller can ask an operator, and the command is kept."""
    open_one(tb, 1)
    assert teams(settings, "suspend", "default")[0] == 0
    environment = {"TELLBACK_REDIS_URL": settings.redis_url, "TELLBACK_DATA_DIR": settings.data_dir}
    said = CliRunner().invoke(app, ["submit", "--session", "s", "true"], env=environment)
    assert said.exit_code == 1
    assert "default is suspended: an operator resumes it by `tellback teams resume default`. Command " in said.stderr
    assert "unavailable" not in said.stderr


def test_a_team_has_as_many_open_turns_as_it_is_allowed(one_shard: Settings) -> None:
    with connect(settings=one_shard) as tb:
        LimitStore(tb.context.database, tb.context.layout).change(open_turns=2)
        turns = [tb.open_turn(channel="chat", conversation=f"c{n}", message_id="m", text="hi") for n in range(2)]
        with pytest.raises(Unavailable, match=r"limit of open turns of team small is reached \(2 in this shard\)"):
            open_one(tb, 2)
        again = tb.open_turn(channel="chat", conversation="c0", message_id="m", text="hi")
        assert again.duplicate, "a turn that is open is found, whatever the limit"
        tb.open_turn(channel="chat", conversation="c9", message_id="m", text="hi", metadata={"auto.mode": True})
        turns[0].no_reply(reason="done")
        open_one(tb, 2)


def begin(settings: Settings, name: str) -> str:
    """Begin a session with a client of its own; return the reason if it is refused."""
    with connect(settings=settings) as tb:
        try:
            tb.prompt(name, "p")
        except Unavailable as refused:
            return str(refused)
        return ""


def signal(settings: Settings, name: str) -> str:
    """Signal to a bank with a client of its own; return the reason if it is refused."""
    with connect(settings=settings) as tb:
        try:
            tb.bank(name).signal([SignalItem(signal_type="used", fact_id="f", query="q")])
        except Unavailable as refused:
            return str(refused)
        return ""


@pytest.mark.parametrize(
    ("limit", "bring", "reason"),
    [
        ("sessions", begin, "active sessions of team small is reached (5 in this shard, within an hour)"),
        pytest.param("banks", signal, "banks of team small is reached (5 in this shard)", marks=pytest.mark.slow),
    ],
)
def test_a_team_has_as_many_sessions_and_banks_as_it_is_allowed(
    one_shard: Settings, limit: str, bring: Callable[[Settings, str], str], reason: str
) -> None:
    """Many processes may bring new ones at the same time. One that the team has stays usable."""
    with connect(settings=one_shard) as tb:
        LimitStore(tb.context.database, tb.context.layout).change(**{limit: 5})
    names = [f"n{number}" for number in range(24)]
    with ProcessPoolExecutor(4, get_context("spawn")) as processes:
        refusals = dict(zip(names, processes.map(partial(bring, one_shard), names), strict=True))
    let_in = [name for name, refusal in refusals.items() if not refusal]
    assert len(let_in) == 5
    assert all(reason in refusals[name] for name in names if name not in let_in)
    assert not any(bring(one_shard, name) for name in let_in)
    assert reason in bring(one_shard, "another")
    with connect(settings=one_shard) as tb:
        LimitStore(tb.context.database, tb.context.layout).change(**{limit: 0})
    assert not bring(one_shard, "another")


def test_a_session_that_rests_for_an_hour_makes_room(one_shard: Settings) -> None:
    with connect(settings=one_shard) as tb:
        LimitStore(tb.context.database, tb.context.layout).change(sessions=1)
        tb.prompt("old", "p")
        with pytest.raises(Unavailable, match="sessions of team small is reached"):
            tb.submit(["true"], session="new")
        tb.prompt("old", "again")
        sessions = tb.context.layout.shard(0).key("sessions")
        hour_ago = tb.context.database.now_ms() - 3_601_000
        tb.context.database.command("ZADD", sessions, hour_ago, "old")
        tb.submit(["true"], session="new")
        assert tb.context.database.command("ZRANGE", sessions, 0, -1) == [b"old", b"new"]


def test_no_more_sessions_are_listed_than_the_shard_holds(one_shard: Settings) -> None:
    with connect(settings=one_shard) as tb:
        LimitStore(tb.context.database, tb.context.layout).change(sessions=20_000)
        sessions = tb.context.layout.shard(0).key("sessions")
        listed = [part for number in range(10_000) for part in (number + 1, f"s{number}")]
        tb.context.database.command("ZADD", sessions, *listed)
        tb.prompt("new", "p")
        assert tb.context.database.command("ZCARD", sessions) == 10_000
        assert tb.context.database.command("ZRANGE", sessions, 0, 0) == [b"s1"]


def test_a_bank_that_only_stores_facts_counts_and_forgetting_needs_no_room(one_shard: Settings) -> None:
    with connect(settings=one_shard) as tb:
        key = tb.context.layout.shard(0).key("factbanks")
        tb.context.database.command("ZADD", key, 1, "facts")
        LimitStore(tb.context.database, tb.context.layout).change(banks=1)
        with pytest.raises(Unavailable, match="banks of team small is reached"):
            tb.bank("other").remember("f", "the sky is blue")
        tb.bank("other").forget("f")
        tb.bank("facts").remember("g", "the grass is green")


def test_a_hook_of_one_session_too_many_sends_and_keeps_nothing(one_shard: Settings) -> None:
    with connect(settings=one_shard) as tb:
        LimitStore(tb.context.database, tb.context.layout).change(sessions=1)
        for session in ("first", "second", "first"):
            started = tool_event(None, session_id=session, hook_event_name="SessionStart")
            run_hook(one_shard, started, "--wait=10", event="session-start")
        assert waiting(tb.context.database, tb.context.layout) == 2, "the beginning of the first, each time"
    assert "SessionStart: dropped: TooMany: the limit of active sessions of team small is reached" in "".join(
        path.read_text() for path in Path(one_shard.data_dir).rglob("troubles.log")
    )
    assert not list(Path(one_shard.data_dir).rglob("*.spool"))


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["submit", "--session", "second", "--", "true"], "the limit of active sessions of team small is reached"),
        (["signal", "-", "--bank", "second"], "the limit of banks of team small is reached"),
    ],
)
def test_the_command_line_names_the_limit(one_shard: Settings, words: list[str], refusal: str) -> None:
    with connect(settings=one_shard) as tb:
        LimitStore(tb.context.database, tb.context.layout).change(sessions=1, banks=1)
        tb.prompt("first", "p")
        tb.bank("first").remember("f", "the grass is green")
    env = {"TELLBACK_REDIS_URL": one_shard.redis_url, "TELLBACK_DATA_DIR": one_shard.data_dir, "TELLBACK_TEAM": "small"}
    line = '{"fact_id": "f", "signal_type": "helpful", "query": "q"}'
    result = CliRunner().invoke(app, words, env=env, input=line)
    assert (result.exit_code, refusal in result.output) == (1, True)


def test_a_client_of_asyncio_gets_the_same_error(one_shard: Settings) -> None:
    with connect(settings=one_shard) as tb:
        LimitStore(tb.context.database, tb.context.layout).change(sessions=1, banks=1)

    async def begin_two() -> None:
        async with tellback.aio.connect(settings=one_shard) as tb:
            await tb.prompt("first", "p")
            with pytest.raises(Unavailable, match="sessions of team small is reached"):
                await tb.prompt("second", "p")
            await (await tb.bank("first")).remember("f", "the grass is green")
            with pytest.raises(Unavailable, match="banks of team small is reached"):
                await (await tb.bank("second")).remember("f", "the sky is blue")

    asyncio.run(begin_two())


def test_a_team_publishes_at_its_rate_and_loses_nothing(one_shard: Settings) -> None:
    with connect(settings=one_shard) as tb:
        database, layout = tb.context.database, tb.context.layout
        LimitStore(database, layout).change(events_per_second=1)  # at once: the rate of ten seconds
        prompt = tb.prompt("s", "p")
        tb.flush()
        for _ in range(60):
            prompt.tool_invoked("search")
            tb.flush()
        assert 10 <= waiting(database, layout) < 60, "a bucket of 10, and what came in meanwhile"
        assert "team small publishes more events than an operator allows it" in tb.context.publisher.refusal
        LimitStore(database, layout).change(events_per_second=0)
        tb.flush()
        tb.flush()
        assert waiting(database, layout) == 61, "the rest waited in the spool"


def test_a_team_has_its_share_of_bytes(one_shard: Settings) -> None:
    with connect(settings=one_shard) as tb:
        LimitStore(tb.context.database, tb.context.layout).change(intake_bytes=20_000)
        prompt = tb.prompt("s", "p")
        for _ in range(20):
            prompt.tool_invoked("search", result="x" * 5_000)
            tb.flush()
        assert 4 <= waiting(tb.context.database, tb.context.layout) <= 8
        assert "bytes that an operator allows team small" in tb.context.publisher.refusal


def test_limits_are_changed_one_by_one_and_shown(settings: Settings, tb: Tellback) -> None:
    assert teams(settings, "limit", "default", "--events-per-second", "1") == (0, "default: 1 event/s\n")
    assert teams(settings, "limit", "default", "--open-turns", "7") == (0, "default: 1 event/s, 7 open turns\n")
    assert "1,234,567 events/s" in teams(settings, "limit", "default", "--events-per-second", "1234567")[1]
    assert teams(settings, "limit", "default")[0] == 2
    assert teams(settings, "limit", "default", "--events-per-second", "0")[1] == "default: 7 open turns\n"
    both = ("--sessions", "3", "--banks", "1")
    assert teams(settings, "limit", "default", *both)[1] == "default: 7 open turns, 3 sessions, 1 bank\n"
    assert teams(settings, "limit", "default", "--sessions", "0", "--banks", "0")[1] == "default: 7 open turns\n"
    store = LimitStore(tb.context.database, tb.context.layout)
    assert store.read() == TeamLimits(open_turns=7)
    for value in (-1, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="events_per_second is"):
            store.change(events_per_second=value)
    assert store.read() == TeamLimits(open_turns=7)


@pytest.mark.parametrize("stored", [b"by hand", b'{"open_turns": "many"}', b"\xff"])
def test_limits_that_cannot_be_read_hide_no_other_team(settings: Settings, database: Database, stored: bytes) -> None:
    """The team counts as one without limits, and can be limited, suspended and removed."""
    for team in ("acme", "other"):
        assert teams(settings, "create", team, "--shards", "1")[0] == 0
    database.command("HSET", Layout("acme", 1).shard(0).key("limits"), "team", stored)
    code, output = teams(settings, "list", "--json")
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert (code, [row["team"] for row in rows]) == (0, ["acme", "other"])
    assert teams(settings, "limit", "acme", "--open-turns", "7")[1].endswith("acme: 7 open turns\n")
    assert LimitStore(database, Layout("acme", 1)).read() == TeamLimits(open_turns=7)
    database.command("HSET", Layout("acme", 1).shard(0).key("limits"), "team", stored)
    assert teams(settings, "remove", "acme", "--yes")[0] == 0


@pytest.mark.parametrize("value", [3, 2], ids=["another value", "the same value"])
def test_a_limit_whose_reply_was_lost_is_set_and_audited_once(
    database: Database, layout: Layout, redis_server: RedisServer, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Link(redis_server.port) as link, closing(Database(link.url)) as far:
        store = LimitStore(far, layout)
        for _ in range(2):  # the second time, the limits are written as they were read
            store.change(open_turns=2)
        read = store._stored

        def stored() -> bytes:
            found = read()
            link.losing = link.once = link.lost == 0  # the reply to the next call
            return found

        monkeypatch.setattr(store, "_stored", stored)  # it is called just before
        assert store.change(open_turns=value).open_turns == value
        assert link.lost == 1
    assert [entry.act for entry in newest_actions(database, layout, 10)] == ["limit", "limit", "limit"]


def test_the_audit_log_says_who_limited_suspended_and_resumed_a_team(settings: Settings, tb: Tellback) -> None:
    """Only where there was something to resume: a repeated call is no act, and says so."""
    assert teams(settings, "resume", "default", "--why", "it was not suspended") == (0, "default: was not suspended\n")
    assert teams(settings, "limit", "default", "--open-turns", "7", "--by", "ann", "--why", "too many")[0] == 0
    assert teams(settings, "suspend", "default", "--by", "ben") == (0, "default: suspended\n")
    assert teams(settings, "suspend", "default") == (0, "default: is suspended already\n")
    assert teams(settings, "resume", "default") == (0, "default: resumed\n")
    entries = newest_actions(tb.context.database, tb.context.layout, 10)
    assert [(entry.act, entry.target, entry.reason) for entry in entries] == [
        ("limit", "open_turns=7", "too many"),
        ("suspend", "default", ""),
        ("resume", "default", ""),
    ]
    assert [entry.by for entry in entries] == ["ann", "ben", system_user()]


def test_operators_who_change_limits_at_once_undo_nothing(settings: Settings, database: Database, tb: Tellback) -> None:
    """Each reads, changes one limit and writes all: the later writer must have read what the earlier one wrote."""
    names = ("events_per_second", "intake_bytes", "open_turns")

    def change(name: str) -> None:
        with closing(Database(settings.redis_url)) as own:
            for value in range(1, 31):
                LimitStore(own, tb.context.layout).change(**{name: value})

    with ThreadPoolExecutor(len(names)) as operators:
        list(operators.map(change, names))
    store = LimitStore(database, tb.context.layout)
    assert store.read() == TeamLimits(events_per_second=30, intake_bytes=30, open_turns=30)
    shards = [database.command("HGET", shard.key("limits"), "team") for shard in tb.context.layout.all]
    assert len(set(shards)) == 1, "all shards have the last word"
    assert len(newest_actions(database, tb.context.layout, 1_000)) == 90


@pytest.mark.parametrize("values", [{"sessions": 1.5}, {"banks": -1}, {"events_per_second": float("inf")}])
def test_a_limit_that_could_not_be_read_back_is_refused(tb: Tellback, values: dict[str, float]) -> None:
    store = LimitStore(tb.context.database, tb.context.layout)
    before = store.change(open_turns=3)
    with pytest.raises(InvalidInput, match=next(iter(values))):
        store.change(**values)
    assert store.read() == before
    assert len(newest_actions(tb.context.database, tb.context.layout, 10)) == 1


def test_a_whole_number_of_events_is_stored_as_it_is_read(tb: Tellback) -> None:
    """Shards are compared by their bytes, and 30 and 30.0 would differ."""
    LimitStore(tb.context.database, tb.context.layout).change(events_per_second=30)
    raw = tb.context.database.command("HGET", tb.context.layout.shard(0).key("limits"), "team")
    assert b'"events_per_second":30.0' in raw
