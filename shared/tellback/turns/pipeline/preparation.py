"""Turns what the model gave into what a transport sends. Source: feedback-guarantee, "With Preparation"."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tellback.contracts.llm import LlmResponse
from tellback.contracts.turns import OutgoingResponse
from tellback.turns.keys import FEEDBACK_KEY, LIMIT_KEYS
from tellback.turns.pipeline.context import TurnContext
from tellback.turns.words import Words

SPEAK: Final = "🔊"
BLANK: Final = "response.blank"
UNKNOWN: Final = "unknown"


class OutgoingResponsePreparationSystem:
    """Prepares the `OutgoingResponse`; the first match wins.

    A response exists: nothing. An error is set, even a blank one, even beside a response: the generic feedback. A final
    answer was declared and there is none: the same. A limit stopped the loop: a text that says which. Tool calls
    without a final answer: nothing. Else text, voice and attachments of the model's response.
    """

    name = "OutgoingResponsePreparationSystem"
    order = 58

    def __init__(self, words: Words | None = None, *, voice_channels: Collection[str] = ()) -> None:
        """Take the words, and the channels where who speaks is answered by voice; `*` stands for every channel."""
        self._words = words or Words()
        self._voice_channels = voice_channels

    def should_process(self, context: TurnContext) -> bool:
        """Where nothing is prepared yet."""
        return context.outgoing_response is None

    def process(self, context: TurnContext) -> None:
        """Prepare it.

        Raises:
            InvalidInput: the response is more than an outbox holds.
        """
        if context.outgoing_response is not None:
            return
        response = context.llm_response or LlmResponse()
        if context.llm_error is not None:
            self._say(context, FEEDBACK_KEY, context.llm_error.code or UNKNOWN)
        elif context.final_answer_ready and _prepared(response, speak=False) is None:
            self._say(context, FEEDBACK_KEY, BLANK)
        elif response.limit is not None:
            self._say(context, LIMIT_KEYS[response.limit], f"limit.{response.limit}")
        elif context.final_answer_ready or not response.tool_calls:
            prepared = _prepared(response, speak=self._speaks(context))
            if prepared is not None:
                prepared.check()
                context.outgoing_response = prepared

    def _speaks(self, context: TurnContext) -> bool:
        return context.spoken_to and ("*" in self._voice_channels or context.turn.channel in self._voice_channels)

    def _say(self, context: TurnContext, key: str, code: str) -> None:
        text = self._words.say(key, context.turn.language, context.turn.channel)
        context.outgoing_response = OutgoingResponse.text_only(text)
        context.failure_code = code


def _prepared(response: LlmResponse, *, speak: bool) -> OutgoingResponse | None:
    """What is to be sent, or None where that would be nothing."""
    text = response.text or ""
    if text.lstrip().startswith(SPEAK):
        text, speak = text.lstrip().removeprefix(SPEAK).removeprefix("\ufe0f").strip(), True
    if not text.strip():
        text = ""
    voice = response.voice if (response.voice or "").strip() else (text if speak else None)
    prepared = OutgoingResponse(text=text or None, voice=voice or None, attachments=response.attachments)
    return None if prepared.blank else prepared
