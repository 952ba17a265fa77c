"""Custom providers run here: whatever they do costs their own feedback and nothing else.

A call is ended by an interval timer of the process. Signals reach the main thread alone, which is where the prefork and
solo pools run tasks; in other pools custom providers are refused, since one that hangs could not be ended. What it
prints goes nowhere, and the memory that it may take is limited. One that kills its process is known by a note that was
left before it was asked.
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
from tellback.contracts.guidance import Feedback, ProviderSpec
from tellback.guidance.context import FeedbackContext
from tellback.guidance.provider import ProviderFailure, ProviderTimeout, ask
from tellback.guidance.registry import Registry
from tellback.redaction import redact_text, redact_value
from tellback.state.database import Database
from tellback.state.keys import lifetime_ms

MEMORY_BYTES: Final = 512 << 20  # that one call may take beside what its process has
TOLD_MAX: Final = 2_000  # characters of what an exception says
AGAIN: Final = 0.05  # a provider that swallows the first interruption gets the next one

_STATM: Final = Path("/proc/self/statm")

T = TypeVar("T")

_log = structlog.get_logger("tellback.providers")


class _TimeUpError(BaseException):
    """Outside `Exception`, so that a provider's `except Exception` does not swallow it."""


def call_within(seconds: float, function: Callable[[], T]) -> T:
    """What `function` returns, if it does so in time.

    Raises:
        ProviderTimeout: it was interrupted.
        ProviderFailure: it raised, or this is not the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ProviderFailure("custom providers need a prefork or solo worker: this pool cannot end one that hangs")
    armed = True

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if armed:
            raise _TimeUpError

    before = signal.signal(signal.SIGALRM, interrupt)
    start = clock.monotonic()
    try:
        try:
            with _confined():
                signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
                try:
                    returned = _outcome(function)
                finally:
                    armed = False
        finally:
            armed = False
    except _TimeUpError:
        armed = False
        raise ProviderTimeout(f"did not return within {seconds} s") from None
    else:
        if clock.monotonic() > start + seconds + AGAIN:  # it swallowed the interruption, or had stopped the timer
            raise ProviderTimeout(f"did not return within {seconds} s")
        return returned
    finally:
        armed = False  # again: the timer may have struck just before the first
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _outcome(function: Callable[[], T]) -> T:
    """What it returns; what it raises as a failure, whose text it makes within its time too."""
    try:
        return function()
    except (ProviderFailure, _TimeUpError):
        raise
    except BaseException as error:  # sys.exit, and whatever else of theirs is outside Exception
        raise ProviderFailure(f"raised {type(error).__name__}: {_told(error)}") from error


class _Nowhere(io.TextIOBase):
    """Takes any text and keeps none."""

    def write(self, text: str, /) -> int:
        return len(text)


@contextmanager
def _confined() -> Generator[None]:
    """Without a terminal or log, with limited memory, and with the recursion limit as before afterwards."""
    recursion = sys.getrecursionlimit()
    nowhere = _Nowhere()
    with redirect_stdout(nowhere), redirect_stderr(nowhere):
        limits = _limit_memory()
        try:
            yield
        finally:
            if limits is not None:
                resource.setrlimit(resource.RLIMIT_AS, limits)
            sys.setrecursionlimit(recursion)


def _limit_memory() -> tuple[int, int] | None:
    """Let this process grow by `MEMORY_BYTES` at most; its limits before, or None where the system does not say."""
    try:
        pages = int(_STATM.read_bytes().split()[0])
    except OSError:  # no Linux
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES
    wanted = min(limit for limit in (most, soft, hard) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    return soft, hard


def _told(error: BaseException) -> str:
    """What an exception of others says, which may hold a secret, and may be unable to say anything."""
    try:
        return redact_text(str(error)[:TOLD_MAX])
    except Exception:  # noqa: BLE001 - their __str__ raises whatever it likes
        return "(its text cannot be read)"


class Asking:
    """A note of the provider that is being asked, outside this process: what is left of one that killed it."""

    def __init__(self, database: Database, key: str) -> None:
        """Take the Redis and the note's key, which no two processes use at a time."""
        self._db = database
        self._key = key

    def begins(self, about: str, spec: ProviderSpec) -> None:
        """Leave the note."""
        self._db.command("SET", self._key, msgspec.json.encode((about, spec)), "PX", lifetime_ms("asking"))

    def left(self, about: str) -> ProviderSpec | None:
        """Whoever was being asked last, if it was about this."""
        raw = self._db.command("GET", self._key)
        if raw is None:
            return None
        noted, spec = msgspec.json.decode(raw, type=tuple[str, ProviderSpec])
        return spec if noted == about else None


class IsolatedPanel:
    """Asks the providers of one batch: built-in ones directly, custom ones within a time each and a budget in all.

    `about` says which event is at hand.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        timeout: float,
        budget: float,
        asking: Asking | None = None,
        fallen: str | None = None,
    ) -> None:
        """Take the providers, the longest time of one custom call, and of all custom calls together, in seconds.

        With the budget spent a custom provider is not asked: it stays due and is asked with a call of a later batch.
        `fallen` is what an earlier process was at when it died: the provider that it was asking fails once.
        """
        self._registry = registry
        self._timeout = timeout
        self._left = budget
        self._asking = asking
        self._killer = asking.left(fallen) if asking is not None and fallen is not None else None
        self.about = ""

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        """The provider's feedback, or None if it has none now.

        Raises:
            ProviderFailure: whatever went wrong with it.
        """
        try:
            if not self._registry.is_custom(spec.name):
                return self._ask_built_in(spec, context)
            if spec == self._killer:
                self._killer = None
                raise ProviderFailure("its worker died, or was stopped, while it was asked")  # noqa: TRY301 - logged below, as all
            return self._ask_custom(spec, context) if self._left > 0 else None
        except ProviderFailure as failure:
            _log.warning("provider.failed", provider=spec.name, prompt=context.prompt, reason=str(failure))
            raise

    def _ask_built_in(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        """Its fields are a host's, and may be such that it fails over them."""
        try:
            return self._ask(spec, context)
        except ProviderFailure:
            raise
        except Exception as error:
            raise ProviderFailure(f"raised {type(error).__name__}: {_told(error)}") from error

    def _ask_custom(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        if self._asking is not None:
            self._asking.begins(self.about, spec)
        start = clock.monotonic()
        try:
            answer = call_within(self._timeout, lambda: self._ask(spec, context))
        finally:
            self._left -= clock.monotonic() - start
        return None if answer is None else msgspec.convert(redact_value(msgspec.to_builtins(answer)), Feedback)

    def _ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        return ask(self._registry.build(spec), context)
