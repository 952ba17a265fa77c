"""The client of the state's Redis: raw replies, named Lua scripts, and one error, `Unavailable`, for every outage.

A script is called by its EVALSHA and loaded again when the server has forgotten it. `redis_py` has what reaches into
redis-py's private parts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from redis import exceptions

from tellback import clock
from tellback.errors import ConfigurationError, Unavailable
from tellback.state import redis_py
from tellback.state.call_deadline import CircuitBreaker
from tellback.state.cluster import ClusterConnections
from tellback.state.confirmation import Confirmation
from tellback.state.keys import Shard
from tellback.state.script_calls import Arg, Command, FirstCall, Script, ScriptCall
from tellback.state.scripts import common as scripts
from tellback.state.slots import keys_of_command, slot_of
from tellback.state.unavailable import SCRIPTS_MISSING, RedisFull, as_raised, server_of, unanswered_text
from tellback.tls_options import check_tls
from tellback.urls import servers_of

NOT_A_URL: Final = (
    "not the URL of a Redis: use redis://[user:password@]host:port/number, rediss://..., unix://path, "
    "redis+cluster://host:port,host:port or sentinel://host:port;sentinel://host:port/number?master_name=NAME, "
    "with special characters of a password percent-encoded"
)

FULL_BACKOFF: Final = 0.1  # seconds between two reads of a full Redis that refuses a blocking read

# Errors of a server that is no longer the primary, or is cut off from it. The address may resolve to another server by
# now, but an open connection does not move: behind a virtual IP, calls failed for 46 s until it was cut from outside.
# A server that is loading raises ConnectionError, which drops the connection by itself.
DEMOTED: Final = (exceptions.ReadOnlyError, exceptions.ClusterDownError)  # MasterDownError is one of the latter

Connections = redis_py.RedisConnections | ClusterConnections


class WrongType(exceptions.ResponseError):
    """A key holds another type than the call takes; `keys` are those of the call."""

    def __init__(self, message: str, keys: list[str]) -> None:
        cast("Any", super()).__init__(message)  # redis-py leaves its arguments untyped
        self.keys = keys


def connect_to(url: str, *, call_deadline: float | None, once: bool = False) -> Connections:
    """Prepare the connections to the Redis, the primary behind Sentinel, or the cluster that a URL names.

    Raises:
        ValueError: the URL is not that of a Redis; the message may contain part of the password.
        TypeError: redis-py does not know an option of the URL.
        ConfigurationError: an option of TLS is wrong.
    """
    check_tls(url)
    servers = servers_of(url)
    if servers is not None and servers.kind == "cluster":
        return ClusterConnections(servers, call_deadline=call_deadline, once=once)
    return redis_py.RedisConnections(url, call_deadline=call_deadline)


class Database:
    """A client of the state's Redis. Replies are as the server sends them (RESP2, bytes). Safe across threads.

    Every call raises `Unavailable` when Redis cannot be reached, is loading, or refuses writes for lack of memory,
    disk or replicas.
    """

    def __init__(
        self,
        url: str,
        *,
        call_deadline: float | None = None,
        confirmation: Confirmation | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """Prepare a client; it connects on first use.

        `call_deadline`, in seconds, is for callers that must not wait. It bounds connecting, each reply and each call
        as a whole, and turns retries off. `confirmation` is what `confirm` waits for, by default nothing. `breaker`
        stops calls soon after an unanswered one; of a cluster, those of the same node.

        Raises:
            ConfigurationError: the URL is not that of a Redis, or an option of TLS is wrong.
        """
        try:
            self._connections = connect_to(url, call_deadline=call_deadline, once=breaker is not None)
        except (ValueError, TypeError):  # its message may contain part of the password
            raise ConfigurationError(NOT_A_URL) from None
        self.url = url
        self._breaker = None if isinstance(self._connections, ClusterConnections) else breaker
        self._confirmation = confirmation
        self._cursors: dict[int, bytes] = {}  # of `scan_step`

    def command(self, *parts: Arg) -> Any:
        """Run one command and return its reply."""
        with _unavailable(self.url, self._breaker), self._leaving_demoted():
            try:
                return self._connections.run(parts)
            except exceptions.ResponseError as error:
                raise _with_keys(error, parts) from None

    def pipeline(self, commands: Sequence[Command], *, raise_on_error: bool = True, repeat: bool = True) -> list[Any]:
        """Run several commands in one round trip, not one transaction, and return their replies in order.

        If the connection breaks before the replies came, the commands are sent again, unless `repeat` is false.
        """
        if not commands:
            return []
        with _unavailable(self.url, self._breaker):
            replies = self._connections.run_all(commands, repeat=repeat)
            errors: list[Exception] = []
            for at, reply in enumerate(replies):
                if isinstance(reply, Exception):
                    replies[at] = _with_keys(reply, commands[at])
                    errors.append(replies[at])
            if any(isinstance(error, DEMOTED) for error in errors):
                self._connections.drop_idle()
            if errors and raise_on_error:
                raise errors[0]
        return replies

    @contextmanager
    def _leaving_demoted(self) -> Generator[None]:
        try:
            yield
        except DEMOTED:
            self._connections.drop_idle()
            raise

    def blocking(
        self, seconds: float, *parts: Arg, then: ScriptCall | None = None, first: FirstCall | None = None
    ) -> Any:
        """Run a blocking command for at most `seconds` and return its reply; its timeout is appended here.

        The reply may be late by as much as this client waits for any other. The script `then` follows in the same round
        trip, however the command ends, and its reply is returned instead. It may have run if this raises, so it must be
        one that may be repeated, such as a decision. So does `first` go before; on a cluster it is a round trip more.
        """
        after = [] if then is None else [then.evalsha]
        with _unavailable(self.url, self._breaker), self._leaving_demoted():
            if isinstance(self._connections, ClusterConnections):
                if first is not None:
                    first.answered(self._connections.run_all([first.call.evalsha])[0])
                replies = self._connections.run_blocking(seconds, parts, after)
            else:
                replies = self._connections.run_blocking(seconds, parts, after, first=first)
            if then is None or not isinstance(replies[-1], exceptions.NoScriptError):
                return redis_py.checked_replies(replies)[-1]
        return self.run(then)

    def first_of(self, key: str, seconds: float) -> Any:
        """Return the first element of a list without removing it, after waiting for one for at most `seconds`.

        A full Redis refuses BLMOVE, because it could grow a list. The list is then read once, after the wait.
        """
        try:
            # unconditional: the list is its own destination, so the element stays and everybody who waits gets it
            return self.blocking(seconds, "BLMOVE", key, key, "LEFT", "LEFT")
        except RedisFull:
            clock.sleep(min(seconds, FULL_BACKOFF))
            return self.command("LINDEX", key, 0)

    def run(self, call: ScriptCall) -> Any:
        """Run one named script and return its reply."""
        try:
            return self.pipeline([call.evalsha])[0]
        except exceptions.NoScriptError:  # so it has not run, and is sent again with its text
            return self.run_all([call])[0]

    def run_all(self, calls: Sequence[ScriptCall], also: Sequence[Command] = ()) -> list[Any]:
        """Run several scripts, then other commands, in one round trip; each is atomic, the whole is not.

        Calls of a script that the server has forgotten (after a restart) are repeated with its text, after the others:
        calls of different scripts must not depend on their order.
        """
        return redis_py.checked_replies(self.run_each(calls, also))

    def run_each(
        self,
        calls: Sequence[ScriptCall],
        also: Sequence[Command] = (),
        *,
        first: Sequence[Command] = (),
        repeat: bool = True,
    ) -> list[Any]:
        """Run as `run_all`, but return errors in place of failed calls' replies, and no replies to `first`.

        If `repeat` is false, nothing is sent again after the replies were lost: calls that take what comes next would
        take more. They may have had their effect.
        """
        sent = [*first, *(call.evalsha for call in calls), *also]
        replies = self.pipeline(sent, raise_on_error=False, repeat=repeat)
        failures = [as_raised(each, self.url) for each in replies[: len(first)] if isinstance(each, Exception)]
        # A key of another type shows in the reply of the call that concerns it; those of the others have run.
        redis_py.checked_replies([error for error in failures if not isinstance(error, WrongType)])
        del replies[: len(first)]
        for loads_once in (True, False):
            unknown = [i for i, reply in enumerate(replies) if isinstance(reply, exceptions.NoScriptError)]
            if not unknown:
                break
            # Loading them first would need another round trip, between which a server that restarts forgets them again.
            loading = _evals([calls[i] for i in unknown], once=loads_once)
            again = self.pipeline(loading, raise_on_error=False, repeat=repeat)
            missing = SCRIPTS_MISSING.format(where=server_of(self.url))
            for i, reply in zip(unknown, again, strict=True):
                replies[i] = Unavailable(missing) if _no_eval(reply) else reply
        return [as_raised(reply, self.url) if isinstance(reply, Exception) else reply for reply in replies]

    def load_scripts(self, scripts: Sequence[Script]) -> None:
        """Load the scripts that a server lacks, for clients that may run scripts but not bring their own.

        A script that was loaded stays until Redis restarts; one that came by EVAL may be evicted, from Redis 7.4 on.
        Each primary of a cluster that answers is asked for itself. Requirement A-94.
        """
        wanted = ("SCRIPT", "EXISTS", *(script.sha for script in scripts))
        known = [reply[0] for reply in self._at_primaries(lambda _: [wanted]) if not isinstance(reply, Exception)]
        missing = [script for script, *is_there in zip(scripts, *known, strict=True) if not all(is_there)]
        if missing:  # in one round trip, since hosts wait for them
            self._at_primaries(lambda _: [("SCRIPT", "LOAD", script.source) for script in missing])

    def _at_primaries(self, commands_of: Callable[[int], Sequence[Command]]) -> list[Any]:
        """Return the replies of each primary to commands made from its number, or an error in their place."""
        with _unavailable(self.url, self._breaker):
            if self.cluster is None:
                return [redis_py.checked_replies(self._connections.run_all(commands_of(0)))]
            replies = [*self.cluster.run_at_primaries(commands_of).values()]
            if all(isinstance(reply, Exception) for reply in replies):
                raise replies[0]
        return replies

    def scan_step(self, pattern: str, count: int) -> list[bytes]:
        """Return the keys that match, among the next `count` or so of each primary; after the last come the first."""

        def step(number: int) -> list[Command]:
            return [("SCAN", self._cursors.get(number, b"0"), "MATCH", pattern, "COUNT", count)]

        found: list[bytes] = []
        for number, replies in enumerate(self._at_primaries(step)):
            if not isinstance(replies, Exception):
                [[self._cursors[number], keys]] = replies
                found += keys
        return found

    @property
    def cluster(self) -> ClusterConnections | None:
        """The connections to the nodes of a cluster; None on one server."""
        return self._connections if isinstance(self._connections, ClusterConnections) else None

    def answering(self, shards: Sequence[Shard]) -> Sequence[Shard]:
        """Return the shards without those whose node did not answer a moment ago; on one server all of them."""
        if (cluster := self.cluster) is None:
            return shards
        with _unavailable(self.url, self._breaker):
            return [shard for shard in shards if cluster.answers(slot_of(shard.prefix))]

    def scan(self, pattern: str, count: int) -> Generator[list[bytes]]:
        """Yield all keys that match, about `count` looked at in each step."""
        with _unavailable(self.url, self._breaker):
            primaries = self._connections.each_primary()
        for server in primaries:
            cursor = b""
            while cursor != b"0":
                with _unavailable(self.url, self._breaker):
                    cursor, keys = server.run(("SCAN", cursor or b"0", "MATCH", pattern, "COUNT", count))
                yield keys

    @property
    def confirms(self) -> bool:
        """True if the settings ask for writes to be confirmed."""
        return self._confirmation is not None

    def confirm(self, writes: Sequence[Command]) -> list[Any]:
        """Repeat writes, wait until replicas or the disk have them, and return their replies.

        Call it only where `confirms` is true, with writes that may be repeated and whose replies show their effect.

        Raises:
            Unavailable: they were not confirmed in time, or cannot be. They are in Redis, unless a failover lost them.
        """
        wanted = self._confirmation
        assert wanted is not None, "the caller asked `confirms`"
        replies = self.pipeline(wanted.commands(writes), raise_on_error=False)
        wanted.check(replies, self.url)
        return replies[::2]

    def now_ms(self) -> int:
        """Return the server's time, in milliseconds since the epoch."""
        seconds, micros = self.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def is_cluster(self) -> bool:
        """Check whether the server is a node of a Redis Cluster, where one call must stay in one slot."""
        return b"cluster_enabled:1" in self.command("INFO", "cluster")

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()


def _evals(calls: Sequence[ScriptCall], *, once: bool) -> list[Command]:
    """Return commands that bring the scripts' source along, `once` for each script if one server gets them all.

    A visit of a hundred teams sent the same source four hundred times, and took 20 MB for it. Of a cluster, other
    nodes still lack the script, and get it with each call.
    """
    sent: set[str] = set()
    commands: list[Command] = []
    for call in calls:
        commands.append(call.evalsha if once and call.script.name in sent else call.eval)
        sent.add(call.script.name)
    return commands


def _no_eval(reply: Any) -> bool:
    return isinstance(reply, exceptions.NoPermissionError) and "'eval'" in str(reply)


def _with_keys(error: Exception, command: Command) -> Exception:
    if not str(error).startswith("WRONGTYPE"):
        return error
    return WrongType(
        str(error), [key if isinstance(key, str) else key.decode(errors="replace") for key in keys_of_command(command)]
    )


@contextmanager
def _unavailable(url: str, breaker: CircuitBreaker | None) -> Generator[None, None, None]:
    if breaker is not None and breaker.is_open:
        raise Unavailable(unanswered_text("a call just before got no reply", server_of(url)))
    try:
        yield
    except exceptions.RedisError as error:
        if breaker is not None and isinstance(error, exceptions.TimeoutError):
            breaker.trip()
        raised = as_raised(error, url)
        if raised is error:
            raise
        raise raised from error


def small_write(command: str, key: str, *args: Arg) -> ScriptCall:
    """Build a write that Redis accepts even at its `maxmemory`; `lua/common/small_write.lua` says which writes may."""
    return scripts.small_write(key=key, command=command, parts=args)


def shorten_lifetime(key: str, length_ms: int) -> Command:
    """Build the command that limits a marker's time to `length_ms`; it never extends a lifetime or creates a key.

    A marker is a short-lived key: a wake-up is pending, or somebody swept a moment ago. Redis expires keys by its
    server's wall clock, and a step back lengthens them: at -1 h, a marker of three seconds lives 3,603. No marker can
    have more time left than its own length, so every reader shortens it to that.
    """
    # race: it only shortens a marker that outlives what its holder asked for; Redis accepts it at maxmemory
    return ("PEXPIRE", key, length_ms, "LT")
