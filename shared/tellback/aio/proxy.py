"""The classes of `tellback.aio`, built from the client's: each method runs in a thread and you await its result.

Nothing in the client is written twice. A method that would wait is instead polled without waiting, so a thousand
waiting tasks hold no thread. A new class of the client belongs in `WRAPPED_CLASSES`; a method that waits, in `WAITING`;
an iterator that waits, in `REPLACED`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NamedTuple, cast
from weakref import WeakKeyDictionary

from tellback import clock
from tellback.aio.call_threads import CallThreads
from tellback.backoff import Backoff
from tellback.client.banks import Bank
from tellback.client.commands import Job
from tellback.client.connection import Tellback
from tellback.client.connection import connect as connect_now
from tellback.client.guidance import Prompt
from tellback.client.outbox import OutboxDelivery, poll_outbox
from tellback.client.signal_session import SignalSession
from tellback.client.turns import Turn
from tellback.contracts.turns import RoutingOutcome
from tellback.errors import InvalidInput, Timeout, Unavailable
from tellback.settings import Settings
from tellback.state.dead_letters import DeadLetters

WRAPPED_CLASSES: Final = (Tellback, Job, Prompt, Turn, OutboxDelivery, Bank, SignalSession, DeadLetters)

OMITTED: Final = frozenset({(DeadLetters, "add")})  # only workers add dead letters

AWAITED_PROPERTIES: Final = frozenset({(Turn, "state")})  # these properties call Redis, so you await them

NONBLOCKING: Final = frozenset({(Bank, "session")})  # these neither call Redis nor wait, so you don't await them

# These publish an event, as every method of a prompt does, so they run in the publishing threads.
PUBLISHING: Final = frozenset({(Tellback, "prompt"), (Tellback, "context_changed")})

# A waiting call polls. It starts fast for an answer that is nearly there, and slows down so that many waiting tasks
# don't keep the threads busy; the longest delay is also the most that polling adds to a wait.

BACKOFF: Final = Backoff(first=0.001, longest=0.05, factor=1.25)

_END: Final = object()


def _prompt_timeout(prompt: Prompt) -> float:
    return prompt._context.settings.feedback_deadline  # noqa: SLF001 - this package is the client's asyncio side


class WaitingMethod(NamedTuple):
    """A method that waits: the argument with its longest wait, and that argument's default (None: no limit).

    `extra_seconds` returns the time beyond that wait after which the call gives up, for when every thread is busy or
    Redis doesn't answer.
    """

    argument: str
    default: float | None
    extra_seconds: Callable[[Any], float] | None = None


WAITING: Final[Mapping[tuple[type[Any], str], WaitingMethod]] = {
    (Prompt, "feedback"): WaitingMethod("wait", 0.0, _prompt_timeout),
    (Job, "wait"): WaitingMethod("timeout", None),
}


def _poll_outbox(client: Tellback, *args: Any, **kwargs: Any) -> Iterator[OutboxDelivery | float]:
    return poll_outbox(client.context, *args, **kwargs)


def _merge_turns(client: Tellback, turns: Any, *, into: Any) -> None:
    given = map(_unwrap_argument, turns) if hasattr(turns, "__iter__") else turns
    client.merge_turns(given, into=into)


REPLACED: Final[Mapping[tuple[type[Any], str], Callable[..., Any]]] = {
    (Tellback, "outbox"): _poll_outbox,
    (Job, "follow"): Job._poll_output,  # noqa: SLF001 - as above
    (Tellback, "merge_turns"): _merge_turns,
}
"""The functions that are called in place of methods.

The iterators that wait include the seconds until the next poll, so that no thread is held meanwhile.
"""

_kept_by_prompt: Final[WeakKeyDictionary[Prompt, deque[Any]]] = WeakKeyDictionary()
"""Feedback that cancelled calls had taken. `Prompt.for_agent` gives one prompt of the client as many proxies."""


class AsyncProxy:
    """An object of the client and the threads that run its methods."""

    __slots__ = ("_kept", "_target", "_threads")

    def __init__(self, target: Any, threads: CallThreads) -> None:
        self._target = target
        self._threads = threads
        self._kept = _kept_by_prompt.setdefault(target, deque()) if isinstance(target, Prompt) else deque[Any]()

    def __repr__(self) -> str:
        return f"<aio {self._target!r}>"

    def _keep_result(self, result: Any) -> None:
        """Keep the result of a cancelled call for the next one."""
        if isinstance(result, list):
            self._kept.extend(cast("Sequence[Any]", result))

    def _with_kept_results(self, found: Any) -> Any:
        """Return the results that cancelled calls left behind, then those of this call."""
        kept: list[Any] = []
        # One item at a time: the thread of a cancelled call may append at this very moment.
        while self._kept:
            kept.append(self._kept.popleft())
        return [*kept, *(found or ())] if kept else found


def wrap_result(value: Any, threads: CallThreads) -> Any:
    """Return the value's asyncio counterpart if there is one, otherwise the value; in a list, convert each item."""
    if isinstance(value, list):
        return [wrap_result(item, threads) for item in cast("Sequence[Any]", value)]
    cls = CLASSES.get(cast("Any", type(value)))
    return value if cls is None else cls(value, threads)


def _bound_call(self: AsyncProxy, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], Any]:
    replacement = REPLACED.get((cast("Any", type(self._target)), name))
    call = getattr(self._target, name) if replacement is None else functools.partial(replacement, self._target)
    given = {key: _unwrap_argument(value) for key, value in kwargs.items()}
    return functools.partial(call, *map(_unwrap_argument, args), **given)


def _unwrap_argument(value: Any) -> Any:
    return value._target if isinstance(value, AsyncProxy) else value  # noqa: SLF001 - defined in this module


def _threaded_method(name: str, function: Callable[..., Any], *, publishes: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    async def method(self: AsyncProxy, *args: Any, **kwargs: Any) -> Any:
        call = _bound_call(self, name, args, kwargs)
        return wrap_result(await self._threads.run(call, publishes=publishes), self._threads)

    return method


def _direct_method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(self: AsyncProxy, *args: Any, **kwargs: Any) -> Any:
        return wrap_result(_bound_call(self, name, args, kwargs)(), self._threads)

    return method


async def _aenter(self: AsyncProxy) -> AsyncProxy:
    return self


async def _aexit(self: AsyncProxy, *raised: Any) -> None:
    """Exit the wrapped context manager, even if the task is cancelled meanwhile."""
    await asyncio.shield(self._threads.run(functools.partial(self._target.__exit__, *raised)))


def _waiting_method(name: str, function: Callable[..., Any], wait: WaitingMethod) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    async def method(self: AsyncProxy, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments.get(wait.argument, wait.default)
        target = getattr(self._target, name)
        seconds = given if isinstance(given, int | float) and not isinstance(given, bool) and given > 0 else 0.0
        asked = _ask_until if seconds or given is None else _ask_once
        if wait.extra_seconds is None:
            return await asked(self, target, wait.argument, given)
        try:
            async with asyncio.timeout(seconds + wait.extra_seconds(self._target)):
                return await asked(self, target, wait.argument, given)
        except TimeoutError:  # every thread waits for a Redis that doesn't answer
            return self._with_kept_results([])

    return method


async def _ask_once(self: AsyncProxy, target: Callable[..., Any], argument: str, given: Any) -> Any:
    """Call once with the argument as given; the client itself rejects an invalid one."""
    return self._with_kept_results(
        await self._threads.run(functools.partial(target, **{argument: given}), self._keep_result)
    )


async def _ask_until(self: AsyncProxy, target: Callable[..., Any], argument: str, given: float | None) -> Any:
    """Poll without waiting until there is an answer or the time is up."""
    end = None if given is None else clock.monotonic() + given
    delays = BACKOFF.delays()
    ask = functools.partial(target, **{argument: 0.0})
    while True:
        if self._kept:
            return self._with_kept_results(None)
        try:
            found = await self._threads.run(ask, self._keep_result)
            late = None
        except Timeout as error:
            found, late = None, error
        left = None if end is None else end - clock.monotonic()
        if found or (left is not None and left <= 0 and late is None):
            return found
        if left is not None and left <= 0:
            # The client waited 0 s in each poll; report the wait that the caller asked for.
            raise Timeout(str(late).replace("after 0 s", f"after {given:g} s"))
        delay = next(delays)
        await asyncio.sleep(delay if left is None else min(delay, left))


def _iterator_method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def method(self: AsyncProxy, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        items: Iterator[Any] = await self._threads.run(_bound_call(self, name, args, kwargs))
        step = functools.partial(next, items, _END)
        while (item := await self._threads.run(step, _give_back)) is not _END:
            if isinstance(item, float):
                await asyncio.sleep(item)
            else:
                yield wrap_result(item, self._threads)

    return method


def _give_back(item: Any) -> None:
    """Give back the delivery that a cancelled task had claimed: unsettled, it would wait until its lease ends."""
    if isinstance(item, OutboxDelivery):
        threading.Thread(target=_settle_unsent, args=(item,), name="tellback-aio-give-back").start()


def _settle_unsent(delivery: OutboxDelivery) -> None:
    with suppress(Unavailable):  # then the lease ends
        delivery.settle(RoutingOutcome(attempted=False, error="the task that waited for it was cancelled"))


def _plain_property(name: str) -> property:
    def read(self: AsyncProxy) -> Any:
        return wrap_result(getattr(self._target, name), self._threads)

    return property(read)


def _asking_property(name: str) -> property:
    def read(self: AsyncProxy) -> Awaitable[Any]:
        return self._threads.run(functools.partial(getattr, self._target, name))

    return property(read)


def is_iterator(function: Callable[..., Any]) -> bool:
    """Return True if a method of the client yields its results."""
    # The annotations are strings here, since the client's modules postpone their evaluation.
    return str(inspect.signature(function).return_annotation).startswith(
        ("Iterator[", "Generator[", "collections.abc.It")
    )


def _proxy_members(cls: type[Any]) -> dict[str, Any]:
    members: dict[str, Any] = {"__slots__": (), "__doc__": f"`{cls.__module__}.{cls.__qualname__}`, awaited."}
    fields = [name for name in inspect.get_annotations(cls) if not name.startswith("_")]
    members |= {name: _plain_property(name) for name in fields}
    for name, member in vars(cls).items():
        if name.startswith("_") or (cls, name) in OMITTED:
            continue
        if isinstance(member, property):
            members[name] = _asking_property(name) if (cls, name) in AWAITED_PROPERTIES else _plain_property(name)
        elif inspect.isfunction(member):
            members[name] = _build_member(cls, name, member)
    if issubclass(cls, SignalSession):
        members |= {"__aenter__": _aenter, "__aexit__": _aexit}
    return members


def _build_member(cls: type[Any], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if (cls, name) in WAITING:
        return _waiting_method(name, function, WAITING[cls, name])
    if (cls, name) in NONBLOCKING:
        return _direct_method(name, function)
    if is_iterator(function):
        return _iterator_method(name, function)
    return _threaded_method(name, function, publishes=cls is Prompt or (cls, name) in PUBLISHING)


CLASSES: Final[dict[type[Any], type[Any]]] = {
    cls: type(cls.__name__, (AsyncProxy,), _proxy_members(cls)) for cls in WRAPPED_CLASSES
}

THREADS: Final = 32


class PendingConnection:
    """A connection that opens when you await or enter it.

    Either `tb = await connect()`, with `await tb.close()` at the end, or `async with connect() as tb`.
    """

    def __init__(self, url: str | None, team: str | None, settings: Settings | None, threads: int) -> None:
        self._arguments = (url, team, settings)
        self._threads = threads
        self._client: Any = None

    def __await__(self) -> Generator[Any, None, Any]:
        return self._connect().__await__()

    async def __aenter__(self) -> Any:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client, even if the task is cancelled meanwhile."""
        await asyncio.shield(asyncio.ensure_future(close(self._client)))

    async def _connect(self) -> Any:
        url, team, settings = self._arguments
        threads = CallThreads(self._threads)
        try:
            client = await threads.run(lambda: connect_now(url, team=team, settings=settings), Tellback.close)
        except BaseException:
            threads.close()
            raise
        return wrap_result(client, threads)


def connect(
    url: str | None = None, *, team: str | None = None, settings: Settings | None = None, threads: int = THREADS
) -> PendingConnection:
    """Connect as `tellback.connect` does; at most `threads` calls run at a time, and the others queue.

    Raises:
        InvalidInput: `threads` is not from 1 to 1,000.
    """
    if not 1 <= threads <= 1_000:
        raise InvalidInput(f"threads is {threads}; use 1 to 1,000")
    return PendingConnection(url, team, settings, threads)


async def close(client: Any) -> None:
    """Flush buffered events, close the client and end its threads. It is safe to call this again."""
    if client._threads.closed:  # noqa: SLF001 - same package
        return
    try:
        await client._threads.run(client._target.close)  # noqa: SLF001 - as above
    finally:
        client._threads.close()  # noqa: SLF001 - as above
