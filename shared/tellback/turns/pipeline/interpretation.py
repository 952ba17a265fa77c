"""A more specific message where it is known what went wrong. Source: feedback-guarantee, "Smarter fallback".

The rules read what failed; the user reads a text of the catalogs, chosen by its key. So nothing of the former can reach
the latter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tellback.contracts.turns import OutgoingResponse
from tellback.errors import ConfigurationError
from tellback.turns.keys import (
    ATTACHMENT_KEY,
    BUSY_KEY,
    FILTERED_KEY,
    KEYS,
    LIMIT_KEYS,
    TIMEOUT_KEY,
    TOO_LONG_KEY,
    TOOL_KEY,
    UNAVAILABLE_KEY,
)
from tellback.turns.pipeline.context import TurnContext
from tellback.turns.words import Words

MAX_READ: Final = 1_000  # characters of one error that the rules read


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """Errors that `pattern` is found in, whatever their case, are told by the message `key`."""

    pattern: str
    key: str

    def __post_init__(self) -> None:
        """Refuse a rule that could never be told.

        Raises:
            ConfigurationError: the pattern is none, or no catalog has the key.
        """
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ConfigurationError(f"an error rule's pattern {self.pattern!r}: {error}") from error
        if self.key not in KEYS:
            raise ConfigurationError(f"an error rule's key {self.key!r}: use one of {', '.join(sorted(KEYS))}")


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
"""The first that matches counts, so the specific ones come first."""


class ErrorInterpretationSystem:
    """Says what kind of thing went wrong, in words for users, where a rule knows it. Optional.

    It acts where the user would get no answer else: an error is set, or a system failed and the model gave nothing.
    """

    name = "ErrorInterpretationSystem"
    order = 57

    def __init__(self, words: Words | None = None, *, rules: Iterable[ErrorRule] = ()) -> None:
        """Take the words, and rules of your own, which come before ours."""
        self._words = words or Words()
        self._rules = [(re.compile(rule.pattern, re.IGNORECASE), rule.key) for rule in (*rules, *RULES)]

    def should_process(self, context: TurnContext) -> bool:
        """Where there is an error to tell and no answer, unless the last message is of auto mode."""
        if context.outgoing_response is not None or context.auto:
            return False
        response = context.llm_response
        if context.llm_error is not None:
            return True
        if response is None:
            return bool(context.system_errors)
        if response.limit is not None:
            return False
        waits = bool(response.tool_calls) and not context.final_answer_ready
        return (response.blank or waits) and bool(context.system_errors or response.finish_reason)

    def process(self, context: TurnContext) -> None:
        """Prepare the message of the first rule that matches; without one, leave it to the systems that follow."""
        key = self._key(context)
        if key is None:
            return
        text = self._words.say(key, context.turn.language, context.turn.channel)
        context.outgoing_response = OutgoingResponse.text_only(text)
        context.failure_code = (context.llm_error.code if context.llm_error else "") or key.removesuffix(".feedback")

    def _key(self, context: TurnContext) -> str | None:
        for text in _told(context):
            for pattern, key in self._rules:
                if pattern.search(text[:MAX_READ]):
                    return key
        if context.llm_response is not None and context.llm_response.finish_reason in {"length", "max_tokens"}:
            return LIMIT_KEYS["tokens"]
        return None


def _told(context: TurnContext) -> Iterator[str]:
    """What is known, the model's error first, then what failed last."""
    if context.llm_error is not None:
        yield f"{context.llm_error.code} {context.llm_error.message}"
    if context.llm_response is not None:
        yield context.llm_response.finish_reason
    for failure in reversed(context.system_errors):
        yield f"{failure.system} {failure.error} {failure.message}"
