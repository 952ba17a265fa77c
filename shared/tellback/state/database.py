"""One Redis behind a narrow typed door: raw replies, one error for «away», the server's clock."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import hiredis
import redis
from redis import exceptions
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry

from tellback import clock
from tellback.errors import ConfigurationError, Unavailable
from tellback.state.patience import Patience

if TYPE_CHECKING:
    from tellback.state.script import Call

Arg = str | bytes | int | float
Command = Sequence[Arg]

CONNECT_TIMEOUT = 2.0
SOCKET_TIMEOUT = 5.0  # above every blocking read that we make (1 s)
PIECE_BYTES = 64 << 10  # sent at once, at most; a larger command goes alone
SHORTEST = 0.001  # of a blocking command, in seconds: 0 would be for ever
NOT_A_URL = (
    "not the URL of a Redis: use redis://[user:password@]host:port/number, rediss://... or unix://path, "
    "with special characters of a password percent-encoded"
)
REFUSALS = ("MISCONF", "NOREPLICAS")  # first words of a server that cannot write now: a full disk, missing replicas

_hiredis = cast("Any", hiredis)  # its stub knows commands of one word only
_pack: Callable[[tuple[Arg, ...]], bytes] = _hiredis.pack_command


class Database:
    """A client of the state's Redis. Replies are as the server sends them (RESP2, bytes); safe across threads.

    Every call raises `Unavailable` when Redis cannot be reached, is loading, or refuses writes for lack of memory,
    disk or replicas.
    """

    def __init__(self, url: str, *, patience: float | None = None) -> None:
        """Take the URL; connections are made when first used.

        `patience`, in seconds, is for callers that must not wait: it bounds connecting, each reply and each call as a
        whole, and nothing is tried again.

        Raises:
            ConfigurationError: not the URL of a Redis.
        """
        retry = Retry(  # by default 10 times, after time-outs too: a Redis that hangs would hold a caller for minutes
            ExponentialBackoff(cap=0.2, base=0.02), retries=2, supported_errors=(exceptions.ConnectionError,)
        )
        self._bound = None if patience is None else Patience(patience)
        if patience is not None:
            retry = Retry(NoBackoff(), retries=0)
        connect = cast("Any", redis.Redis.from_url)  # pyright: ignore[reportUnknownMemberType]  # its kwargs are untyped
        try:
            self._redis: Any = connect(
                url,
                protocol=2,
                retry=retry,
                socket_timeout=patience or SOCKET_TIMEOUT,
                socket_connect_timeout=patience or CONNECT_TIMEOUT,
                socket_keepalive=True,
                health_check_interval=15 if patience is None else 0,
                redis_connect_func=None if self._bound is None else self._greet,
            )
        except ValueError:  # what it says may hold a part of the password
            raise ConfigurationError(NOT_A_URL) from None
        self._redis.response_callbacks.clear()  # replies raw: one shape whatever redis-py does with a command's reply
        self.url = url
        self._patience = patience or SOCKET_TIMEOUT

    def command(self, *parts: Arg) -> Any:
        """The reply of one command."""
        if self._bound is not None:
            return self.pipeline([parts])[0]
        with _away():
            return self._redis.execute_command(*parts)

    def pipeline(self, commands: Sequence[Command], *, raise_on_error: bool = True) -> list[Any]:
        """The replies of several commands, in one round trip and in order, not in one transaction."""
        if not commands:
            return []
        pieces = list(_packed(commands))
        with _away(), self._connection() as connection:
            replies: list[Any] = connection.retry.call_with_retry(
                lambda: _exchange(connection, pieces, len(commands)), connection.disconnect
            )
            if raise_on_error:
                for reply in replies:
                    if isinstance(reply, Exception):
                        raise reply
        return replies

    @contextmanager
    def _connection(self, seconds: float = 0.0) -> Generator[Any]:
        """A connection, for a call that may take `seconds` beside what any may take."""
        pool = self._redis.connection_pool
        if self._bound is None:
            connection = pool.get_connection()
            try:
                yield connection
            finally:
                pool.release(connection)
            return
        call = self._bound.begin(seconds)
        try:
            connection = pool.get_connection()
        except BaseException:
            self._bound.end(call)
            raise
        call.connection = connection
        try:
            yield connection
        finally:
            if not self._bound.end(call):
                connection.disconnect()
            pool.release(connection)

    def _greet(self, connection: Any) -> None:
        """What a new connection does first: what it waits for counts as the call's."""
        assert self._bound is not None, "given to connections of such a client alone"
        self._bound.connects(connection)
        connection.on_connect()

    def blocking(self, seconds: float, *parts: Arg) -> Any:
        """The reply of a command whose last argument, its timeout, is added here, after at most `seconds`.

        A reply may be late by as long as this client waits for any other.
        """
        end = clock.monotonic() + seconds
        with _away(), self._connection(seconds) as connection:
            try:
                left = max(SHORTEST, end - clock.monotonic())
                connection.send_command(*parts, f"{left:.3f}")
                return connection.read_response(timeout=left + self._patience)
            except BaseException:
                connection.disconnect()  # what it answers later must not be read as the reply to something else
                raise

    def run(self, call: Call) -> Any:
        """The reply of one named script."""
        return self.run_all([call])[0]

    def run_all(self, calls: Sequence[Call], also: Sequence[Command] = ()) -> list[Any]:
        """The replies of several scripts, then of other commands, in one round trip; each is atomic, the whole is not.

        A server that has forgotten the scripts (a restart) is taught them again, and only what it refused runs again.
        """
        replies = self.run_each(calls, also)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    def run_each(self, calls: Sequence[Call], also: Sequence[Command] = ()) -> list[Any]:
        """As `run_all`, with an error in the place of the reply of what failed: one costs no other its reply."""
        replies = self.pipeline([*(call.evalsha for call in calls), *also], raise_on_error=False)
        unknown = [i for i, reply in enumerate(replies) if isinstance(reply, exceptions.NoScriptError)]
        if unknown:
            scripts = {calls[i].script for i in unknown}
            self.pipeline([("SCRIPT", "LOAD", script.source) for script in scripts])
            again = self.pipeline([calls[i].evalsha for i in unknown], raise_on_error=False)
            for i, reply in zip(unknown, again, strict=True):
                replies[i] = reply
        return [_named(reply) if isinstance(reply, Exception) else reply for reply in replies]

    def now_ms(self) -> int:
        """The server's time, in milliseconds since the epoch."""
        seconds, micros = self.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def is_cluster(self) -> bool:
        """Whether the server is a node of a Redis Cluster, where one call stays in one slot."""
        return b"cluster_enabled:1" in self.command("INFO", "cluster")

    def close(self) -> None:
        """Give the connections back."""
        self._redis.close()


def _packed(commands: Sequence[Command]) -> Generator[bytes]:
    """Commands as they are sent, in pieces of some size; as redis-py packs and sends them they cost a caller twice."""
    waiting: list[bytes] = []
    size = 0
    for command in commands:
        packed = _pack(tuple(command))
        if waiting and size + len(packed) > PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
        waiting.append(packed)
        size += len(packed)
    yield b"".join(waiting)


def _exchange(connection: Any, pieces: Sequence[bytes], replies: int) -> list[Any]:
    """The replies to packed commands; an error is one of them."""
    try:
        connection.send_packed_command(pieces)
        return [_reply(connection) for _ in range(replies)]
    except BaseException:
        connection.disconnect()  # what it answers later must not be read as the reply to something else
        raise


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except exceptions.ResponseError as error:
        return error


def _named(error: Exception) -> Exception:
    """The error of a reply, as every call raises it."""
    try:
        with _away():
            raise error  # noqa: TRY301 - `_away` names it by what is raised in it
    except Exception as named:  # noqa: BLE001 - it is what is asked for
        return named


@contextmanager
def _away() -> Generator[None, None, None]:
    try:
        yield
    except (
        exceptions.ConnectionError,  # BusyLoadingError is one of them
        exceptions.TimeoutError,
        exceptions.ReadOnlyError,
        exceptions.OutOfMemoryError,
        exceptions.ClusterDownError,  # MasterDownError is one of them
        exceptions.InvalidResponse,  # whatever answers there, it is no Redis
    ) as error:
        raise Unavailable(f"Redis does not take the call: {error}") from error
    except exceptions.ResponseError as error:
        if not str(error).startswith(REFUSALS):
            raise
        raise Unavailable(f"Redis does not take the call: {error}") from error
