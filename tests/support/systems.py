"""Systems of a turn's pipeline as users would write them, good and bad; workers import them by name."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from tellback import LlmError, OutgoingResponse, TurnContext


class IdleSystem:
    """Does nothing yet."""

    order: float = 50

    @property
    def name(self) -> str:
        return type(self).__name__

    def should_process(self, context: TurnContext) -> bool:
        del context
        return True

    def process(self, context: TurnContext) -> None:
        del context


class Signs(IdleSystem):
    """Puts a name under each answer."""

    order = 58.5

    def should_process(self, context: TurnContext) -> bool:
        return context.outgoing_response is not None

    def process(self, context: TurnContext) -> None:
        assert context.outgoing_response is not None
        context.outgoing_response = OutgoingResponse.text_only(f"{context.outgoing_response.text} (signed)")


class RaisingSystem(IdleSystem):
    """Changes what it can, then fails."""

    def process(self, context: TurnContext) -> None:
        context.outgoing_response = OutgoingResponse.text_only("half done")
        context.llm_error = LlmError(code="half.done")
        context.system_errors.clear()
        context.failure_code = "half.done"
        raise ValueError("it broke")


class RaisesWhenAsked(IdleSystem):
    """Fails before it begins."""

    def should_process(self, context: TurnContext) -> bool:
        del context
        raise RuntimeError("not even asked")


class ExitingSystem(IdleSystem):
    """Ends the process, politely."""

    def process(self, context: TurnContext) -> None:
        del context
        sys.exit(3)


class Dies(IdleSystem):
    """Ends the process at once."""

    def process(self, context: TurnContext) -> None:
        del context
        os._exit(3)


class HangingSystem(IdleSystem):
    """Never returns, and swallows what it can."""

    def process(self, context: TurnContext) -> None:
        del context
        while True:
            try:
                time.sleep(60)
            except Exception:  # noqa: BLE001 - a bad system
                continue


class Silences(IdleSystem):
    """Drop the answer between the guarantee and the routing."""

    order = 59.5

    def process(self, context: TurnContext) -> None:
        context.outgoing_response = None


class Spoils(IdleSystem):
    """Writes one field as it likes."""

    def __init__(self, field: str = "outgoing_response", value: Any = "text", order: float = 59.5) -> None:
        self.field = field
        self.value = value
        self.order = order

    def process(self, context: TurnContext) -> None:
        setattr(context, self.field, self.value)


NOT_A_SYSTEM = object()
