"""Each listing of the command line meets each key of a team with another type, or with bytes that nobody can read.

It shows what all other keys hold, and of a key what can be read; it names the key and what to do, and ends with 1 if
the whole key is lost to it. None ends in a traceback. Requirement A-435.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from unittest import mock

import pytest
from typer.testing import CliRunner, Result

from tellback import FeedbackProviderConfig, FeedbackTrigger, Tellback, ToolUsageMonitor
from tellback.cli.app import app
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout
from tellback.state.script_calls import Command
from tellback_workers import wakeups
from tellback_workers.loops import consumer_of
from tellback_workers.runtime import Runtime
from tests.support.busy_shards import BusyShard, busy
from tests.support.jobs import ended
from tests.support.turns import HELLO, opened

LISTINGS: dict[str, list[str]] = {
    name: name.split()
    for name in (
        *("records", "records SESSION", "records --failed", "gate SESSION", "ps", "history SESSION", "turns"),
        *("turns --open", "turns show TURN", "outbox", "outbox --undelivered", "sessions", "team", "stats"),
        *("stats --session SESSION", "metrics", "dead list", "audit", "teams list", "bank", "bank show BANK"),
    )
}
QUICK = ("records", "team")  # each in the quick run; all the others are as slow
GARBAGE = b"\xff\xfe{"


@pytest.fixture
def filled(
    tb: Tellback, database: Database, settings: Settings, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BusyShard]:
    """A shard of a team that has something of each kind, and no key that ends while it is looked at."""
    monkeypatch.setattr(wakeups, "publish", mock.Mock())
    place, _ = busy(tb, 0), busy(tb, 1)
    for shard in layout.all:
        database.command("DEL", shard.key("lease", "commands"))
    each = FeedbackProviderConfig(ToolUsageMonitor(), FeedbackTrigger(every_n_calls=1))
    prompt = tb.prompt(place.session, "p", feedback_providers=[each], tools=["t"])
    prompt.tool_invoked("t", params={"q": "x"}, result="r")
    for host in (None, "h"):
        tb.submit(["true"], session=place.session, cwd="/", host=host)
    tb.flush()
    runtime = Runtime(settings)
    for family in (Family.COMMANDS, Family.EVENTS, Family.TURNS):
        for shard in layout.all:
            consumer_of(runtime, "default", family).consume(shard, family)
    jobs, claimant = Jobs(database, layout), JobClaimant(ANY_POOL, seconds=60, worker="w@test", host="h")
    lease = jobs.lease(claimant)
    assert lease is not None
    assert jobs.finish(lease, ended(lease, 1))
    tb.waive(place.session, lease.command_id, reason="a test")
    opened(tb, conversation=place.turn.conversation).respond(HELLO)
    tb.submit(["true"], session=place.session, cwd="/")
    tb.flush()
    runtime.database.close()
    for key in database.command("KEYS", "*"):
        database.command("PERSIST", key)
    yield place
    database.command("FLUSHALL")  # they have no lifetime any more


def spoilt(database: Database, key: str) -> Iterator[str]:
    """Spoil a key in one way after the other; afterwards it holds what it did before."""
    kind: str = database.command("TYPE", key).decode()
    kept = database.command("DUMP", key)
    fields: list[bytes] = database.command("HKEYS", key) if kind == "hash" else []
    garbage: dict[str, Command] = {
        "string": ("SET", key, GARBAGE),
        "list": ("RPUSH", key, GARBAGE),
        "zset": ("ZADD", key, 5, GARBAGE),
        "hash": ("HSET", key, *[part for field in fields for part in (field, GARBAGE)]),
    }
    other: Command = ("RPUSH", key, "by hand") if kind == "string" else ("SET", key, "by hand")
    for way, command in (("type", other), ("bytes", garbage.get(kind))):
        if command is not None:
            database.command("DEL", key)
            database.command(*command)
            yield way
    database.command("DEL", key)
    database.command("RESTORE", key, 0, kept)


@pytest.fixture
def run(database: Database, filled: BusyShard) -> Callable[[list[str]], Result]:
    """Runs a listing about what is in the filled shard."""
    place = {"SESSION": filled.session, "BANK": filled.session, "TURN": filled.turn.id}
    url = database.url
    return lambda words: CliRunner().invoke(app, [*(place.get(word, word) for word in words), "--redis-url", url])


@pytest.mark.parametrize(
    "listing", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in LISTINGS]
)
def test_one_spoilt_key_ends_no_listing_and_is_named(
    database: Database, run: Callable[[list[str]], Result], listing: str
) -> None:
    before = run(LISTINGS[listing])
    assert before.exit_code == 0, before.output
    problems: list[str] = []
    for key in sorted(key.decode() for key in database.command("KEYS", "*")):
        for way in spoilt(database, key):
            done = run(LISTINGS[listing])
            sound = (done.exit_code, done.stderr) == (before.exit_code, before.stderr)
            named = done.exit_code == 1 and key in done.stderr and "by DEL" in done.stderr
            skipped = way == "bytes" and done.exit_code == before.exit_code
            refused = listing == "gate SESSION" and done.exit_code == 1 and done.stdout.startswith("refused\n")
            if not (sound or named or skipped or refused):
                problems.append(f"{way} of {key}: {done.exit_code} {done.exception!r} {done.stderr[:200]}")
    assert problems == []


@pytest.mark.parametrize(
    ("listing", "key"),
    [
        pytest.param(name, key, marks=[] if name in QUICK else [pytest.mark.slow])
        for name, key in {
            "turns": "turns",
            "turns --open": "due",
            "ps": "running",
            "sessions": "sessions",
            "records": "sessions",
            "dead list": "dead",
            "bank": "banks",
            "outbox": "out:chat",
            "metrics": "due",
            "team": "due",
        }.items()
    ],
)
def test_what_other_shards_hold_is_shown(
    database: Database, layout: Layout, run: Callable[[list[str]], Result], listing: str, key: str
) -> None:
    place = layout.shard(1).key(*key.split(":"))
    for _ in spoilt(database, place):
        done = run(LISTINGS[listing])
        assert len(done.stdout.splitlines()) > 1, done.output
        break
