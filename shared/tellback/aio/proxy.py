"""The classes of `tellback.aio`, made from those of the client: each method runs in a thread, its result is awaited.

Nothing of the client is written twice. A method that waits for something is asked again and again without waiting, so
that a thousand tasks which wait hold no thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple, cast

from tellback import clock
from tellback.client.commands import Job
from tellback.client.connection import Tellback
from tellback.client.guidance import Prompt
from tellback.client.outbox import OutboxDelivery
from tellback.client.signal_session import SignalSession
from tellback.client.signals import Bank
from tellback.client.turns import Turn
from tellback.errors import StateConflict, Timeout
from tellback.state.dead import DeadLetters

WRAPPED: Final = (Tellback, Job, Prompt, Turn, OutboxDelivery, Bank, SignalSession, DeadLetters)
LEFT_OUT: Final = frozenset({(DeadLetters, "bury")})  # of the workers
ASKING: Final = frozenset({(Turn, "state")})  # properties that ask Redis: awaited
AT_ONCE: Final = frozenset({(Bank, "session")})  # methods that neither ask Redis nor wait: not awaited
TELLING: Final = frozenset({(Tellback, "prompt"), (Tellback, "context_changed")})  # as the methods of a prompt
TELLERS: Final = 4  # threads
FIRST_NAP: Final = 0.001
LONGEST_NAP: Final = 0.05
NAP_GROWTH: Final = 1.25
_END: Final = object()


def _patience_of(prompt: Prompt) -> float:
    return prompt._context.settings.feedback_patience  # noqa: SLF001 - of the client, which this is the other face of


class Wait(NamedTuple):
    """A method that waits: the argument that says how long, its default, and None for «for ever».

    `patience` is that of an object, in seconds: how much later it gives up where no thread or no Redis is free for it.
    """

    argument: str
    default: float | None
    patience: Callable[[Any], float] | None = None


WAITING: Final[Mapping[tuple[type[Any], str], Wait]] = {
    (Prompt, "feedback"): Wait("wait", 0.0, _patience_of),
    (Job, "wait"): Wait("timeout", None),
}


class Threads:
    """A bounded pool for the calls of one connection: what is more than it holds waits its turn, and no loop waits.

    Calls that only tell a fact have threads of their own: no tool call waits behind those that wait for Redis.
    """

    def __init__(self, most: int) -> None:
        """Take the number of threads; they are started when needed."""
        self._pool: Final = ThreadPoolExecutor(most, thread_name_prefix="tellback-aio")
        self._tellers: Final = ThreadPoolExecutor(min(most, TELLERS), thread_name_prefix="tellback-aio-facts")

    async def run(
        self, call: Callable[[], Any], unclaimed: Callable[[Any], None] | None = None, *, tells: bool = False
    ) -> Any:
        """What `call` returns. Cancelled before it began, it never runs; after that it ends by itself.

        `unclaimed` is given what such a call returned. `tells`: it tells a fact, and does not ask Redis.

        Raises:
            StateConflict: the connection is closed.
        """
        context = contextvars.copy_context()
        try:
            future: Future[Any] = (self._tellers if tells else self._pool).submit(context.run, call)
        except RuntimeError:
            raise StateConflict("this client is closed: connect again") from None
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if unclaimed is not None and not future.cancelled():
                future.add_done_callback(functools.partial(_hand_over, unclaimed))
            raise

    def close(self) -> None:
        """Take no more calls; those that run end by themselves."""
        self._pool.shutdown(wait=False)
        self._tellers.shutdown(wait=False)


def _hand_over(unclaimed: Callable[[Any], None], future: Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        unclaimed(future.result())


class Proxy:
    """An object of the client, and the threads that its methods run in."""

    __slots__ = ("_kept", "_target", "_threads")

    def __init__(self, target: Any, threads: Threads) -> None:
        """Take both."""
        self._target = target
        self._threads = threads
        self._kept: deque[Any] = deque()

    def __repr__(self) -> str:
        return f"<aio {self._target!r}>"

    def _keep(self, result: Any) -> None:
        """What a cancelled call has taken comes with the next one."""
        if isinstance(result, list):
            self._kept.extend(cast("Sequence[Any]", result))

    def _with_kept(self, found: Any) -> Any:
        """What a call has found, after what cancelled ones had taken; those may still be at it, in their threads."""
        kept: list[Any] = []
        while self._kept:
            kept.append(self._kept.popleft())
        return [*kept, *(found or ())] if kept else found


def wrapped(value: Any, threads: Threads) -> Any:
    """The value, or its counterpart for asyncio where there is one; also within a list."""
    if isinstance(value, list):
        return [wrapped(item, threads) for item in cast("Sequence[Any]", value)]
    cls = CLASSES.get(cast("Any", type(value)))
    return value if cls is None else cls(value, threads)


def _call(self: Proxy, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], Any]:
    given = {key: _bare(value) for key, value in kwargs.items()}
    return functools.partial(getattr(self._target, name), *map(_bare, args), **given)


def _bare(value: Any) -> Any:
    """What the client itself works with, also within a list or tuple."""
    if isinstance(value, Proxy):
        return value._target  # noqa: SLF001 - of this module
    return [_bare(item) for item in cast("Sequence[Any]", value)] if isinstance(value, list | tuple) else value


def _method(name: str, function: Callable[..., Any], *, tells: bool = False) -> Callable[..., Any]:
    @functools.wraps(function)
    async def method(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        call = _call(self, name, args, kwargs)
        return wrapped(await self._threads.run(call, tells=tells), self._threads)

    return method


def _method_at_once(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        return wrapped(_call(self, name, args, kwargs)(), self._threads)

    return method


async def _enter(self: Proxy) -> Proxy:
    return self


async def _exit(self: Proxy, *raised: Any) -> None:
    """What the object does at its end; a task that is cancelled meanwhile still has it done."""
    await asyncio.shield(self._threads.run(functools.partial(self._target.__exit__, *raised)))


def _waiting_method(name: str, function: Callable[..., Any], wait: Wait) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    async def method(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments.get(wait.argument, wait.default)
        target = getattr(self._target, name)
        seconds = given if isinstance(given, int | float) and not isinstance(given, bool) and given > 0 else 0.0
        asked = _until if seconds or given is None else _once
        if wait.patience is None:
            return await asked(self, target, wait.argument, given)
        try:
            async with asyncio.timeout(seconds + wait.patience(self._target)):
                return await asked(self, target, wait.argument, given)
        except TimeoutError:  # all threads wait for a Redis that does not answer
            return self._with_kept([])

    return method


async def _once(self: Proxy, target: Callable[..., Any], argument: str, given: Any) -> Any:
    """Ask with what was given: it says what is wrong with it, if anything is."""
    return self._with_kept(await self._threads.run(functools.partial(target, **{argument: given}), self._keep))


async def _until(self: Proxy, target: Callable[..., Any], argument: str, given: float | None) -> Any:
    """Ask without waiting, until there is an answer or the time is over."""
    end = None if given is None else clock.monotonic() + given
    nap = FIRST_NAP
    ask = functools.partial(target, **{argument: 0.0})
    while True:
        if self._kept:
            return self._with_kept(None)
        try:
            found = await self._threads.run(ask, self._keep)
            late = None
        except Timeout as error:
            found, late = None, error
        left = None if end is None else end - clock.monotonic()
        if found or (left is not None and left <= 0 and late is None):
            return found
        if left is not None and left <= 0:
            raise Timeout(str(late).replace("after 0 s", f"after {given:g} s"))
        await asyncio.sleep(nap if left is None else min(nap, left))
        nap = min(NAP_GROWTH * nap, LONGEST_NAP)


def _iterator_method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def method(self: Proxy, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        call = _call(self, name, args, kwargs)
        items: Iterator[Any] = await self._threads.run(call)
        step = functools.partial(next, items, _END)
        while (item := await self._threads.run(step)) is not _END:
            yield wrapped(item, self._threads)

    return method


def _attribute(name: str) -> property:
    def read(self: Proxy) -> Any:
        return wrapped(getattr(self._target, name), self._threads)

    return property(read)


def _asking_property(name: str) -> property:
    def read(self: Proxy) -> Awaitable[Any]:
        return self._threads.run(functools.partial(getattr, self._target, name))

    return property(read)


def is_iterator(function: Callable[..., Any]) -> bool:
    """Whether a method of the client yields its results."""
    return str(inspect.signature(function).return_annotation).startswith(
        ("Iterator[", "Generator[", "collections.abc.It")
    )


def _members(cls: type[Any]) -> dict[str, Any]:
    members: dict[str, Any] = {"__slots__": (), "__doc__": f"`{cls.__module__}.{cls.__qualname__}`, awaited."}
    fields = [name for name in inspect.get_annotations(cls) if not name.startswith("_")]
    members |= {name: _attribute(name) for name in fields}
    for name, member in vars(cls).items():
        if name.startswith("_") or (cls, name) in LEFT_OUT:
            continue
        if isinstance(member, property):
            members[name] = _asking_property(name) if (cls, name) in ASKING else _attribute(name)
        elif inspect.isfunction(member):
            members[name] = _made(cls, name, member)
    if issubclass(cls, SignalSession):
        members |= {"__aenter__": _enter, "__aexit__": _exit}
        members["session"] = _attribute("session")  # as below
    if cls is Bank:
        members["name"] = _attribute("name")  # set by its constructor
    return members


def _made(cls: type[Any], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if (cls, name) in WAITING:
        return _waiting_method(name, function, WAITING[cls, name])
    if (cls, name) in AT_ONCE:
        return _method_at_once(name, function)
    if is_iterator(function):
        return _iterator_method(name, function)
    return _method(name, function, tells=cls is Prompt or (cls, name) in TELLING)


CLASSES: Final[dict[type[Any], type[Any]]] = {cls: type(cls.__name__, (Proxy,), _members(cls)) for cls in WRAPPED}
