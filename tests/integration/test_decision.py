"""Decisions: a retry has no second effect, and an absent Redis is one clear error."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tellback.errors import Unavailable
from tellback.state.database import SOCKET_TIMEOUT, Database
from tellback.state.decision import Decision
from tellback.state.keys import Layout
from tellback.state.script import Call
from tests.support.redis_server import RedisServer


class Flaky(Database):
    """Loses the reply of the first calls: the script has run, the client does not know."""

    lost = 1

    def run(self, call: Call) -> bytes:
        reply: bytes = super().run(call)
        if self.lost:
            self.lost -= 1
            raise Unavailable("the reply was lost")
        return reply


@pytest.fixture
def flaky(database: Database) -> Iterator[Flaky]:
    flaky = Flaky(database.url)
    yield flaky
    flaky.close()


def bury(database: Database, layout: Layout) -> bytes:
    key = layout.shard(0).key("dead")
    entry: bytes = database.command("XADD", key, "*", "family", "events", "reason", "r", "raw", "{}", "bytes", 2)
    database.command("PEXPIRE", key, 60_000)
    return entry


def test_a_decision_whose_reply_was_lost_is_retried_and_has_one_effect(
    database: Database, flaky: Flaky, layout: Layout
) -> None:
    shard, entry = layout.shard(0), bury(database, layout)
    stream = shard.key("in", "events")
    reply = Decision("replay_dead").run(flaky, shard, [shard.key("dead"), stream], [entry])
    assert database.command("XRANGE", stream, "-", "+")[0][0].decode() == reply["entry"]
    assert database.command("XLEN", stream) == 1


def test_a_decision_without_redis_is_unavailable(layout: Layout) -> None:
    shard = layout.shard(0)
    away = Database("redis://127.0.0.1:1/0")
    with pytest.raises(Unavailable, match="Redis does not take the call"):
        Decision("replay_dead").run(away, shard, [shard.key("dead"), shard.key("in", "events")], ["0-1"])


def test_a_redis_that_hangs_holds_a_decision_for_one_time_out_only(
    redis_server: RedisServer, database: Database, layout: Layout
) -> None:
    """Not for each of the tries of the client below and of the decision above: that would be a minute and a half."""
    shard = layout.shard(0)
    calls: list[Call] = []

    class Counted(Database):
        def run(self, call: Call) -> bytes:
            calls.append(call)
            reply: bytes = super().run(call)
            return reply

    redis_server.pause()
    try:
        begun = time.monotonic()
        with pytest.raises(Unavailable, match="Timeout"):
            Decision("replay_dead").run(
                Counted(database.url), shard, [shard.key("dead"), shard.key("in", "events")], ["0-1"]
            )
        assert time.monotonic() - begun < 2.5 * SOCKET_TIMEOUT
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


def test_scripts_are_taught_again_to_a_server_that_forgot_them(database: Database, layout: Layout) -> None:
    shard, entry = layout.shard(0), bury(database, layout)
    keys = [shard.key("dead"), shard.key("in", "events")]
    Decision("replay_dead").run(database, shard, keys, [entry])
    database.command("SCRIPT", "FLUSH")
    entry = bury(database, layout)
    assert Decision("replay_dead").run(database, shard, keys, [entry])["entry"]
