"""Custom providers run here: whatever they do costs their own feedback and nothing else.

A call is ended by an interval timer of the process. Signals reach the main thread alone, which is where the prefork and
solo pools run tasks; in other pools custom providers are refused, since one that hangs could not be ended.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeVar

import msgspec
import structlog

from tellback import clock
from tellback.contracts.guidance import Feedback, ProviderSpec
from tellback.guidance.context import FeedbackContext
from tellback.guidance.provider import ProviderFailure, ask
from tellback.guidance.registry import Registry
from tellback.redaction import redact_text, redact_value

AGAIN: Final = 0.05  # a provider that swallows the first interruption gets the next one

T = TypeVar("T")

_log = structlog.get_logger("tellback.providers")


class _TimeUpError(BaseException):
    """Outside `Exception`, so that a provider's `except Exception` does not swallow it."""


def call_within(seconds: float, function: Callable[[], T]) -> T:
    """What `function` returns, if it does so in time.

    Raises:
        ProviderFailure: it raised, or it was interrupted, or this is not the main thread.
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
            signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
            return function()
        finally:
            armed = False
    except _TimeUpError:
        armed = False
        raise ProviderFailure(f"did not return within {seconds} s") from None
    except ProviderFailure:
        raise
    except (Exception, SystemExit) as error:
        raise ProviderFailure(f"raised {type(error).__name__}: {_told(error)}") from error
    finally:
        armed = False  # again: the timer may have struck just before the first
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _told(error: BaseException) -> str:
    """What an exception of others says, which may hold a secret, and may be unable to say anything."""
    try:
        return redact_text(str(error))
    except Exception:  # noqa: BLE001 - their __str__ raises whatever it likes
        return "(its text cannot be read)"


class IsolatedPanel:
    """Asks the providers of one batch: built-in ones directly, custom ones within a time each and a budget in all."""

    def __init__(self, registry: Registry, *, timeout: float, budget: float) -> None:
        """Take the providers, the longest time of one custom call, and of all custom calls together, in seconds.

        With the budget spent a custom provider is not asked: it stays due and is asked with a call of a later batch.
        """
        self._registry = registry
        self._timeout = timeout
        self._left = budget

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        """The provider's feedback, or None if it has none now.

        Raises:
            ProviderFailure: whatever went wrong with it.
        """
        try:
            if not self._registry.is_custom(spec.name):
                return self._ask(spec, context)
            return self._ask_custom(spec, context) if self._left > 0 else None
        except ProviderFailure as failure:
            _log.warning("provider.failed", provider=spec.name, prompt=context.prompt, reason=str(failure))
            raise

    def _ask_custom(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        start = clock.monotonic()
        try:
            answer = call_within(self._timeout, lambda: self._ask(spec, context))
        finally:
            self._left -= clock.monotonic() - start
        return None if answer is None else msgspec.convert(redact_value(msgspec.to_builtins(answer)), Feedback)

    def _ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        return ask(self._registry.build(spec), context)
