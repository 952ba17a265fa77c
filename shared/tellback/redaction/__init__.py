"""Redaction of secrets, applied where text is captured, before anything truncates or stores it.

A line that matches a rule is replaced as a whole by a marker that names the rule; a silent gap would look as if the
program had printed nothing. The rules are the five fixed patterns (requirements A-54 and A-56), token formats,
assignments, private keys, and the user's own. Each rule takes time linear in the text. Only `custom.load_rules` does
I/O, so every loop may import this package.
"""

from tellback.redaction.private_keys import PrivateKeyTracker
from tellback.redaction.redactor import (
    MIN_VALUE_CHARS,
    Redactor,
    add_rules,
    find_secret,
    marker,
    redact_record,
    redact_text,
    redact_value,
)
from tellback.redaction.rules import SOURCE_RULES, Rule

__all__ = [
    "MIN_VALUE_CHARS",
    "SOURCE_RULES",
    "PrivateKeyTracker",
    "Redactor",
    "Rule",
    "add_rules",
    "find_secret",
    "marker",
    "redact_record",
    "redact_text",
    "redact_value",
]
