"""Many commands in one round trip, on a real Redis: what is refused, what is large, what is interrupted."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from redis import exceptions

from tellback.errors import Unavailable
from tellback.state import redis_py as module
from tellback.state.database import Database
from tellback.state.redis_py import CHUNK_BYTES
from tests.support.redis_server import RedisServer


def test_replies_come_in_order_whatever_the_sizes(database: Database) -> None:
    sizes = [0, 1, CHUNK_BYTES - 40, CHUNK_BYTES, 3 * CHUNK_BYTES, 5, 1 << 20, 0]
    commands = [("ECHO", b"x" * size) for size in sizes for _ in range(3)]
    assert [len(reply) for reply in database.pipeline(commands)] == [size for size in sizes for _ in range(3)]
    assert database.pipeline([]) == []


def test_what_is_sent_at_once_is_bounded() -> None:
    pieces = list(module.pack_commands([("ECHO", b"x" * 30_000)] * 10 + [("ECHO", b"y" * 200_000), ("PING",)]))
    assert [len(piece) <= CHUNK_BYTES for piece in pieces] == [True] * 5 + [False, True]
    assert pieces[0].startswith(b"*2\r\n$4\r\nECHO\r\n$30000\r\nxxx")


def test_an_error_is_the_reply_of_its_own_command(database: Database) -> None:
    commands = [("ECHO", "a"), ("INCR",), ("LPOP", "k", "x"), ("ECHO", 7)]
    first, *errors, last = database.pipeline(commands, raise_on_error=False)
    assert (first, last) == (b"a", b"7")
    assert [type(error) for error in errors] == [exceptions.ResponseError] * 2
    with pytest.raises(exceptions.ResponseError, match="wrong number of arguments for 'incr'"):
        database.pipeline(commands)
    assert database.command("ECHO", "b") == b"b"


def test_a_connection_that_was_interrupted_answers_nothing_of_before(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = module._reply
    answers = iter([True, False])

    def interrupted(connection: object) -> object:
        if not next(answers):
            raise KeyboardInterrupt
        return reply(connection)

    monkeypatch.setattr(module, "_reply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        database.pipeline([("ECHO", "a"), ("ECHO", "b"), ("ECHO", "c")])
    monkeypatch.undo()
    assert database.pipeline([("ECHO", "d")]) == [b"d"]


def test_a_server_that_is_away_says_so(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path) as server, closing(Database(server.url)) as database:
        database.pipeline([("PING",)])
        server.kill()
        with pytest.raises(Unavailable):
            database.pipeline([("PING",)])
