"""Nobody is left without an answer. Source: feedback-guarantee, "System Design"."""

from __future__ import annotations

from typing import Final

from tellback.contracts.turns import OutgoingResponse
from tellback.log import get_logger
from tellback.turns.pipeline.context import TurnContext
from tellback.turns.words import Words

GUARANTEED: Final = "feedback.guarantee"

_log = get_logger("tellback.turns")


class FeedbackGuaranteeSystem:
    """Says the generic feedback where nothing was prepared and somebody waits.

    It never overrides, does nothing in auto mode, and touches neither messages nor the model's response: a feedback is
    no final answer.
    """

    name = "FeedbackGuaranteeSystem"
    order = 59

    def __init__(self, words: Words | None = None) -> None:
        """Take the words."""
        self._words = words or Words()

    def should_process(self, context: TurnContext) -> bool:
        """Where nothing was prepared, unless the last message is of auto mode."""
        return context.outgoing_response is None and not context.auto

    def process(self, context: TurnContext) -> None:
        """Prepare the feedback, and say so in the log, without what went wrong."""
        if not self.should_process(context):
            return
        about = context.turn
        text = self._words.feedback(about.language, about.channel)
        context.outgoing_response = OutgoingResponse.text_only(text)
        context.failure_code = GUARANTEED
        _log.info("[FeedbackGuarantee] Producing fallback OutgoingResponse ...", turn=about.id, channel=about.channel)
