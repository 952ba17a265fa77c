"""Each use of redis-py's inside in `state/redis_py.py`, on a real server.

`test_library_versions.py` runs this file on the oldest and the newest version that pyproject.toml allows.
"""

from __future__ import annotations

import inspect
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, cast

import pytest
import redis
from redis import connection as redis_connection
from redis import exceptions
from redis.sentinel import SentinelManagedSSLConnection

from tellback.errors import Unavailable
from tellback.state import redis_py as module
from tellback.state.database import Database
from tellback.state.redis_py import CHUNK_BYTES, RedisConnections, open_socket, pack_commands
from tests.support.redis_server import RedisServer
from tests.support.waiting import blocked, wait_until

KEY = "redis-py"


@pytest.fixture(params=[None, 5.0], ids=["waits", "bounded"])
def connections(redis_server: RedisServer, request: pytest.FixtureRequest) -> Iterator[RedisConnections]:
    """Both kinds of clients, on an empty Redis."""
    with closing(RedisConnections(redis_server.url, call_deadline=request.param)) as connections:
        connections.run(("FLUSHALL",))
        yield connections
        connections.run(("DEL", KEY))


@pytest.mark.parametrize("argument", [b"bytes \x00\r\n", "text ✓", 7, -1.5, 1e300, 1 << 70])
def test_each_type_of_argument_is_packed_as_the_protocol_says(argument: Any) -> None:
    data = argument if isinstance(argument, bytes) else str(argument).encode()
    assert list(pack_commands([("ECHO", argument)])) == [b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n" % (len(data), data)]


# Nothing of Python runs between the signal and the packing, so that the signal is pending when hiredis begins.
INTERRUPTED = """
import ctypes, hiredis, operator, signal
send = getattr(ctypes.CDLL(None), "raise")
list(map(operator.call, [send, hiredis.pack_command], [signal.SIGINT.value, ("GET", {argument!r})]))
"""


@pytest.mark.parametrize(("argument", "end"), [(1, -signal.SIGSEGV), (0.5, -signal.SIGSEGV), ("1", -signal.SIGINT)])
def test_a_number_that_hiredis_converts_itself_crashes_at_an_interrupt(argument: object, end: int) -> None:
    """Our packing avoids this fault. Once this test fails, hiredis is fixed, and numbers can go to it as they are."""
    code = INTERRUPTED.format(argument=argument)
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == end


def test_hiredis_gets_no_numbers(connections: RedisConnections, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt of `tellback submit --follow` ended it by SIGSEGV in 7 of 500 runs."""
    seen: list[object] = []
    pack = cast("Any", module)._pack_text

    def recorded(command: tuple[object, ...]) -> bytes:
        seen.extend(command)
        packed: bytes = pack(command)
        return packed

    monkeypatch.setattr(module, "_pack_text", recorded)
    connections.run(("SET", KEY, 7))
    connections.run_all([("INCRBY", KEY, 1), ("INCRBYFLOAT", KEY, 0.5)])
    with connections.sent([("INCRBYFLOAT", KEY, 1)]) as replies:
        assert replies() == [b"9.5"]
    assert connections.run_blocking(0.01, ("BLPOP", 7)) == [None]
    assert {type(each) for each in seen} <= {str, bytes}
    assert len(seen) == 15


def test_one_write_carries_many_packed_commands(connections: RedisConnections) -> None:
    sizes = [0, 1, CHUNK_BYTES, 3 * CHUNK_BYTES, 5]
    commands = [("ECHO", b"x" * size) for size in sizes]
    assert len(list(pack_commands(commands))) < len(commands)
    assert [len(reply) for reply in connections.run_all(commands)] == sizes


def test_an_error_is_raised_by_the_read_of_its_own_reply(connections: RedisConnections) -> None:
    first, error, last = connections.run_all([("ECHO", "a"), ("INCR",), ("ECHO", "b")])
    assert (first, last) == (b"a", b"b")
    assert isinstance(error, exceptions.ResponseError)
    with pytest.raises(exceptions.ResponseError):
        connections.run(("INCR",))


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("OutOfMemoryError", exceptions.ResponseError),
        ("ReadOnlyError", exceptions.ResponseError),
        ("NoScriptError", exceptions.ResponseError),
        ("ClusterDownError", exceptions.ResponseError),
        ("MasterDownError", exceptions.ClusterDownError),
        ("BusyLoadingError", exceptions.ConnectionError),
        ("InvalidResponse", exceptions.RedisError),
    ],
)
def test_the_errors_that_callers_distinguish_have_their_classes(name: str, base: type[Exception]) -> None:
    assert issubclass(getattr(exceptions, name), base)


def test_an_unknown_script_has_its_own_error(connections: RedisConnections) -> None:
    assert isinstance(connections.run_all([("EVALSHA", "0" * 40, 0)])[0], exceptions.NoScriptError)


def test_replies_are_as_the_server_sends_them(connections: RedisConnections) -> None:
    """redis-py would make a dict of the hash, a float of the score and True of the OK."""
    connections.run(("HSET", KEY, "a", 1))
    assert connections.run(("HGETALL", KEY)) == [b"a", b"1"]
    assert connections.run(("SET", KEY, "x")) == b"OK"
    connections.run(("DEL", KEY))
    connections.run(("ZADD", KEY, 0.5, "m"))
    assert connections.run(("ZSCORE", KEY, "m")) == b"0.5"


def test_a_lost_connection_is_replaced_and_the_call_repeated(redis_server: RedisServer) -> None:
    with closing(RedisConnections(redis_server.url, call_deadline=None)) as connections:
        connections.run_all([("PING",)])
        with closing(Database(redis_server.url)) as other:
            other.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert connections.run_all([("ECHO", "a")]) == [b"a"]
        assert connections.run(("ECHO", "b")) == b"b"


def test_a_blocking_read_outlasts_the_timeout_of_its_socket(redis_server: RedisServer) -> None:
    with closing(RedisConnections(redis_server.url, call_deadline=0.8)) as connections:
        assert connections.run_blocking(1.0, ("BLPOP", KEY)) == [None]
        with connections.connection() as connection:
            socket = open_socket(connection)
            assert socket is not None
            assert socket.gettimeout() == 0.8, "the longer time held for that read alone"
        assert connections.run(("ECHO", "a")) == b"a"


def test_a_blocking_read_ends_as_its_command_does(connections: RedisConnections) -> None:
    connections.run(("RPUSH", KEY, "a"))
    assert connections.run_blocking(1.0, ("BLPOP", KEY)) == [[KEY.encode(), b"a"]]


def test_what_follows_a_blocking_read_comes_with_it(connections: RedisConnections) -> None:
    """An error stands in the place of its reply, and the connection stays sound."""
    connections.run(("RPUSH", KEY, "a"))
    read, length, unknown = connections.run_blocking(1.0, ("BLPOP", KEY), [("EXISTS", KEY), ("NOSUCH",)])
    assert (read, length) == ([KEY.encode(), b"a"], 0)
    assert isinstance(unknown, exceptions.ResponseError)
    refused, length = connections.run_blocking(1.0, ("BLPOP", KEY, "x"), [("EXISTS", KEY)])
    assert isinstance(refused, exceptions.ResponseError) or refused is None
    assert length == 0
    assert connections.run(("ECHO", "a")) == b"a"


def test_a_new_connection_makes_its_handshake_within_the_call(redis_server: RedisServer) -> None:
    """The deadline must know the connection before the handshake, which selects the database."""
    with closing(RedisConnections(f"{redis_server.url.rpartition('/')[0]}/3", call_deadline=5.0)) as connections:
        assert b" db=3 " in connections.run(("CLIENT", "INFO"))


def test_a_shut_socket_ends_the_read_of_another_thread(redis_server: RedisServer) -> None:
    with closing(RedisConnections(redis_server.url, call_deadline=None)) as connections:
        waiting: list[Any] = []
        ended: list[Exception] = []

        def read() -> None:
            with connections.connection() as connection:
                assert open_socket(connection) is not None, "the pool hands out connected ones"
                connection.send_command("BLPOP", KEY, "0")
                waiting.append(connection)
                try:
                    connection.read_response()
                except exceptions.RedisError as error:
                    ended.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        wait_until(lambda: waiting, "the thread reads")
        socket = open_socket(waiting[0])
        assert socket is not None
        socket.shutdown(2)
        thread.join(60)
        assert isinstance(ended[0], exceptions.ConnectionError)
        assert open_socket(waiting[0]) is None


def test_a_call_is_ended_at_its_deadline_while_its_reply_is_late(redis_server: RedisServer) -> None:
    with closing(Database(redis_server.url, call_deadline=1.0)) as bounded:
        bounded.command("PING")
        redis_server.suspend()
        try:
            with pytest.raises(Unavailable):
                bounded.command("ECHO", "late")
        finally:
            redis_server.resume()
        assert bounded.command("ECHO", "a") == b"a", "the late reply is not read as the next one's"


def test_a_call_that_its_own_deadline_ended_is_no_sign_of_an_absent_redis(redis_server: RedisServer) -> None:
    """If this process got no time to send, the socket that was shut reads as a broken pipe."""

    def send_late(connections: RedisConnections) -> None:
        with connections.connection(-29.9) as connection:
            line = open_socket(connection)
            assert line is not None
            assert line.recv(1) == b"", "it is shut at the deadline"
            connection.send_command("PING")
            connection.read_response()

    with closing(RedisConnections(redis_server.url, call_deadline=30)) as connections:
        connections.run(("PING",))
        with pytest.raises(exceptions.TimeoutError, match="deadline"):
            send_late(connections)
        assert connections.run(("ECHO", "a")) == b"a"


def test_a_handshake_that_its_deadline_ended_is_none_either(redis_server: RedisServer) -> None:
    with closing(RedisConnections(redis_server.url, call_deadline=30)) as connections:
        redis_server.suspend()
        try:
            with pytest.raises(exceptions.TimeoutError, match="deadline"), connections.connection(-29.9):
                pass
        finally:
            redis_server.resume()
        assert connections.run(("ECHO", "a")) == b"a"


def test_dropping_idle_connections_leaves_those_in_use(connections: RedisConnections) -> None:
    with connections.connection() as used:
        with connections.connection() as idle:
            idle.send_command("PING")
            idle.read_response()
        used.send_command("PING")
        connections.drop_idle()
        assert open_socket(idle) is None
        assert used.read_response() == b"PONG"


def test_an_idle_connection_is_checked_before_it_is_used(connections: RedisConnections) -> None:
    """A reply that nobody read is not the next call's, and a call that is never repeated meets no closed connection."""
    with connections.connection() as connection:
        connection.send_command("ECHO", "unread")
        wait_until(connection.can_read, "the reply has come")
    assert connections.run(("ECHO", "a")) == b"a"
    socket = open_socket(connection)
    assert socket is not None
    socket.shutdown(2)
    assert connections.run_all([("ECHO", "b")], repeat=False) == [b"b"]


def test_no_connection_reads_the_version_of_redis_py_again(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a read of a file and its parsing, 1.5 ms of work for each new connection."""
    monkeypatch.setattr("importlib.metadata.version", None)
    with closing(RedisConnections(redis_server.url, call_deadline=None)) as connections:
        assert connections.run(("PING",)) == b"PONG"


def test_calls_share_one_connection_and_concurrent_ones_do_not(connections: RedisConnections) -> None:
    ids = {connections.run(("CLIENT", "ID")) for _ in range(5)}
    assert len(ids) == 1
    with connections.connection():
        assert connections.run(("CLIENT", "ID")) not in ids


def test_any_number_of_threads_wait_at_once(connections: RedisConnections, redis_server: RedisServer) -> None:
    """Each has a connection: of 150 threads, 50 were refused as if Redis were away."""
    with ThreadPoolExecutor(120) as pool, closing(Database(redis_server.url)) as database:
        waiting = [pool.submit(connections.run_blocking, 30.0, ("BLPOP", KEY)) for _ in range(120)]
        try:
            wait_until(lambda: blocked(database) >= 120 or any(each.done() for each in waiting), "all threads wait")
        finally:
            database.command("RPUSH", KEY, *map(str, range(120)))
        assert sorted(int(each.result()[0][1]) for each in waiting) == list(range(120))


def test_a_forked_child_connects_for_itself(connections: RedisConnections) -> None:
    own = connections.run(("CLIENT", "ID"))
    child = os.fork()
    if child == 0:
        os._exit(0 if connections.run(("CLIENT", "ID")) != own else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert connections.run(("CLIENT", "ID")) == own, "the child's end leaves the parent's connection open"


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="the name of the option on Linux")
def test_an_idle_connection_is_probed_before_a_firewall_forgets_it(connections: RedisConnections) -> None:
    """The system's default is two hours, which older releases of redis-py leave as it is."""
    with connections.connection() as connection:
        line = open_socket(connection)
        assert line is not None
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        assert [line.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in options] == [30, 5, 3, 45_000]


def test_a_socket_file_takes_its_options() -> None:
    """The option that keeps a TCP connection alive is unknown to this one."""
    connections = RedisConnections("unix:///nowhere.sock", call_deadline=None)
    with closing(connections), pytest.raises(exceptions.ConnectionError):
        connections.run(("PING",))


def test_a_wrong_url_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="redis://"):
        RedisConnections("http://nowhere", call_deadline=None)


def test_a_call_is_repeated_twice_and_not_ten_times(redis_server: RedisServer) -> None:
    with closing(RedisConnections(redis_server.url, call_deadline=None)) as connections:
        failing = iter(range(100))

        def fail() -> None:
            next(failing)
            raise exceptions.ConnectionError

        with pytest.raises(exceptions.ConnectionError), connections.connection() as connection:
            connection.retry.call_with_retry(fail, connection.disconnect)
        assert next(failing) == 3


def test_the_private_names_exist() -> None:
    """They are listed here, so that a release without one fails with its name and not somewhere as a late reply."""
    connection: Any = cast("Any", redis.Connection)()
    assert hasattr(connection, "_sock")
    assert "inuse_connections" in inspect.signature(redis.ConnectionPool.disconnect).parameters
    assert callable(connection.on_connect)
    assert isinstance(redis.Redis().response_callbacks, dict)
    assert issubclass(SentinelManagedSSLConnection, redis.SSLConnection)
    parse = cast("Any", redis_connection).parse_url
    options = parse("rediss://user:word@host:7/3?ssl_ca_certs=file")
    assert options.pop("connection_class") is redis.SSLConnection
    login = {"username": "user", "password": "word", "host": "host", "port": 7, "db": 3}
    assert options == {**login, "ssl_ca_certs": "file"}


def test_redirections_name_the_slot_and_the_node() -> None:
    error: Any = cast("Any", exceptions.MovedError)("7 host:1")
    assert issubclass(exceptions.MovedError, exceptions.AskError)
    assert (error.slot_id, error.host, error.port) == (7, "host", 1)
