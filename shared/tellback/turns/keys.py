"""The messages that users may get instead of an answer, by their keys in the catalogs."""

from __future__ import annotations

from typing import Final

FEEDBACK_KEY: Final = "system.error.generic.feedback"
TIMEOUT_KEY: Final = "system.error.timeout.feedback"
BUSY_KEY: Final = "system.error.busy.feedback"
UNAVAILABLE_KEY: Final = "system.error.unavailable.feedback"
TOO_LONG_KEY: Final = "system.error.too_long.feedback"
FILTERED_KEY: Final = "system.error.filtered.feedback"
TOOL_KEY: Final = "system.error.tool.feedback"
ATTACHMENT_KEY: Final = "system.error.attachment.feedback"
LIMIT_KEYS: Final = {
    "tool_calls": "turn.limit.tool_calls.feedback",
    "llm_calls": "turn.limit.llm_calls.feedback",
    "time": "turn.limit.time.feedback",
    "tokens": "turn.limit.tokens.feedback",
}
KEYS: Final = frozenset(
    {
        FEEDBACK_KEY,
        TIMEOUT_KEY,
        BUSY_KEY,
        UNAVAILABLE_KEY,
        TOO_LONG_KEY,
        FILTERED_KEY,
        TOOL_KEY,
        ATTACHMENT_KEY,
        *LIMIT_KEYS.values(),
    }
)
