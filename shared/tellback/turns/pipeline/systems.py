"""The four built-in systems: error interpretation, preparation, guarantee and routing, at the orders 57 to 60.

Preparation turns the model's response into what a transport sends; the guarantee adds the generic feedback when nothing
was prepared; routing hands the result to the transport. The optional interpretation picks a more specific text for a
known error. Its rules read the error, but the user only reads a catalog text chosen by key, so nothing of an error can
reach a user. Requirements T-36, T-37, T-38, T-39, T-40, T-43, T-44 and T-46.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tellback.contracts.turns import LlmResponse, OutgoingResponse, RoutingOutcome
from tellback.errors import ConfigurationError
from tellback.log import get_logger
from tellback.turns.fallback_text import (
    ATTACHMENT_KEY,
    BUSY_KEY,
    FEEDBACK_KEY,
    FILTERED_KEY,
    KEYS,
    LIMIT_KEYS,
    TIMEOUT_KEY,
    TOO_LONG_KEY,
    TOOL_KEY,
    UNAVAILABLE_KEY,
    Words,
)
from tellback.turns.pipeline.context import TurnContext

SPEAK_PREFIX: Final = "🔊"

BLANK_ANSWER: Final = "response.blank"

UNKNOWN_FAILURE: Final = "unknown"


class OutgoingResponsePreparationSystem:
    """Prepares the `OutgoingResponse`; the first case that matches wins.

    1. A response exists: nothing to do.
    2. An error is set, even a blank one or one beside a response: the generic feedback.
    3. A final answer was declared, but is blank: the generic feedback.
    4. A limit stopped the loop: the text that names the limit.
    5. Tool calls without a final answer: nothing, since the agent isn't done.
    6. Otherwise: text, voice and attachments of the model's response.

    In `voice_channels` a spoken message gets a spoken answer; `*` means every channel.
    """

    name = "OutgoingResponsePreparationSystem"
    order = 58

    def __init__(self, words: Words | None = None, *, voice_channels: Collection[str] = ()) -> None:
        self._words = words or Words()
        self._voice_channels = voice_channels

    def should_process(self, context: TurnContext) -> bool:
        """Return True while no response is prepared."""
        return context.outgoing_response is None

    def process(self, context: TurnContext) -> None:
        """Prepare the response.

        Raises:
            InvalidInput: the response is larger than an outbox accepts.
        """
        if context.outgoing_response is not None:
            return
        response = context.llm_response or LlmResponse()
        if context.llm_error is not None:
            self._prepare_text(context, FEEDBACK_KEY, context.llm_error.code or UNKNOWN_FAILURE)
        elif context.final_answer_ready and _prepare_response(response, speak=False) is None:
            self._prepare_text(context, FEEDBACK_KEY, BLANK_ANSWER)
        elif response.limit is not None:
            self._prepare_text(context, LIMIT_KEYS[response.limit], f"limit.{response.limit}")
        elif context.final_answer_ready or not response.tool_calls:
            prepared = _prepare_response(response, speak=self._is_spoken(context))
            if prepared is not None:
                prepared.check()
                context.outgoing_response = prepared

    def _is_spoken(self, context: TurnContext) -> bool:
        return context.spoken_to and ("*" in self._voice_channels or context.turn.channel in self._voice_channels)

    def _prepare_text(self, context: TurnContext, key: str, code: str) -> None:
        text = self._words.say(key, context.turn.language, context.turn.channel)
        context.outgoing_response = OutgoingResponse.text_only(text)
        context.failure_code = code


def _prepare_response(response: LlmResponse, *, speak: bool) -> OutgoingResponse | None:
    """Return the response to send, or None if it would be blank."""
    text = response.text or ""
    if text.lstrip().startswith(SPEAK_PREFIX):
        # Models may write the emoji with a variation selector, which would stay behind as an invisible character.
        text, speak = text.lstrip().removeprefix(SPEAK_PREFIX).removeprefix("\ufe0f").strip(), True
    if not text.strip():
        text = ""
    voice = response.voice if (response.voice or "").strip() else (text if speak else None)
    prepared = OutgoingResponse(text=text or None, voice=voice or None, attachments=response.attachments)
    return None if prepared.is_blank else prepared


GUARANTEED: Final = "feedback.guarantee"

_logger = get_logger("tellback.turns")


class FeedbackGuaranteeSystem:
    """Prepares the generic feedback if nothing was prepared and a user waits.

    It never overrides a response, does nothing in auto mode, and changes neither the messages nor the model's response:
    feedback isn't a final answer.
    """

    name = "FeedbackGuaranteeSystem"
    order = 59

    def __init__(self, words: Words | None = None) -> None:
        self._words = words or Words()

    def should_process(self, context: TurnContext) -> bool:
        """Return True if no response is prepared, unless the last message is in auto mode."""
        return context.outgoing_response is None and not context.auto

    def process(self, context: TurnContext) -> None:
        """Prepare the feedback and log it without its cause, since logs must not show what failed."""
        if not self.should_process(context):
            return
        about = context.turn
        text = self._words.feedback(about.language, about.channel)
        context.outgoing_response = OutgoingResponse.text_only(text)
        context.failure_code = GUARANTEED
        _logger.info(
            "[FeedbackGuarantee] Producing fallback OutgoingResponse ...", turn=about.id, channel=about.channel
        )


MAX_SEARCHED_CHARS: Final = 1_000  # of each error; bounds what seven patterns and your own cost on a huge one


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """A rule: an error that contains `pattern`, ignoring case, is answered with the message `key`."""

    pattern: str
    key: str

    def __post_init__(self) -> None:
        """Check the rule.

        Raises:
            ConfigurationError: the pattern isn't a regular expression, or no catalog has the key.
        """
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ConfigurationError(f"an error rule's pattern {self.pattern!r}: {error}") from error
        if self.key not in KEYS:
            raise ConfigurationError(f"an error rule's key {self.key!r}: use one of {', '.join(sorted(KEYS))}")


# Codes, class names and messages of model providers and HTTP clients, such as "rate_limit_error", "APITimeoutError" or
# "[Errno 111] Connection refused". `.?` joins words because providers write the same error with a space, an underscore
# or nothing; `.{0,20}` bridges "prompt is too long" or "content management policy", but not a whole sentence. A status
# code needs word borders, or it would match within longer numbers. A spent quota counts as unavailable, not as busy,
# because trying again soon doesn't help.
RULES: Final = (
    ErrorRule(r"content.{0,20}(filter|policy)|\bmoderation|\bsafety\b|\brefusal\b|responsible.?ai", FILTERED_KEY),
    ErrorRule(
        r"context.?(length|window)|(prompt|input|request|message|conversation).{0,20}too (long|large)|too many tokens"
        r"|maximum.{0,20}tokens|\b413\b",
        TOO_LONG_KEY,
    ),
    ErrorRule(r"rate.?limit|too.?many.?requests|\b429\b|overloaded|\b529\b|throttl|resource.?exhausted", BUSY_KEY),
    ErrorRule(r"time(d)?[\W_]?out|deadline.?exceeded|\b(408|504)\b", TIMEOUT_KEY),
    ErrorRule(r"attachment|unsupported.?(file|media|image|audio)|\b415\b", ATTACHMENT_KEY),
    ErrorRule(
        r"unavailable|connection.?(error|refused|reset|aborted)|econn|unreachable|quota|\b50[0-3]\b|bad.?gateway"
        r"|name resolution|service.?down",
        UNAVAILABLE_KEY,
    ),
    ErrorRule(r"\btools?\b|tool.?(error|failed|execution)", TOOL_KEY),
)
"""The first match counts, so specific rules precede general ones; the word "tool" is the most general."""


class ErrorInterpretationSystem:
    """Prepares a more specific text than the generic feedback if a rule matches the error. Optional.

    It acts only if the user would get no answer otherwise: an error is set, or a system failed and the model's response
    is missing or blank. Your own `rules` come before the built-in ones.
    """

    name = "ErrorInterpretationSystem"
    order = 57

    def __init__(self, words: Words | None = None, *, rules: Iterable[ErrorRule] = ()) -> None:
        self._words = words or Words()
        self._rules = [(re.compile(rule.pattern, re.IGNORECASE), rule.key) for rule in (*rules, *RULES)]

    def should_process(self, context: TurnContext) -> bool:
        """Return True if there is an error and no answer, unless the last message is in auto mode."""
        if context.outgoing_response is not None or context.auto:
            return False
        response = context.llm_response
        if context.llm_error is not None:
            return True
        if response is None:
            return bool(context.system_errors)
        if response.limit is not None:  # preparation has a text that names the limit
            return False
        waits = bool(response.tool_calls) and not context.final_answer_ready
        return (response.is_blank or waits) and bool(context.system_errors or response.finish_reason)

    def process(self, context: TurnContext) -> None:
        """Prepare the message of the first rule that matches; if none does, the later systems handle the error."""
        key = self._matching_key(context)
        if key is None:
            return
        text = self._words.say(key, context.turn.language, context.turn.channel)
        context.outgoing_response = OutgoingResponse.text_only(text)
        context.failure_code = (context.llm_error.code if context.llm_error else "") or key.removesuffix(".feedback")

    def _matching_key(self, context: TurnContext) -> str | None:
        for text in _known_error_texts(context):
            for pattern, key in self._rules:
                if pattern.search(text[:MAX_SEARCHED_CHARS]):
                    return key
        if context.llm_response is not None and context.llm_response.finish_reason in {"length", "max_tokens"}:
            return LIMIT_KEYS["tokens"]
        return None


def _known_error_texts(context: TurnContext) -> Iterator[str]:
    """Yield the error texts by relevance: the model's error, its finish reason, then the latest failures first."""
    if context.llm_error is not None:
        yield f"{context.llm_error.code} {context.llm_error.message}"
    if context.llm_response is not None:
        yield context.llm_response.finish_reason
    for failure in reversed(context.system_errors):
        yield f"{failure.system} {failure.error} {failure.message}"


SendResponse = Callable[[OutgoingResponse], RoutingOutcome]
"""Sends or queues a response and returns the outcome."""


class ResponseRoutingSystem:
    """Sends the `OutgoingResponse`, reads nothing else, and always stores a `RoutingOutcome`."""

    name = "ResponseRoutingSystem"
    order = 60

    def __init__(self, transport: SendResponse | None = None) -> None:
        self._transport = transport

    def should_process(self, context: TurnContext) -> bool:
        """Return True: having nothing to send is an outcome, too."""
        del context
        return True

    def process(self, context: TurnContext) -> None:
        """Send the response and store the outcome.

        A transport that raises or returns something else may have sent the response or not, so that is ambiguous.
        """
        response = context.outgoing_response
        if response is None:
            context.routing_outcome = RoutingOutcome(attempted=False, error="there was nothing to send")
        elif self._transport is None:
            context.routing_outcome = RoutingOutcome(attempted=False, error="no transport was given")
        else:
            # Stored first, so that the outcome is right even if a KeyboardInterrupt ends the call below.
            context.routing_outcome = _unknown_outcome("the transport did not return")
            try:
                outcome: Any = self._transport(response)
            except Exception as error:  # noqa: BLE001 - a transport is someone else's code
                context.routing_outcome = _unknown_outcome(f"the transport raised {type(error).__name__}")
            else:
                context.routing_outcome = _checked_outcome(outcome)


def _unknown_outcome(error: str) -> RoutingOutcome:
    return RoutingOutcome(attempted=True, ambiguous=True, error=error)


def _checked_outcome(outcome: object) -> RoutingOutcome:
    if isinstance(outcome, RoutingOutcome):
        return outcome
    return _unknown_outcome(f"the transport returned {type(outcome).__name__}, not RoutingOutcome")
