"""Decisions: a retry has no second effect, and an absent Redis is one clear error."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from tellback.errors import Unavailable
from tellback.state.all_scripts import all_scripts
from tellback.state.database import Database
from tellback.state.decisions import decide
from tellback.state.keys import Layout, Shard
from tellback.state.redis_py import SOCKET_TIMEOUT, RedisConnections
from tellback.state.script_calls import Command, DecisionCall, ScriptCall
from tellback.state.scripts import intake as scripts
from tests.support.jobs import AUTHOR
from tests.support.redis_server import RedisServer


class LosesReplies(Database):
    """Loses the reply of the first calls: the script has run, the client does not know."""

    lost = 1

    def run(self, call: ScriptCall) -> bytes:
        reply: bytes = super().run(call)
        if self.lost:
            self.lost -= 1
            raise Unavailable("the reply was lost")
        return reply


@pytest.fixture
def flaky(database: Database) -> Iterator[LosesReplies]:
    flaky = LosesReplies(database.url)
    yield flaky
    flaky.close()


def add_letter(database: Database, layout: Layout) -> bytes:
    key = layout.shard(0).key("dead")
    entry: bytes = database.command("XADD", key, "*", "family", "events", "reason", "r", "raw", "{}", "bytes", 2)
    database.command("PEXPIRE", key, 60_000)
    return entry


def replay(shard: Shard, letter: bytes) -> DecisionCall:
    audited = AUTHOR.entry("replay", letter.decode())
    return scripts.replay_dead(intake=shard.key("in", "events"), letter=letter, entry=audited)


def test_a_decision_whose_reply_was_lost_is_retried_and_has_one_effect(
    database: Database, flaky: LosesReplies, layout: Layout
) -> None:
    shard, entry = layout.shard(0), add_letter(database, layout)
    stream = shard.key("in", "events")
    reply = decide(flaky, shard, replay(shard, entry))
    assert database.command("XRANGE", stream, "-", "+")[0][0].decode() == reply["entry"]
    assert database.command("XLEN", stream) == 1


def test_a_decision_without_redis_is_unavailable(layout: Layout) -> None:
    shard = layout.shard(0)
    away = Database("redis://127.0.0.1:1/0")
    with pytest.raises(Unavailable, match=r"Can't reach Redis at 127\.0\.0\.1:1 \(connection refused\)"):
        decide(away, shard, replay(shard, b"0-1"))


def test_a_redis_that_hangs_holds_a_decision_for_one_time_out_only(
    redis_server: RedisServer, database: Database, layout: Layout
) -> None:
    """With one for each try of the client and of the decision, it would be a minute and a half."""
    shard = layout.shard(0)
    calls: list[ScriptCall] = []

    class CountedRuns(Database):
        def run(self, call: ScriptCall) -> bytes:
            calls.append(call)
            reply: bytes = super().run(call)
            return reply

    redis_server.suspend()
    try:
        begun = time.monotonic()
        with pytest.raises(Unavailable, match="Timeout"):
            decide(CountedRuns(database.url), shard, replay(shard, b"0-1"))
        assert time.monotonic() - begun < 6 * SOCKET_TIMEOUT
    finally:
        redis_server.resume()
    assert len(calls) == 1


def test_a_full_redis_is_unavailable_and_says_why(database: Database) -> None:
    database.command("CONFIG", "SET", "maxmemory", 1)
    try:
        with pytest.raises(Unavailable, match="maxmemory"):
            database.command("SET", "tb:{default.0}:team", 1)
    finally:
        database.command("CONFIG", "SET", "maxmemory", 0)


class Forgetting(Database):
    """Speaks to a server that restarts before each round trip, as far as scripts go."""

    def pipeline(self, commands: Sequence[Command], *, raise_on_error: bool = True, repeat: bool = True) -> list[Any]:
        super().pipeline([("SCRIPT", "FLUSH")])
        return super().pipeline(commands, raise_on_error=raise_on_error, repeat=repeat)


def test_a_server_that_forgets_scripts_again_and_again_runs_them(database: Database, layout: Layout) -> None:
    shard = layout.shard(0)
    with closing(Forgetting(database.url)) as forgetting:
        entry = add_letter(forgetting, layout)
        assert decide(forgetting, shard, replay(shard, entry))["entry"]


def test_a_server_that_forgot_a_script_gets_its_source_once_for_many_calls(database: Database, layout: Layout) -> None:
    database.command("SCRIPT", "FLUSH")
    calls = [
        scripts.ensure_groups(intake=shard.key("in", "events"), groups=["a"]) for shard in layout.all for _ in range(2)
    ]
    evals = _calls_of(database, "eval")
    database.run_all(calls)
    assert _calls_of(database, "eval") - evals == 1
    assert all(database.pipeline([("EXISTS", call.keys[0]) for call in calls]))
    database.pipeline([("DEL", call.keys[0]) for call in calls])


def test_scripts_are_loaded_in_two_round_trips(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that a server lacked took one of its own, for which hosts that may not bring scripts waited."""
    database.command("SCRIPT", "FLUSH")
    sent = list[int]()

    def run_all(self: RedisConnections, commands: Sequence[Command], *, repeat: bool = True) -> list[Any]:
        sent.append(len(commands))
        return original(self, commands, repeat=repeat)

    original = RedisConnections.run_all
    monkeypatch.setattr(RedisConnections, "run_all", run_all)
    database.load_scripts(all_scripts())
    database.load_scripts(all_scripts())
    assert sent == [1, len(all_scripts()), 1]


def _calls_of(database: Database, command: str) -> int:
    statistics: bytes = database.command("INFO", "commandstats")
    found = re.search(rf"cmdstat_{command}:calls=(\d+)", statistics.decode())
    return int(found[1]) if found else 0
