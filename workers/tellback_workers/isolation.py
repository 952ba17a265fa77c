"""Isolation of custom code in a worker: providers of feedback, and systems of the turns' pipeline.

Whatever a custom provider does costs only its own feedback, and the systems after a failed custom system still run. An
interval timer ends a call that hangs. Python delivers signals to the main thread only, and that is where the prefork
and solo pools run tasks; in other pools custom providers are refused, because nothing could end one that hangs. Output
is discarded and memory is limited. A marker in Redis, written before each call, identifies a provider that killed its
process.
"""

from __future__ import annotations

import io
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

import msgspec
import structlog

from tellback import clock
from tellback.client.turn_checks import default_pipeline
from tellback.contracts.guidance import Feedback, ProviderSpec
from tellback.guidance.evaluation import ProviderInvoker
from tellback.guidance.provider import (
    FeedbackContext,
    ProviderFailure,
    ProviderSkipped,
    ProviderTimeout,
    invoke_provider,
)
from tellback.guidance.registry import ProviderRegistry
from tellback.redaction import redact_text, redact_value
from tellback.settings import Settings
from tellback.state.database import Database, small_write
from tellback.state.keys import lifetime_ms
from tellback.state.readable import read_each, readable, reply_of
from tellback.truncation import readable_prefix
from tellback.turns.pipeline.context import AgentSystem
from tellback.turns.pipeline.runner import SystemStopped, TurnPipeline, load_systems

MEMORY_BYTES: Final = 512 << 20  # the memory that a call may add to what its process already uses

CUSTOM_SHARE: Final = 0.25  # of a lease, for one batch's custom code: the batch must commit before its lease ends

MAX_ERROR_TEXT: Final = 2_000  # characters of an exception's text

INTERRUPT_PERIOD: Final = 0.05  # seconds; a provider that swallows one interruption gets the next

_STATM: Final = Path("/proc/self/statm")

T = TypeVar("T")

_logger = structlog.get_logger("tellback.providers")


class _TimeUpError(BaseException):
    """Derives from `BaseException`, because a provider's `except Exception` must not swallow it."""


def call_within(seconds: float, function: Callable[[], T]) -> T:
    """Call `function` and return its value, interrupting it after `seconds`.

    Raises:
        ProviderTimeout: it did not return in time.
        ProviderFailure: it raised an exception, or this is not the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ProviderFailure("custom providers need a prefork or solo worker: this pool cannot end one that hangs")
    armed = True

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if armed:
            raise _TimeUpError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        try:
            with _confine():
                start = clock.monotonic()
                signal.setitimer(signal.ITIMER_REAL, seconds, INTERRUPT_PERIOD)
                try:
                    returned = _call_reporting(function)
                    took = clock.monotonic() - start  # here: a process that stands still later has its answer
                finally:
                    armed = False
        finally:
            armed = False
    except _TimeUpError:
        armed = False
        raise ProviderTimeout(f"did not return within {seconds} s") from None
    else:
        # It swallowed the interruption, or stopped the timer itself.
        if took > seconds + INTERRUPT_PERIOD:
            raise ProviderTimeout(f"did not return within {seconds} s")
        return returned
    finally:
        armed = False  # again: the timer may have fired just before the first assignment
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _call_reporting(function: Callable[[], T]) -> T:
    """Call it, and turn what it raises into a `ProviderFailure`."""
    # Within the time limit, because the exception's `__str__` is custom code too.
    try:
        return function()
    except (ProviderFailure, _TimeUpError):
        raise
    except BaseException as error:  # includes SystemExit, which would end the worker
        raise ProviderFailure(f"raised {type(error).__name__}: {_error_text(error)}") from error


class _NullWriter(io.TextIOBase):
    """A text stream that discards what is written."""

    def write(self, text: str, /) -> int:
        return len(text)


@contextmanager
def _confine() -> Generator[None]:
    """Discard output and limit memory within the block; restore the recursion limit afterwards."""
    recursion = sys.getrecursionlimit()
    nowhere = _NullWriter()
    with redirect_stdout(nowhere), redirect_stderr(nowhere):
        limits = _limit_memory()
        try:
            yield
        finally:
            if limits is not None:
                resource.setrlimit(resource.RLIMIT_AS, limits)
            sys.setrecursionlimit(recursion)


def _limit_memory() -> tuple[int, int] | None:
    """Let this process grow by at most `MEMORY_BYTES`; return its former limits, or None without /proc."""
    try:
        pages = int(_STATM.read_bytes().split()[0])
    except OSError:  # not Linux
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES
    wanted = min(limit for limit in (most, soft, hard) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    return soft, hard


def _error_text(error: BaseException) -> str:
    """Return the redacted text of a custom exception, which may carry a secret or fail to render."""
    try:
        return redact_text(readable_prefix(str(error)))[:MAX_ERROR_TEXT]
    except Exception:  # noqa: BLE001 - a custom __str__ may raise anything
        return "(its text cannot be read)"


class ProviderCallMarker:
    """A record in Redis of the provider being called, which outlives the process if the provider kills it.

    No two processes may use one key at the same time.
    """

    def __init__(self, database: Database, key: str) -> None:
        self._db = database
        self._key = key

    def mark(self, about: str, spec: ProviderSpec) -> None:
        """Record that `spec` is about to be called about one event or timer."""
        # unconditional: the marker is this process's own
        self._db.run(
            small_write("SET", self._key, msgspec.json.encode((about, spec)), "PX", lifetime_ms("provider-call"))
        )

    def crashed_provider(self, about: str) -> ProviderSpec | None:
        """Return the provider that was called last, if the call was `about` this."""
        # As none if it cannot be read: otherwise each delivery of the event would fail here, until it is a dead letter.
        found = readable("provider call", read_each(self._db, [("GET", self._key)]), _decode_call)
        return next((spec for noted, spec in filter(None, found) if noted == about), None)


def _decode_call(raw: bytes | Exception | None) -> tuple[str, ProviderSpec] | None:
    stored = reply_of(raw)
    return None if stored is None else msgspec.json.decode(stored, type=tuple[str, ProviderSpec])


class IsolatedInvoker(ProviderInvoker):
    """Calls the providers of one batch: built-in ones directly, custom ones within a time limit and a shared budget.

    Set `about` to the event or timer that is being applied.
    """

    def __init__(
        self,
        registry: ProviderRegistry,
        *,
        timeout: float,
        budget: float,
        marker: ProviderCallMarker | None = None,
        crashed: str | None = None,
    ) -> None:
        """Set up an invoker; `timeout` limits one custom call and `budget` all of them, in seconds.

        When the budget is spent, custom providers are skipped, and a timer calls them soon; the last call may take as
        long again. `crashed` is what an earlier process was applying when it died: the provider that it was calling
        fails once.
        """
        self._registry = registry
        self._timeout = min(timeout, budget)
        self._budget_left = budget
        self._marker = marker
        self._crashed_provider = (
            marker.crashed_provider(crashed) if marker is not None and crashed is not None else None
        )
        self.about = ""

    def awaits_finding(self, spec: ProviderSpec) -> bool:
        """Check whether a provider surely has nothing to say without a new finding of the measure of progress."""
        return self._registry.awaits_finding(spec)

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        """Return the provider's feedback, or None if it has none now.

        Raises:
            ProviderFailure: the provider failed, in whatever way.
            ProviderSkipped: the budget is spent.
        """
        try:
            is_custom = self._registry.is_custom(spec.name)
            return self._ask_custom(spec, context) if is_custom else self._ask_built_in(spec, context)
        except ProviderFailure as failure:
            _logger.warning("provider.failed", provider=spec.name, prompt=context.prompt, reason=str(failure))
            raise

    def _ask_built_in(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        try:  # a host chooses the fields of the spec, and some values make the provider fail
            return self._ask(spec, context)
        except ProviderFailure:
            raise
        except Exception as error:
            raise ProviderFailure(f"raised {type(error).__name__}: {_error_text(error)}") from error

    def _ask_custom(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        if spec == self._crashed_provider:
            self._crashed_provider = None
            raise ProviderFailure("its worker died, or was stopped, while it was asked")
        if self._budget_left <= 0:
            raise ProviderSkipped(f"{spec.name} was not called: other providers have used up the time")
        if self._marker is not None:
            self._marker.mark(self.about, spec)
        start = clock.monotonic()
        try:
            answer = call_within(self._timeout, lambda: self._ask(spec, context))
        finally:
            self._budget_left -= clock.monotonic() - start
        return None if answer is None else msgspec.convert(redact_value(msgspec.to_builtins(answer)), Feedback)

    def _ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        return invoke_provider(self._registry.build(spec), context)


class SystemTimeLimit:
    """Calls the custom systems of one batch, each within a time limit and all within a budget.

    A step that hangs is interrupted, its output is discarded, and `sys.exit` counts as a failure. The system is not
    called for the batch's later turns: it would use up the time of the other systems.
    """

    def __init__(self, *, timeout: float, budget: float) -> None:
        self._timeout = timeout
        self._left = budget
        self._hung: set[str] = set()

    def __call__(self, system: AgentSystem, step: Callable[[], None]) -> None:
        """Run the step.

        Raises:
            SystemStopped: it raised an exception (the cause), was interrupted, or was not run at all.
        """
        if self._left <= 0:
            raise SystemStopped("was not run: the systems of these turns have used up their time")
        if system.name in self._hung:
            raise SystemStopped("was not run: it hung at an earlier turn of the same batch")
        start = clock.monotonic()
        try:
            call_within(min(self._timeout, self._left), step)
        except ProviderFailure as failure:
            if isinstance(failure, ProviderTimeout):
                self._hung.add(system.name)
            raise SystemStopped(str(failure)) from failure.__cause__
        finally:
            self._left -= clock.monotonic() - start


def pipeline_of(settings: Settings, *, custom: bool) -> TurnPipeline:
    """Build the pipeline for a worker with these settings, with or without custom systems.

    Raises:
        ConfigurationError: a system, a catalog or a language is invalid.
    """
    return default_pipeline(settings, load_systems(settings.systems) if custom else ())
