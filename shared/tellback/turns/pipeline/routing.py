"""Hands the prepared response to a transport. Source: feedback-guarantee, "Typed routing outcomes"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tellback.contracts.turns import OutgoingResponse, RoutingOutcome
from tellback.turns.pipeline.context import TurnContext

Transport = Callable[[OutgoingResponse], RoutingOutcome]
"""Sends a response, or queues it, and tells what became of it."""


class ResponseRoutingSystem:
    """Reads the `OutgoingResponse` and nothing else, and always stores a `RoutingOutcome`."""

    name = "ResponseRoutingSystem"
    order = 60

    def __init__(self, transport: Transport | None = None) -> None:
        """Take the transport."""
        self._transport = transport

    def should_process(self, context: TurnContext) -> bool:
        """Always: that there is nothing to send is an outcome too."""
        del context
        return True

    def process(self, context: TurnContext) -> None:
        """Send, and keep the outcome.

        A transport that raises, or says nothing that is an outcome, may have sent or not: that is ambiguous.
        """
        response = context.outgoing_response
        if response is None:
            context.routing_outcome = RoutingOutcome(attempted=False, error="there was nothing to send")
        elif self._transport is None:
            context.routing_outcome = RoutingOutcome(attempted=False, error="no transport was given")
        else:
            context.routing_outcome = _unknown("the transport did not return")
            try:
                outcome: Any = self._transport(response)
            except Exception as error:  # noqa: BLE001 - a transport is code of others
                context.routing_outcome = _unknown(f"the transport raised {type(error).__name__}")
            else:
                context.routing_outcome = _checked(outcome)


def _unknown(error: str) -> RoutingOutcome:
    return RoutingOutcome(attempted=True, ambiguous=True, error=error)


def _checked(outcome: object) -> RoutingOutcome:
    if isinstance(outcome, RoutingOutcome):
        return outcome
    return _unknown(f"the transport returned {type(outcome).__name__}, not RoutingOutcome")
