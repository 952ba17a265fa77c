"""A client of redis-py whose connections go to the primary that Sentinels name, and follow a failover at once.

Sentinels demote a living primary some ten seconds after they have promoted another, and it takes writes until then,
which are lost. So a process also hears what they announce. The one that leads a failover names the replica that it has
chosen some 0.1 s before it promotes it, and the others learn of it up to two seconds later: all are listened to.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import Any, Final, cast

from redis import connection as redis_connection
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelManagedSSLConnection

from tellback import clock
from tellback.forks import HasLock, run_in_child
from tellback.keepalive import keepalive_options
from tellback.log import get_logger
from tellback.urls import RedisServers

CHOSEN: Final = "+selected-slave"
PROMOTED: Final = "+promoted-slave"
SWITCHED: Final = "+switch-master"
GIVEN_UP: Final = "-failover-abort-slave-timeout"

SHORT_LIVED_SECONDS: Final = 1.0  # a process that ends sooner, such as a command of the command line, does not listen
TRUSTED_SECONDS: Final = 10.0  # without a Sentinel that confirms it; a Sentinel may die between choice and promotion
CHECK_SECONDS: Final = 15.0  # between two looks at whether the last client has been closed
RETRY_SECONDS: Final = 5.0

_OF_REPLICA: Final = re.compile(r"slave \S+ (?P<host>\S+) (?P<port>\d+) @ (?P<name>\S+) \S+ \d+")
_FORMS: Final = {
    CHOSEN: _OF_REPLICA,
    PROMOTED: _OF_REPLICA,
    SWITCHED: re.compile(r"(?P<name>\S+) \S+ \d+ (?P<host>\S+) (?P<port>\d+)"),
    GIVEN_UP: re.compile(r"master (?P<name>\S+) .*"),
}

ServerAddress = tuple[str, int]

_logger = get_logger("tellback.sentinel")


class SentinelAnnouncements(HasLock):
    """The announcements of a primary's Sentinels; a thread listens to each while this process has clients."""

    def __init__(self, name: str, sentinels: list[Any]) -> None:
        """Prepare to listen to these clients; `start` begins."""
        super().__init__()
        self._name = name
        self._sentinels = sentinels
        self._pools = weakref.WeakSet[Any]()
        self._begin()
        run_in_child(self._begin)

    def _begin(self) -> None:
        self._heard = set[Any]()  # the Sentinels to which a thread listens
        self.announced: tuple[ServerAddress, float] | None = None  # with the time until which it needs no confirmation

    def move(self, pool: Any) -> None:
        """Have this pool of connections follow what is announced."""
        with self._lock:
            self._pools.add(pool)

    def start(self) -> None:
        """Begin to listen to each Sentinel to which nobody in this process does yet."""
        with self._lock:
            missing = [sentinel for sentinel in self._sentinels if sentinel not in self._heard]
            self._heard.update(missing)
        with suppress(RuntimeError):  # the system gives no more threads
            for sentinel in missing:
                threading.Thread(target=_listen, args=(self, sentinel), name="tellback-sentinel", daemon=True).start()

    def has_ended(self, sentinel: Any) -> bool:
        """Check whether no client is left; if so, the next one begins to listen to this Sentinel again."""
        with self._lock:
            if self._pools:
                return False
            self._heard.discard(sentinel)
            return True

    def receive(self, channel: str, text: str) -> None:
        """Follow an announcement, if it is of this primary."""
        said = _FORMS[channel].fullmatch(text)
        if said is None or said["name"] != self._name:
            return
        until = clock.monotonic() + TRUSTED_SECONDS
        with self._lock:
            self.announced = None if channel == GIVEN_UP else ((said["host"], int(said["port"])), until)
        self.move_all()

    def forget(self, found: tuple[ServerAddress, float]) -> None:
        """Forget what no Sentinel confirms, unless another announcement has come while they were asked."""
        with self._lock:
            if self.announced is found:
                self.announced = None

    def move_all(self) -> None:
        """Have each pool drop its connections to a former primary: idle ones now, others when they are given back."""
        with self._lock:  # a client that is opened changes the set
            pools = list(self._pools)
        for pool in pools:
            with suppress(exceptions.RedisError):
                pool.get_master_address()


class _Once(Retry):
    """Calls once. Redis-py's, also with no retry, connects a subscription again at once.

    While a server ends, a TLS socket may be reset before its handshake. Python 3.11 does not close it, and warns later.
    """

    def call_with_retry(self, do: Callable[..., Any], *_args: Any, **_options: Any) -> Any:
        """Return what the call returns."""
        return do()


class _SentinelGroup(Sentinel):
    """Names the primary by what the Sentinels have announced, then by what they answer."""

    announcements: SentinelAnnouncements

    def discover_master(self, service_name: str) -> ServerAddress:
        """Return the address of the primary.

        Raises:
            MasterNotFoundError: no Sentinel names one.
        """
        self.announcements.start()  # here, where a connection is opened, and not with each call
        try:
            if (found := self.announcements.announced) is not None:
                address, trusted_until = found
                if clock.monotonic() < trusted_until or self._is_confirmed(service_name, address):
                    return address
                self.announcements.forget(found)
            asked: ServerAddress = cast("Any", super()).discover_master(service_name)
            return asked
        finally:  # nobody would close them before they are collected, with a warning
            for sentinel in cast("list[Any]", self.sentinels):
                sentinel.connection_pool.disconnect(inuse_connections=False)

    def _is_confirmed(self, name: str, address: ServerAddress) -> bool:
        """Check whether a Sentinel names this address; while replicas change over, that is the leader of the failover.

        SENTINEL MASTERS, which redis-py asks, has the former one until all have changed over.
        """
        for sentinel in cast("list[Any]", self.sentinels):
            with suppress(exceptions.ConnectionError, exceptions.TimeoutError):
                # by its words: the method of redis-py 6.4 raises TypeError
                named = sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
                if named and (named[0].decode(), int(named[1])) == address:
                    return True
        return False


_announcements: Final = weakref.WeakValueDictionary[tuple[str, ...], SentinelAnnouncements]()


def primary_of(servers: RedisServers, options: Mapping[str, Any]) -> Any:
    """Return a client whose connections go to the primary that the Sentinels name at the time of connecting.

    Idle connections move with it, others once their call has ended.

    Raises:
        ValueError: an option of the URL is wrong.
    """
    given = {name: value for name, value in _options_of(servers.url_of("-", 1)).items() if name not in ("host", "port")}
    timeouts = {name: options[name] for name in ("socket_timeout", "socket_connect_timeout")}
    manager = _manager(servers, timeouts)
    if servers.scheme == "rediss":
        given["connection_class"] = SentinelManagedSSLConnection
    key = (servers.master_name, *servers.nodes)
    announcements = _announcements.get(key)
    if announcements is None:  # two threads may make one each, which only costs connections
        keepalive = {"socket_keepalive": True, "socket_keepalive_options": keepalive_options()}
        listeners = _manager(servers, {**timeouts, **keepalive, "retry": _Once(NoBackoff(), 0)}).sentinels
        announcements = _announcements[key] = SentinelAnnouncements(servers.master_name, listeners)
    manager.announcements = announcements
    client = manager.master_for(servers.master_name, **given, **options)
    announcements.move(client.connection_pool)
    return client


def _manager(servers: RedisServers, options: Mapping[str, Any]) -> Any:
    sentinels = [_options_of(node) for node in servers.nodes]
    login = {name: value for name, value in sentinels[0].items() if name not in ("host", "port")}
    make = cast("Any", _SentinelGroup)  # its signature is untyped
    return make(
        [(node["host"], node["port"]) for node in sentinels],
        sentinel_kwargs={"retry": Retry(NoBackoff(), 0), **login, **options, "ssl": servers.scheme == "rediss"},
    )


def _listen(announcements: SentinelAnnouncements, sentinel: Any) -> None:
    """Listen to one Sentinel until no client is left. Clients that are opened meanwhile share the thread."""
    clock.sleep(SHORT_LIVED_SECONDS)
    while not announcements.has_ended(sentinel):
        try:
            with closing(sentinel.pubsub()) as subscription:
                subscription.subscribe(*_FORMS)
                while not announcements.has_ended(sentinel):
                    _pass_on(subscription.get_message(timeout=CHECK_SECONDS), announcements)
        except exceptions.ResponseError as error:  # a user of the Sentinels who may not subscribe
            _logger.warning("sentinel.refused", reason=str(error))
            return
        except Exception as error:  # noqa: BLE001 - what answers may be no Sentinel, and one may be there later
            _logger.debug("sentinel.lost", reason=repr(error))
            clock.sleep(RETRY_SECONDS)


def _pass_on(message: dict[str, Any] | None, announcements: SentinelAnnouncements) -> None:
    if message is None:
        return
    if message["type"] == "message":
        announcements.receive(message["channel"].decode(), message["data"].decode())
    elif message["data"] == len(_FORMS):  # subscribed to all; what was announced before was missed
        announcements.move_all()


def _options_of(url: str) -> dict[str, Any]:
    """Return the options of a URL as arguments of a client, without the class of its connections."""
    parse = cast("Any", redis_connection).parse_url
    options: dict[str, Any] = parse(url)
    options.pop("connection_class", None)
    return options
