"""The redactor: rules, exact values and private keys, applied to lines, texts and values."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, Final, TypeGuard, cast

from tellback.redaction.blocks import RULE as PRIVATE_KEY
from tellback.redaction.blocks import KeyBlocks, body_before
from tellback.redaction.glance import MAX_CHARS, Glance
from tellback.redaction.rules import Rule, Scans, scans, scans_within

MIN_VALUE_CHARS: Final = 4  # shorter values stand in ordinary text too often to be searched for
MAX_DEPTH: Final = 64
TOO_DEEP: Final = "[redacted: nested too deeply to check]"
# A very short text without any of these, in small letters, and without a long word is not even worth a glance.
_SHORT: Final = 60  # characters
_TELLING: Final = re.compile(
    r":|=|\||@|>|xox|bearer |basic |--|-u|-p|-a |login|env|arg|setx|pass|pwd|token|secret|key|mysql|pw|auth|cred|hook"
)
_LONG_WORD: Final = re.compile(r"\S{14}")
# A key is read with its value only if it would give away this one: few do, and a host uses the same ones all the time.
_PROBE: Final = "x1Y2z3a4B5c6d7e8f9"
_NEWLINE: Final = "\n"
_COLOUR: Final = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|[()][0-9A-B])")
_SIGNS: Final = (("&quot;", '"'), ("\\u0022", '"'), ("%3D", "="), ("%3d", "="))
_LONGEST_NAMING: Final = 200  # characters
_SHORTEST: Final = 5  # characters of the shortest text that any rule of ours matches

_PLAIN: Final = frozenset({int, float, bool, type(None)})

_added: tuple[Rule, ...] = ()


def add_rules(rules: Iterable[Rule]) -> None:
    """Make these the rules that this process has beside its own; every redactor uses them from now on."""
    global _added  # noqa: PLW0603 - one set for each process, as its environment says
    _added = tuple(rules)
    _tells.cache_clear()


def marker(rule: str) -> str:
    """The line that stands where a secret was."""
    return f"[redacted: {rule}]"


class Redactor:
    """The rules, and the exact values that must not be shown."""

    def __init__(self, values: Mapping[str, str] | None = None, *, within: str | None = None) -> None:
        """Take secret `values` by name; each of their lines is looked for as it stands.

        Lines shorter than `MIN_VALUE_CHARS` are not looked for: who accepts a secret refuses such values first. A
        redactor that is given `within` is for parts of that text alone, keys of values included, and is sooner ready.
        """
        self._scans = scans if within is None else partial(_same, scans_within(within))
        self._values = [
            (f"secret {name}", line)
            for name, value in (values or {}).items()
            for line in _bare(value).splitlines()
            if len(line) >= MIN_VALUE_CHARS
        ]

    def rule_of(self, line: str, before: str = "") -> str | None:
        """The first rule that matches this line, or a value in it whose name stands in the line `before`."""
        line = _bare(line)
        rule = None if self._clean(line) else next((rule for _, rule in self._found(line)), None)
        return rule or self._by_name(_naming(before), line)

    def _by_name(self, named: str, line: str) -> str | None:
        return self._hidden(f"{named}\n{line}", None).get(1) if named else None

    def find(self, text: str) -> str | None:
        """The name of a rule that matches a line of `text`."""
        return self.rule_of(text)

    def text(self, text: str) -> str:
        """`text` with a marker in place of each matching line, and of each line of a private key."""
        hidden = self.hidden(text)
        if not hidden:
            return text
        return "\n".join(
            marker(hidden[number]) if number in hidden else line for number, line in enumerate(text.split("\n"))
        )

    def hidden(self, text: str, blocks: KeyBlocks | None = None) -> dict[int, str]:
        """The rule of each line of `text` that is not to be shown, by its number from 0.

        `blocks` carries over from the text before, and on to the next, a private key and a name that waits for its
        value.
        """
        if blocks is None:
            return self._hidden(text, None)
        before, blocks.named = blocks.named, _naming(text)
        hidden = self._hidden(text, blocks)
        if 0 not in hidden and (rule := self._by_name(before, text.partition(_NEWLINE)[0])):
            return hidden | {0: rule}
        return hidden

    def _hidden(self, text: str, blocks: KeyBlocks | None) -> dict[int, str]:
        text = _bare(text)
        keys = "PRIVATE KEY" in text or (blocks is not None and blocks.inside)
        if not keys and self._clean(text):
            return {}
        found = list(self._found(text))
        lines = text.split("\n")
        starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        hidden: dict[int, str] = {}
        for place, rule in found:
            hidden.setdefault(bisect_right(starts, place) - 1, rule)
        if keys:
            hidden |= dict.fromkeys(_key_lines(lines, blocks or KeyBlocks()), PRIVATE_KEY)
        return hidden

    def argv(self, argv: Iterable[str]) -> list[str]:
        """Each argument as a text of its own."""
        return [self.text(argument) for argument in argv]

    def value(self, value: Any) -> Any:
        """A copy of a JSON-like value with every text in it redacted, keys included.

        A text under a key is also read as `key="text"`, so that `{"password": "..."}` is caught.
        """
        seen: list[str] = []
        copy = _copy(value, "", 0, seen)
        if not seen or self._clean(_bare("\n".join(seen))):
            return copy  # every tool call comes by here: one scan of all that it carries
        return self._value(value, "", 0)

    def _clean(self, text: str) -> bool:
        """Whether nothing in `text` can be a secret, told as fast as that can be."""
        if _added and any(rule.pattern.search(text) for rule in _added):
            return False
        if self._values and any(value in text for _, value in self._values):
            return False
        return _without_form(text, self._scans)

    def _found(self, text: str) -> Generator[tuple[int, str]]:
        """Place and rule of what matches; the rules of each scan in the order of their places."""
        for name, value in self._values:
            place = text.find(value)
            while place >= 0:
                yield place, name
                place = text.find(value, place + len(value))
        if len(text) >= _SHORTEST:
            ready = self._scans()
            spaced = _unescaped(text)
            for scan in ready.plain:
                yield from scan.found(spaced, text)
            folded = fold(text)
            for scan in ready.folded:
                yield from scan.found(folded, text)
        for rule in _added:
            for match in rule.pattern.finditer(text):
                yield match.start(), rule.name

    def _value(self, value: Any, key: str, depth: int) -> Any:
        if isinstance(value, str):
            rule = self.rule_of(_under(key, value)) if key and _tells(key) else None
            return marker(rule) if rule else self.text(value)
        if value is None or isinstance(value, int | float):
            return value
        if _is_mapping(value):
            if depth >= MAX_DEPTH:
                return TOO_DEEP
            return {self._value(k, "", depth + 1): self._value(v, str(k), depth + 1) for k, v in value.items()}
        if _is_sequence(value):
            return TOO_DEEP if depth >= MAX_DEPTH else [self._value(item, key, depth + 1) for item in value]
        return value


def _naming(text: str) -> str:
    """The last line, if it may name what the next gives a value to."""
    last = text[text.rfind(_NEWLINE) + 1 :]
    return last if len(last) <= _LONGEST_NAMING and "name" in last.lower() else ""


def _bare(text: str) -> str:
    """`text` line by line as a reader takes it: without colours, and with signs in place of what stands for them.

    Either may come between a name and its value, or lie within a token.
    """
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    for escape, sign in _SIGNS:
        if escape in text:
            text = text.replace(escape, sign)
    return text


def _same(ready: Scans) -> Scans:
    return ready


def _without_form(text: str, scans: Callable[[], Scans] = scans) -> bool:
    """Whether no rule of ours matches in `text`."""
    if len(text) < _SHORTEST:
        return True
    folded = fold(text)
    if len(text) <= _SHORT and not _LONG_WORD.search(text) and not _TELLING.search(folded):
        return True
    ready = scans()
    plain = _unescaped(text)
    if len(text) <= MAX_CHARS:
        glance = Glance(text)
        return all(scan.clean_by(glance, plain) for scan in ready.plain) and all(
            scan.clean_by(glance, folded) for scan in ready.folded
        )
    if not all(scan.clean(plain) for scan in ready.plain):
        return False
    return all(scan.clean(folded) for scan in ready.folded)


def fold(text: str) -> str:
    """`text` with its ASCII capitals made small, and as many characters as before."""
    if text.isascii():
        return text.lower()
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _unescaped(text: str) -> str:
    """`text` with spaces for escapes, whose letters would seem to belong to the token behind them."""
    if "\\" in text:
        for letter in "nrt":
            text = text.replace(f"\\{letter}", "  ")
    return text


def _under(key: str, text: str) -> str:
    return f'{key}="{text}"'


@lru_cache(maxsize=4096)
def _tells(key: str) -> bool:
    """Whether a text under this key may be a secret for the key's sake."""
    return bool(_added) or not _without_form(_under(key, _PROBE))


def _copy(value: Any, key: str, depth: int, seen: list[str]) -> Any:
    """The value with lists and dicts of its own; `seen` takes its texts, each as it is searched."""
    if isinstance(value, str):
        seen.append(_under(key, value) if key and _tells(key) else value)
        return value
    if value is None or isinstance(value, int | float):
        return value
    if type(value) is dict or _is_mapping(value):
        if depth >= MAX_DEPTH:
            return TOO_DEEP
        copy: dict[Any, Any] = {}
        for k, v in cast("Mapping[object, object]", value).items():
            if type(k) is str:  # nearly always: what follows is the same for any, and costs more
                seen.append(k)
                if type(v) is str:
                    seen.append(_under(k, v) if k and _tells(k) else v)
                    copy[k] = v
                else:
                    copy[k] = v if type(v) in _PLAIN else _copy(v, k, depth + 1, seen)
            else:
                copy[_copy(k, "", depth + 1, seen)] = _copy(v, str(k), depth + 1, seen)
        return copy
    if _is_sequence(value):
        return TOO_DEEP if depth >= MAX_DEPTH else [_copy(item, key, depth + 1, seen) for item in value]
    return value


def _key_lines(lines: Sequence[str], blocks: KeyBlocks) -> Generator[int]:
    """The numbers of the lines of private keys, also of one whose first lines are not among them."""
    for number, line in enumerate(lines):
        inside = blocks.inside
        if blocks.takes(line):
            yield number
            if not inside and not blocks.inside:
                yield from range(body_before(lines, number), number)


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _is_sequence(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, list | tuple | set | frozenset)


_plain = Redactor()


_NO_SECRETS: Final = frozenset({"PWD", "OLDPWD"})  # what a shell calls the working directory, and not a password


def sensitive_values(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the rules take for secrets, by name: their exact values are to be looked for everywhere."""
    return {
        name: value
        for name, value in environ.items()
        if len(value) >= 8 and name not in _NO_SECRETS and find_secret(f'{name}="{value}"')
    }


def find_secret(text: str) -> str | None:
    """The name of a rule that matches a line of `text`."""
    return _plain.find(text)


def redact_text(text: str) -> str:
    """`text` with a marker in place of each line that a rule matches."""
    return _plain.text(text)


def redact_value(value: Any) -> Any:
    """A copy of a JSON-like value (tool parameters, a result) with every text in it redacted."""
    return _plain.value(value)
