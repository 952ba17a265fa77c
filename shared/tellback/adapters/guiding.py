"""What every adapter does: tell of a completed tool call, and ask what to tell the agent."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from tellback.contracts.guidance import Feedback
from tellback.guidance.observations.completion import AnswerCheck
from tellback.guidance.observations.feedback import ToolFeedback
from tellback.log import get_logger

WAIT: Final = 0.05  # seconds
T = TypeVar("T")
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]

_log = get_logger("tellback.adapters")


class Guide(Protocol):
    """`tellback.Prompt`, as far as adapters use it."""

    def observe(
        self,
        tool: str,
        *,
        params: Mapping[str, Any] | None = None,
        result: object = None,
        error: object = None,
        duration_ms: float | None = None,
        call_id: str | None = None,
    ) -> ToolFeedback:
        """Tell of a tool call."""
        ...

    def feedback(self, wait: float = 0.0) -> list[Feedback]:
        """What it earned."""
        ...

    def check_answer(self, answer: object) -> AnswerCheck:
        """Whether the task may end."""
        ...


class AsyncGuide(Protocol):
    """`tellback.aio.Prompt`, as far as adapters use it."""

    async def observe(
        self,
        tool: str,
        *,
        params: Mapping[str, Any] | None = None,
        result: object = None,
        error: object = None,
        duration_ms: float | None = None,
        call_id: str | None = None,
    ) -> ToolFeedback:
        """Tell of a tool call."""
        ...

    async def feedback(self, wait: float = 0.0) -> list[Feedback]:
        """What it earned."""
        ...

    async def check_answer(self, answer: object) -> AnswerCheck:
        """Whether the task may end."""
        ...


AnyGuide = Guide | AsyncGuide


class Completed(NamedTuple):
    """A tool call that has completed; `error` is None where it did not fail."""

    tool: str
    params: Mapping[str, Any] | None = None
    result: object = None
    error: object = None
    duration_ms: float | None = None
    call_id: str | None = None


def advice(guide: Guide, call: Completed, wait: float = WAIT) -> str:
    """Publish the call; next steps that follow from its outcome, then the feedback that waits; "" for none."""
    try:
        seen = guide.observe(**call._asdict())
        return _joined(seen, guide.feedback(wait=wait))
    except Exception:  # noqa: BLE001 - an agent's tool call must not fail over what is said of it
        _log.exception("advice.failed", tool=call.tool)
        return ""


async def advice_soon(
    guide: AnyGuide, call: Completed, wait: float = WAIT, in_thread: InThread = asyncio.to_thread
) -> str:
    """As `advice`, where an event loop must not be held up."""
    try:
        seen = await called(guide.observe, in_thread, **call._asdict())
        return _joined(seen, await called(guide.feedback, in_thread, wait=wait))
    except Exception:  # noqa: BLE001 - as above
        _log.exception("advice.failed", tool=call.tool)
        return ""


def told(guide: Guide, call: Completed) -> None:
    """Publish the call, where nothing can be said to the agent now: the feedback that waits stays for the next call."""
    try:
        guide.observe(**call._asdict())
    except Exception:  # noqa: BLE001 - as above
        _log.exception("advice.failed", tool=call.tool)


async def told_soon(guide: AnyGuide, call: Completed, in_thread: InThread = asyncio.to_thread) -> None:
    """As `told`, where an event loop must not be held up."""
    try:
        await called(guide.observe, in_thread, **call._asdict())
    except Exception:  # noqa: BLE001 - as above
        _log.exception("advice.failed", tool=call.tool)


async def called(function: Callable[..., Any], in_thread: InThread, *args: Any, **kwargs: Any) -> Any:
    """What a method of a guide gives: awaited, or run in a thread where it would block."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    return await in_thread(partial(function, *args, **kwargs))


def _joined(seen: ToolFeedback, given: Sequence[Feedback]) -> str:
    parts = [seen.suggestions_section or "", *(feedback.render() for feedback in given)]
    return "\n\n".join(part for part in parts if part)
