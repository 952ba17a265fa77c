"""Secrets are taken out where text is captured, before anything cuts or stores it.

A whole line that a rule matches is replaced by a marker that names the rule, so that a reader does not take absence for
silence. The rules are the five of the source document (runtime-feedback-loops, "Redact at write, not at read"); each
costs time linear in the text. Nothing here does I/O, so every loop may import it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

MIN_VALUE_CHARS: Final = 4  # shorter values stand in ordinary text too often to be searched for
MAX_DEPTH: Final = 64
TOO_DEEP: Final = "[redacted: nested too deeply to check]"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a secret looks like within one line."""

    name: str
    pattern: re.Pattern[str]


RULES: Final = (
    # Case counts, so that "bearer of bad news" stays; the header form is what `curl -H` shows.
    Rule("bearer", re.compile(r"^Bearer |[Aa]uthorization[\"']?\s{0,8}[:=]\s{0,8}[\"']?Bearer ")),
    Rule("password", re.compile(r"password=", re.IGNORECASE)),
    Rule("api-key", re.compile(r"api[_-]?key=", re.IGNORECASE)),
    Rule("aws-access-key", re.compile(r"AKIA[0-9A-Z]{16}")),
    Rule("slack-token", re.compile(r"xox[baprs]-")),
)
# One scan refuses nearly every line: what no part of this finds, no rule does.
_PREFILTER: Final = re.compile(r"Bearer |password=|api[_-]?key=|AKIA|xox[baprs]-", re.IGNORECASE)


def marker(rule: str) -> str:
    """The line that stands where a secret was."""
    return f"[redacted: {rule}]"


class Redactor:
    """The rules, and the exact values that must not be shown."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        """Take secret `values` by name; each of their lines is looked for as it stands.

        Lines shorter than `MIN_VALUE_CHARS` are not looked for: who accepts a secret refuses such values first.
        """
        self._values = [
            (f"secret {name}", line)
            for name, value in (values or {}).items()
            for line in value.splitlines()
            if len(line) >= MIN_VALUE_CHARS
        ]

    def rule_of(self, line: str) -> str | None:
        """The name of the first rule that matches this line."""
        for name, value in self._values:
            if value in line:
                return name
        if _PREFILTER.search(line):
            for rule in RULES:
                if rule.pattern.search(line):
                    return rule.name
        return None

    def find(self, text: str) -> str | None:
        """The name of the first rule that matches a line of `text`."""
        return next((rule for rule in map(self.rule_of, text.split("\n")) if rule), None)

    def text(self, text: str) -> str:
        """`text` with a marker in place of each matching line."""
        if not self._values and not _PREFILTER.search(text):
            return text
        lines = text.split("\n")
        return "\n".join(marker(rule) if (rule := self.rule_of(line)) else line for line in lines)

    def argv(self, argv: Iterable[str]) -> list[str]:
        """Each argument as a text of its own."""
        return [self.text(argument) for argument in argv]

    def value(self, value: Any) -> Any:
        """A copy of a JSON-like value with every text in it redacted, keys included.

        A text under a key is also read as `key=text`, so that `{"password": "..."}` is caught.
        """
        return self._value(value, "", 0)

    def _value(self, value: Any, key: str, depth: int) -> Any:
        if isinstance(value, str):
            return self._text_under(key, value)
        if value is None or isinstance(value, int | float):
            return value
        if _is_mapping(value):
            if depth >= MAX_DEPTH:
                return TOO_DEEP
            return {self._value(k, "", depth + 1): self._value(v, str(k), depth + 1) for k, v in value.items()}
        if _is_sequence(value):
            return TOO_DEEP if depth >= MAX_DEPTH else [self._value(item, key, depth + 1) for item in value]
        return value

    def _text_under(self, key: str, text: str) -> str:
        line = f"{key}={text}" if key else text
        if not self._values and not _PREFILTER.search(line):
            return text  # every tool call comes by here; one scan of key and text together clears both
        rule = self.rule_of(line) if key else None
        return marker(rule) if rule else self.text(text)


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _is_sequence(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, list | tuple | set | frozenset)


_plain = Redactor()


def find_secret(text: str) -> str | None:
    """The name of the first rule that matches a line of `text`."""
    return _plain.find(text)


def redact_text(text: str) -> str:
    """`text` with a marker in place of each line that a rule matches."""
    return _plain.text(text)


def redact_value(value: Any) -> Any:
    """A copy of a JSON-like value (tool parameters, a result) with every text in it redacted."""
    return _plain.value(value)
