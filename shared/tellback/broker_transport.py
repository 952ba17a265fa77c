"""Kombu's Redis transport, extended for failover and for malformed messages.

After a failover the old primary answers with READONLY; these transports then reconnect and resolve the address again. A
message that Celery cannot handle is rejected and logged instead of ending the worker. Needs kombu, which comes with the
workers.

kombu decodes a message where it reads it from Redis, in two methods that are not public, and an exception there ends
the worker; it offers no other place to reject one. tests/contracts/test_kombu.py holds what this relies on, and runs on
the oldest and the newest version that are allowed.

Messages are checked before Celery sees them. Anyone with access to the broker can put anything into a queue, and Celery
and kombu do not check a message's structure. A body that was not base64, or had no arguments, crashed the worker that
read it, and then each of its successors.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from queue import Empty
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from kombu.transport import TRANSPORT_ALIASES, redis, virtual
from redis import exceptions

from tellback.log import get_logger
from tellback.names import Family, Task
from tellback.redaction import redact_text
from tellback.truncation import readable_prefix

Short = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]

Shard = Annotated[int, msgspec.Meta(ge=0)]

_ARGUMENTS: Final[dict[str, Any]] = {
    Task.CONSUME: tuple[Family, Annotated[list[tuple[Short, Shard]], msgspec.Meta(min_length=1, max_length=64)]],
    Task.RUN_JOB: tuple[Short, Shard, Short],
    Task.FIRE_TIMERS: tuple[Short, Shard],
    Task.VISIT_TEAMS: tuple[()],
    Task.DECAY: Annotated[list[Short], msgspec.Meta(min_length=1, max_length=2)],  # a run that continues: its token
}


class _TaskDelivery(msgspec.Struct):
    exchange: str
    routing_key: str


class _Properties(msgspec.Struct):
    delivery_tag: Short
    delivery_info: _TaskDelivery
    body_encoding: str | None = None
    priority: int | None = 0
    correlation_id: str | None = None
    reply_to: str | None = None


class _Envelope(msgspec.Struct):
    """The parts that kombu reads of every message, including those between workers."""

    properties: _Properties
    body: str = ""
    content_type: str | None = msgspec.field(default=None, name="content-type")
    content_encoding: str | None = msgspec.field(default=None, name="content-encoding")
    headers: dict[str, Any] | None = None


class _Headers(msgspec.Struct):
    """The headers that Celery reads of a task's message."""

    task: Short
    id: Short
    root_id: str | None = None
    parent_id: str | None = None
    group: str | None = None
    eta: str | None = None
    expires: str | None = None
    retries: int = 0
    timelimit: tuple[float | None, float | None] = (None, None)
    shadow: str | None = None
    argsrepr: str | None = None
    kwargsrepr: str | None = None
    origin: str | None = None
    ignore_result: bool = False


class _Embedded(msgspec.Struct):
    callbacks: list[Any] | None = None
    errbacks: list[Any] | None = None
    chain: list[Any] | None = None
    chord: Any = None


class _ReplyTo(msgspec.Struct):
    exchange: str
    routing_key: str


class _Control(msgspec.Struct):
    """A message of remote control. A message of any other form makes Celery set up its remote control again."""

    method: Short
    arguments: dict[str, Any] | None = None
    destination: list[str] | None = None
    # An expression ("pcre") and a long glob can take any time, in the worker's main process.
    pattern: Short | None = None
    matcher: Literal["glob"] | None = None
    reply_to: _ReplyTo | None = None
    ticket: str | None = None
    itself: msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="self")  # kombu passes fields as keywords


class _ControlHeaders(msgspec.Struct):
    clock: int | None = None


class Unfit(ValueError):
    """A message has the wrong structure; no part of it was run."""


def check_envelope(raw: Any) -> None:
    """Check the parts that kombu reads of every message.

    Raises:
        Unfit: a part is missing or of the wrong type, or the message is compressed.
    """
    envelope = _converted(raw, _Envelope, "the message")
    # A small compressed body could expand to any size in the worker's memory.
    if envelope.headers and "compression" in envelope.headers:
        raise Unfit("it is compressed, which no client of ours does")
    _body(envelope)


def check_task(raw: Any) -> None:
    """Check a message in a queue of tasks; for our own tasks also the types of their arguments.

    Raises:
        Unfit: a part is missing or of the wrong type.
    """
    envelope = _converted(raw, _Envelope, "the message")
    headers = _converted(envelope.headers or {}, _Headers, "the headers")
    if envelope.content_type != "application/json" or (envelope.content_encoding or "").lower() != "utf-8":
        raise Unfit("its content is not JSON in UTF-8")
    try:
        arguments, keywords, embedded = msgspec.json.decode(
            _body(envelope), type=tuple[list[Any], dict[str, Any], _Embedded]
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unfit(f"the body: {error}") from None
    if headers.task in _ARGUMENTS:
        _converted(arguments, _ARGUMENTS[headers.task], "the arguments")
        if keywords or headers.eta or any(msgspec.structs.astuple(embedded)):
            raise Unfit("it has keyword arguments, a time to wait for, or tasks that follow; ours have none")


def check_control(headers: Any, body: Any) -> None:
    """Check the decoded parts of a message of remote control.

    Raises:
        Unfit: a part is missing or of the wrong type.
    """
    _converted(headers or {}, _ControlHeaders, "the headers")
    _converted(body, _Control, "the body")


def _body(envelope: _Envelope) -> bytes:
    if envelope.properties.body_encoding != "base64":
        return envelope.body.encode("utf-8", "replace")
    try:
        return base64.b64decode(envelope.body.encode("ascii"), validate=True)
    except ValueError:  # UnicodeEncodeError is one
        raise Unfit("the body is not base64") from None


def _converted(value: Any, type_: Any, where: str) -> Any:
    try:
        return msgspec.convert(value, type_)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Unfit(f"{where}: {error}") from None


_CONTROL_SUFFIX: Final = ".celery.pidbox"  # of the queue through which a worker gets remote control

SHOWN: Final = 200  # characters of a rejected message in the log

_ERRORS: Final[tuple[type[Exception], ...]] = (
    *cast("Any", redis.Transport).connection_errors,
    # Errors of a server that is no longer the primary. As connection errors they make kombu reconnect.
    exceptions.ReadOnlyError,
    exceptions.ClusterDownError,  # the base class of MasterDownError
)

BROKER_ERRORS: Final[tuple[type[Exception], ...]] = (*_ERRORS, *cast("Any", redis.Transport).channel_errors)

on_rejected: Final[list[Callable[[], None]]] = []
"""Called for each rejected message, to count it."""

_logger = get_logger("tellback.broker")


def rejected(queue: str, reason: object, raw: object) -> None:
    """Log a rejected message with the start of its content, and call `on_rejected`."""
    _logger.error(
        "broker.rejected", queue=queue, reason=str(reason), head=redact_text(readable_prefix(repr(raw)))[:SHOWN]
    )
    for listener in on_rejected:
        listener()


class _TaskMessage(virtual.Message):
    """A message whose constructor never raises; `fault` has the error of a malformed one."""

    def __init__(self, payload: Any, channel: Any = None, **kwargs: Any) -> None:
        # kombu builds the message outside any handler of ours: an exception here would end the worker.
        self.raw = payload
        self.fault = _fault(payload)
        super().__init__(_empty() if self.fault else payload, channel=channel, **kwargs)


def _fault(payload: Any) -> Unfit | None:
    try:
        check_envelope(payload)
    except Unfit as fault:
        return fault
    return None


def _check(message: Any, queue: str, *, tasks: bool) -> None:
    if message.fault:
        raise message.fault
    if tasks:
        check_task(message.raw)
    elif message.content_type != "application/json" or not isinstance(message.decode(), dict | list):
        raise Unfit("its content is not an object or a list of JSON")
    elif "@" in queue and queue.endswith(_CONTROL_SUFFIX):  # a queue of replies has an id in place of the node's name
        check_control(message.headers, message.decode())


def _empty() -> dict[str, Any]:
    """Return a valid empty message as a stand-in for a malformed one, for kombu to acknowledge."""
    delivery = {"exchange": "", "routing_key": ""}
    return {"body": "", "properties": {"delivery_tag": str(uuid.uuid4()), "delivery_info": delivery}}


@contextmanager
def _rejecting() -> Generator[None]:
    """Reject a message that kombu cannot decode, as if none had come.

    Besides invalid JSON these are its typed values, `{"__type__": ...}`, whose decoders raise whatever they please.
    """
    try:
        yield
    except Empty:
        raise
    except BROKER_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        rejected("", f"it cannot be decoded: {type(error).__name__}", "")
        raise Empty from None


class _FreeingQos(redis.QoS):
    """The messages that a worker holds; one whose acknowledgement fails gives its place free.

    Otherwise it would count as held for as long as the worker runs: after as many as the pool has processes, none is
    taken any more, though the worker lives. The broker delivers such a message again after its visibility timeout.
    """

    def ack(self, delivery_tag: Any) -> None:
        """Acknowledge a message."""
        with self._freeing(delivery_tag):
            super().ack(delivery_tag)

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:  # noqa: FBT001, FBT002 - kombu's signature
        """Reject a message."""
        with self._freeing(delivery_tag):
            super().reject(delivery_tag, requeue=requeue)

    @contextmanager
    def _freeing(self, delivery_tag: Any) -> Generator[None]:
        try:
            yield
        except BROKER_ERRORS:
            virtual.QoS.ack(self, delivery_tag)
            raise


class _TaskGuard:
    """The handling, in both channels, of messages that cannot be read or that Celery cannot process."""

    Message = _TaskMessage
    QoS = _FreeingQos
    _kept_client: Any = None

    def basic_consume(
        self: Any,
        queue: str,
        no_ack: bool,  # noqa: FBT001 - kombu's signature
        callback: Callable[[Any], Any],
        *args: Any,
        **kw: Any,
    ) -> Any:
        """Consume from a queue; a bad message ends neither the consumer nor the worker."""

        def guarded(message: Any) -> None:
            try:
                # Messages between workers need no acknowledgement and are not tasks.
                _check(message, queue, tasks=not no_ack)
                callback(message)
            except BROKER_ERRORS:
                raise
            except Exception as fault:  # noqa: BLE001 - whatever Celery makes of a forged message
                rejected(queue, fault if isinstance(fault, Unfit) else repr(fault), message.raw)
                if not no_ack and not message.acknowledged:
                    message.reject()

        return cast("Any", super()).basic_consume(queue, no_ack, guarded, *args, **kw)

    def _create_client(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002 - kombu's signature
        """Return the client of this channel's pool.

        kombu makes a new one for each command. With redis-py 8.1 that is half of what an event of Celery takes.
        """
        # A child, and a channel that was closed, have another pool.
        if not asynchronous and self._kept_client and self._kept_client.connection_pool is cast("Any", self).pool:
            return self._kept_client
        made = cast("Any", super()._create_client(asynchronous))  # type: ignore[misc]  # mixed in
        if not asynchronous:
            self._kept_client = made
        return made

    def _get_pool(self, *args: Any, **options: Any) -> Any:
        """Open the pool of this channel's Redis connections.

        Celery closes a lost connection while another thread may still use its channel. kombu then raises an
        `AttributeError`, which nobody takes for a lost connection.
        """
        try:
            return super()._get_pool(*args, **options)  # type: ignore[misc]  # mixed in
        except AttributeError as error:
            transport = cast("Any", self).connection
            if transport is not None and transport.client is not None:
                raise
            raise exceptions.ConnectionError("this connection to the broker was closed by another thread") from error

    def _brpop_read(self, **options: Any) -> Any:
        """Read the next message of a queue; kombu decodes it here and offers no other place to reject it."""
        with _rejecting():
            return super()._brpop_read(**options)  # type: ignore[misc]  # mixed in

    def _receive_one(self, client: Any) -> Any:
        """Read the next message that was published to all workers, as above.

        kombu ends its loop over what has arrived if this raises `Empty`, and messages behind the bad one would wait in
        the connection's buffer for the next broadcast. kombu itself raises it here for what is not JSON, and only then.
        """
        with suppress(Empty), _rejecting():
            try:
                return super()._receive_one(client)  # type: ignore[misc]  # as above
            except Empty as empty:
                raise empty.__context__ or empty from None
        return None


class Channel(_TaskGuard, redis.Channel):  # type: ignore[misc]  # the stub of kombu is narrower than kombu
    """A channel to one Redis."""


class SentinelChannel(_TaskGuard, redis.SentinelChannel):  # type: ignore[misc]  # as above
    """A channel to the primary that Sentinel names."""


class BrokerTransport(redis.Transport):
    """The transport of `redis://`, `rediss://` and, by Celery's form of it, `unix://`."""

    Channel = Channel
    connection_errors = _ERRORS


class SentinelTransport(redis.SentinelTransport):
    """The transport of `sentinel://`."""

    Channel = SentinelChannel
    connection_errors = _ERRORS


def install() -> None:
    """Make kombu use these transports in this process; it still handles URLs, TLS and Sentinel itself."""
    for alias in ("redis", "rediss"):
        TRANSPORT_ALIASES[alias] = f"{__name__}:BrokerTransport"
    TRANSPORT_ALIASES["sentinel"] = f"{__name__}:SentinelTransport"
