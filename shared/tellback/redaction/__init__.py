"""Secrets are taken out where text is captured, before anything cuts or stores it.

A whole line that a rule matches is replaced by a marker that names the rule, so that a reader does not take absence for
silence. The rules are the five of the source document (runtime-feedback-loops, "Redact at write, not at read"), formats
of tokens, assignments, private keys, and those that users add; each costs time linear in the text. Nothing here does
I/O except `custom.load_rules`, so every loop may import it.
"""

from tellback.redaction.blocks import KeyBlocks
from tellback.redaction.redactor import (
    MIN_VALUE_CHARS,
    Redactor,
    add_rules,
    find_secret,
    marker,
    redact_text,
    redact_value,
    sensitive_values,
)
from tellback.redaction.rules import SOURCE_RULES, Rule

__all__ = [
    "MIN_VALUE_CHARS",
    "SOURCE_RULES",
    "KeyBlocks",
    "Redactor",
    "Rule",
    "add_rules",
    "find_secret",
    "marker",
    "redact_text",
    "redact_value",
    "sensitive_values",
]
