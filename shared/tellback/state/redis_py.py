"""The connections to a Redis, on redis-py; the module that relies on more of redis-py than its documents promise.

Each use and its reason:

- `hiredis.pack_command`, `connection_pool.get_connection` and `release`, `Connection.send_packed_command`,
  `read_response` and `retry`: many commands are one write, which redis-py's own pipeline does at twice the cost
  (docs/decisions/packed-pipelines.md).
- `redis_connect_func` and `Connection.on_connect`: a call's deadline must also bound the handshake of a new connection.
- `Connection._sock`: only shutting the socket ends another thread's read at the deadline; and a blocking read may take
  longer than the socket's timeout, for which `read_response` has an argument from version 8.0 on only.
- `connection_pool.disconnect(inuse_connections=False)`: after a failover the idle connections lead to the old primary.
- `Connection.can_read`, `connect` and `disconnect`: a pool's bookkeeping of each call costs as much as sending it and
  reading the reply, so this module keeps the idle connections of one server itself, checked as a pool checks them.
- `Connection.send_packed_command(check_health=False)`: this module also checks whether the server still answers on an
  idle connection. redis-py's own check waits as long as for any reply, and then fails the call.
- `redis.connection.parse_url`, in `sentinel`: the options of a URL, for Sentinel's clients too, which take no URL.

`tests/contracts/test_redis_py.py` checks them, on the oldest and newest version that pyproject.toml allows, too.
"""

from __future__ import annotations

import math
import socket
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

import hiredis
import redis
from redis import exceptions
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry

from tellback import clock
from tellback.forks import run_in_child
from tellback.keepalive import keepalive_options
from tellback.state.call_deadline import CallDeadline
from tellback.state.script_calls import Arg, Command, FirstCall
from tellback.state.sentinel import primary_of
from tellback.urls import check_database, servers_of

_KEEPALIVE: Final = {"socket_keepalive": True, "socket_keepalive_options": keepalive_options()}
CONNECT_TIMEOUT: Final = 2.0
SOCKET_TIMEOUT: Final = 5.0  # seconds; longer than every blocking read that we make
IDLE_SECONDS: Final = 5.0  # of a connection, after which it must answer a PING before it carries a call
ANSWER_SECONDS: Final = 1.0  # for that PING; a call that has to connect again is late by this, and does not fail
MAX_CONNECTIONS: Final = 1 << 31  # each thread that calls has one; redis-py 8.1 refuses the 101st by default
CHUNK_BYTES: Final = 64 << 10  # of small commands joined into one write; a larger command is sent alone
MIN_TIMEOUT: Final = 0.001  # of a blocking command, in seconds: 0 would block forever

_DRIVER: Final[dict[str, Any]] = {}  # redis-py 7.1 and later read their own version from disk for each connection
with suppress(ImportError):
    from redis.driver_info import DriverInfo

    _DRIVER["driver_info"] = DriverInfo()

_hiredis = cast("Any", hiredis)  # its stub allows only commands of one word

_NUMBERS: Final = frozenset({int, float})  # a tuple, of which each compares each argument, took twice as long

_pack_text: Callable[[tuple[Arg, ...]], bytes] = _hiredis.pack_command


def checked_replies(replies: list[Any]) -> list[Any]:
    """Return the replies; raise the first error among them."""
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


class RedisConnections:
    """The pooled connections to one server, or to the primary that Sentinel names. Safe across threads.

    Replies are as the server sends them (RESP2, bytes). All methods raise the errors of redis-py.
    """

    def __init__(self, url: str, *, call_deadline: float | None, shared: CallDeadline | None = None) -> None:
        """Prepare the pool; `Database` says what `call_deadline` does. Nodes of one cluster share their deadline.

        Raises:
            ValueError: the URL is not that of a Redis; the message may contain part of the password.
            TypeError: redis-py does not know an option of the URL.
        """
        retry = Retry(  # redis-py retries 10 times, after timeouts too: a Redis that hangs would block for minutes
            ExponentialBackoff(cap=0.2, base=0.02), retries=2, supported_errors=(exceptions.ConnectionError,)
        )
        self._call_deadline = None if call_deadline is None else shared or CallDeadline(call_deadline, open_socket)
        if call_deadline is not None:
            retry = Retry(NoBackoff(), retries=0)
        servers = servers_of(check_database(url))
        by_sentinel = servers is not None
        options: dict[str, Any] = {
            "protocol": 2,
            "max_connections": MAX_CONNECTIONS,
            "retry": retry,
            "socket_timeout": call_deadline or SOCKET_TIMEOUT,
            "socket_connect_timeout": call_deadline or CONNECT_TIMEOUT,
            # redis-py's connection over a socket file does not know the option, and raised TypeError for unix://
            **({} if url.startswith("unix:") else _KEEPALIVE),
            "health_check_interval": IDLE_SECONDS if by_sentinel and call_deadline is None else 0,
            "redis_connect_func": None if self._call_deadline is None else self._on_connect,
            **_DRIVER,
        }
        if servers is None:
            connect = cast("Any", redis.Redis).from_url  # its kwargs are untyped
            self._redis: Any = connect(url, **options)
            pool = self._redis.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # without connecting, to raise now what a call would raise
        else:
            self._redis = primary_of(servers, options)
        self._reply_timeout = call_deadline or SOCKET_TIMEOUT
        self._closed = False
        self._keeps_idle = not by_sentinel  # Sentinel's pool drops those to a former primary when it gets them back
        self._begin()
        run_in_child(self._begin)

    def _begin(self) -> None:
        """Forget the idle connections, also in a forked child, where they are the parent's."""
        self._idle = deque[tuple[Any, float]]()  # each with the time since when it is
        self._doubted_until = -math.inf

    def run(self, command: Command) -> Any:
        """Run one command and return its reply."""
        [reply] = checked_replies(self.run_all([command]))
        return reply

    def run_all(self, commands: Sequence[Command], *, repeat: bool = True) -> list[Any]:
        """Run several commands in one round trip and return their replies; an error reply is returned, not raised.

        Commands whose replies are lost are sent again, unless `repeat` is false.
        """
        pieces = list(pack_commands(commands))
        if self._call_deadline is not None:
            with self.connection() as connection:
                return _exchange_again(connection, pieces, len(commands), repeat=repeat)
        connection = self._borrow()  # not by `connection()`, which costs a fifth of a short call
        try:
            return _exchange_again(connection, pieces, len(commands), repeat=repeat)
        except exceptions.TimeoutError:
            self._doubt_idle()
            raise
        finally:
            self._return(connection)

    def each_primary(self) -> list[RedisConnections]:
        """Return the connections to each server that takes writes, as a cluster does: these."""
        return [self]

    @contextmanager
    def sent(self, commands: Sequence[Command], seconds: float = 0.0) -> Generator[Callable[[], list[Any]]]:
        """Send commands and yield the function that reads their replies, for a caller who sends to other servers too.

        The call ends `seconds` after the call deadline, which may be negative: the caller has used up some of it.
        """
        end = math.inf if self._call_deadline is None else clock.monotonic() + self._reply_timeout + seconds
        with self.connection(seconds) as connection:
            complete = False

            def replies() -> list[Any]:
                nonlocal complete
                try:
                    found = [_reply(connection) for _ in commands]
                except exceptions.ConnectionError as error:  # as in `connection`, past which that caller catches it
                    if clock.monotonic() < end:
                        raise
                    raise exceptions.TimeoutError("the call's deadline passed") from error
                complete = True
                return found

            try:
                connection.send_packed_command(list(pack_commands(commands)))
                yield replies
            finally:
                if not complete:  # a late reply must not be read as the reply to another command
                    connection.disconnect()

    def run_blocking(
        self,
        seconds: float,
        command: Command,
        then: Sequence[Command] = (),
        *,
        asking: bool = False,
        first: FirstCall | None = None,
    ) -> list[Any]:
        """Run a blocking command for at most `seconds`, and the commands `then` after it, all in one round trip.

        Its timeout is appended here. The replies come in order; an error reply is returned, not raised. `asking` is for
        the node that a slot of a cluster is moving to, which serves nobody else. `first` is not for a cluster.
        """
        end = clock.monotonic() + seconds
        with self.connection(seconds) as connection:
            try:
                left = max(MIN_TIMEOUT, end - clock.monotonic())
                sent: list[Command] = [(*command, f"{left:.3f}"), *then]
                if asking:
                    sent = [part for each in sent for part in (("ASKING",), each)]
                before = [first.call.evalsha] if first else []
                connection.send_packed_command(list(pack_commands(before + sent)))
                line = open_socket(connection)
                assert line is not None, "sending connects, or raises"
                if first:
                    first.answered(_reply(connection))
                line.settimeout(left + self._reply_timeout)
                replies = [_reply(connection) for _ in sent]
                line.settimeout(self._reply_timeout)
            except BaseException:
                connection.disconnect()  # a late reply must not be read as the reply to another command
                raise
            return replies[1::2] if asking else replies

    def drop_idle(self) -> None:
        """Drop the idle connections; the next call resolves the address and connects again.

        Connections that other threads use stay and get the same refusal: dropping them here would lose replies.
        """
        self._redis.connection_pool.disconnect(inuse_connections=False)
        for idle in list(self._idle):
            with suppress(ValueError):  # another thread has just borrowed it
                self._idle.remove(idle)
                idle[0].disconnect()
                self._idle.append(idle)

    def close(self) -> None:
        """Close the idle connections now, and those of calls under way when these end: they must not fail."""
        self._closed = True
        self.drop_idle()

    @contextmanager
    def connection(self, seconds: float = 0.0) -> Generator[Any]:
        """Yield a connection for a call that may take `seconds` more than the call deadline."""
        if self._call_deadline is None:
            connection = self._borrow()
            try:
                yield connection
            except exceptions.TimeoutError:
                self._doubt_idle()
                raise
            finally:
                self._return(connection)
            return
        call = self._call_deadline.begin(seconds)
        connection = None
        in_time = True
        try:
            try:
                connection = call.connection = self._borrow()
                yield connection
            finally:
                in_time = self._call_deadline.end(call)
                if connection is not None:
                    if not in_time:
                        connection.disconnect()
                    self._return(connection)
        except exceptions.TimeoutError:
            self._doubt_idle()
            raise
        except exceptions.ConnectionError as error:  # a socket that we shut reads as if the server had gone
            if in_time:
                raise
            self._doubt_idle()
            raise exceptions.TimeoutError("the call's deadline passed") from error

    def _borrow(self) -> Any:
        """Return a connection that is ready to send a command."""
        pool, connection = self._redis.connection_pool, None
        try:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                return pool.get_connection()
            # `can_read` would connect too, and a handshake that the deadline ended would then start again, unwatched.
            if open_socket(connection) is None:
                connection.connect()
            elif since <= self._doubted_until or _is_stale(connection) or self._fell_silent(connection, since):
                connection.disconnect()
                connection.connect()
        except BaseException:  # Ctrl-C in a handshake leaves a connection that looks sound, perhaps to another database
            if connection is None:
                pool.disconnect(inuse_connections=False)
            else:
                connection.disconnect()
                self._return(connection)
            raise
        return connection

    def _return(self, connection: Any) -> None:
        if self._keeps_idle:
            self._idle.append((connection, clock.monotonic()))
        else:
            self._redis.connection_pool.release(connection)
        if self._closed:
            self.drop_idle()

    def _fell_silent(self, connection: Any, since: float) -> bool:
        """Check whether the server still answers on a connection that was idle for long.

        A client with a call deadline has no time for this: it loses one call, and doubts the other connections.
        """
        return self._call_deadline is None and clock.monotonic() >= since + IDLE_SECONDS and not _answers(connection)

    def _doubt_idle(self) -> None:
        """Note that a call got no reply: whatever swallowed it may swallow what is sent on other old connections.

        A firewall that loses its state does so for all of them, and each would cost another call its whole time. Those
        that were used since the lost call was sent are known to be sound.
        """
        self._doubted_until = clock.monotonic() - self._reply_timeout
        if not self._keeps_idle:
            self._redis.connection_pool.disconnect(inuse_connections=False)

    def _on_connect(self, connection: Any) -> None:
        """Run a new connection's handshake within the deadline of the call that needs it."""
        assert self._call_deadline is not None, "given to connections of such a client alone"
        self._call_deadline.set_connection(connection)
        connection.on_connect()


def open_socket(connection: Any) -> socket.socket | None:
    """Return the socket of a connection; None while it is not connected."""
    found: socket.socket | None = getattr(connection, "_sock", None)
    return found


def _pack(command: Command) -> bytes:
    """Pack a command.

    Numbers become text first. While hiredis 3.5 converts one itself, a signal whose handler raises (Ctrl-C, a task's
    soft time limit) crashes the process: hiredis uses the NULL that `PyObject_Repr` then returns.
    """
    return _pack_text(tuple([str(arg) if type(arg) in _NUMBERS else arg for arg in command]))


def pack_commands(commands: Sequence[Command]) -> Generator[bytes]:
    """Pack commands into pieces of about `CHUNK_BYTES`."""
    waiting: list[bytes] = []
    size = 0
    for command in commands:
        packed = _pack(command)
        if waiting and size + len(packed) > CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
        waiting.append(packed)
        size += len(packed)
    yield b"".join(waiting)


def _exchange(connection: Any, pieces: Sequence[bytes], replies: int) -> list[Any]:
    """Send packed commands and read their replies."""
    try:
        connection.send_packed_command(pieces)
        return [_reply(connection) for _ in range(replies)]
    except BaseException:
        connection.disconnect()  # a late reply must not be read as the reply to another command
        raise


def _exchange_again(connection: Any, pieces: Sequence[bytes], replies: int, *, repeat: bool) -> list[Any]:
    """Exchange, and send again what is lost if it may be repeated."""
    if not repeat:
        return _exchange(connection, pieces, replies)
    found: list[Any] = connection.retry.call_with_retry(
        lambda: _exchange(connection, pieces, replies), connection.disconnect
    )
    return found


def _is_stale(connection: Any) -> bool:
    """Check whether the server has closed an idle connection, or left a reply in it that nobody has read."""
    try:
        return bool(connection.can_read())
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError):
        return True


def _answers(connection: Any) -> bool:
    """Check whether the server answers a PING soon; else the connection cannot be used again."""
    line = open_socket(connection)
    assert line is not None, "the caller looked"
    seconds = line.gettimeout()
    line.settimeout(ANSWER_SECONDS)
    try:
        connection.send_packed_command([_pack(("PING",))], check_health=False)
        connection.read_response()
    except exceptions.ResponseError:
        pass  # a user who may not ask this; the call itself says what is wrong
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError):
        return False
    line.settimeout(seconds)
    return True


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except exceptions.ResponseError as error:
        return error
