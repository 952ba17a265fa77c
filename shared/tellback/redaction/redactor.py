"""The redactor: it applies rules, exact values and private keys to lines, texts and JSON-like values.

Every tool call passes through here, so clean text is the case to be fast at: `_is_clean` decides it with as few scans
as possible, and only a text that is not clean is searched for the positions of its secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, Final

from tellback.own_passwords import own_passwords
from tellback.redaction import codes, columns, encoded_texts, kubernetes, margins
from tellback.redaction.copier import (
    KEY_CHARS,
    MAX_DEPTH,
    TOO_DEEP,
    Copier,
    is_mapping,
    is_plain_name,
    is_sequence,
    keyed_text,
    searched_text,
)
from tellback.redaction.escapes import decoded_forms, unescaped, without_escapes
from tellback.redaction.printed_ids import is_printed_id
from tellback.redaction.private_keys import RULE as PRIVATE_KEY
from tellback.redaction.private_keys import PrivateKeyTracker, key_start_before, marks_key
from tellback.redaction.rules import HEADS, PROBE, Rule, ScanSet, all_scans, holds_nothing, scans_for_text
from tellback.redaction.substrings import searchable

MIN_VALUE_CHARS: Final = 4  # shorter values are too common in ordinary text to be searched for
_NEWLINE: Final = "\n"
# Characters of a stream that are searched again with its next text: half of them are above a value, where rules look.
_RECENT: Final = 1_600
_RECENT_LINES: Final = 8  # what names a value stands at most six above it, and a stream may come line by line
_SHORTEST: Final = 5  # characters of the shortest text that any rule of ours matches

_added: tuple[Rule, ...] = ()


def add_rules(rules: Iterable[Rule]) -> None:
    """Add rules to the user's rules of this process, which all its clients share; every redactor applies them."""
    global _added  # noqa: PLW0603 - one set for each process, as its environment says
    _added = tuple(dict.fromkeys((*_added, *rules)))
    _marks_secret.cache_clear()


def marker(rule: str) -> str:
    """Return the line that replaces a redacted one."""
    return f"[redacted: {rule}]"


class Redactor:
    """Redacts by the rules, and by exact values that must not be shown."""

    def __init__(self, values: Mapping[str, str] | None = None, *, within: str | None = None) -> None:
        """Prepare a search for `values`, secrets by name, each line of them exactly as it stands.

        Lines shorter than `MIN_VALUE_CHARS` are ignored; callers that accept secrets reject such values first. With
        `within` the redactor handles only parts of that text (keys of mappings included), and compiles fewer rules.
        """
        self._scans = all_scans if within is None else _scans_within(within)
        self._marks_secret = _marks_secret if within is None else cache(partial(_names_secret, scans=self._scans))
        self._values = [
            (f"secret {name}", line)
            for name, value in (values or {}).items()
            for given in value.splitlines()
            for line in decoded_forms(given)
            if len(line) >= MIN_VALUE_CHARS
        ]

    def rule_of(self, line: str) -> str | None:
        """Return the first rule that matches this line; None if clean."""
        line = without_escapes(line)
        found = () if self._is_clean(line) else (*self._find_given(line), *self._find_matches(margins.read(line).text))
        return next((rule for _, rule in found if rule not in HEADS), None)

    def text(self, text: str) -> str:
        """Return `text` with a marker in place of each matching line and each line of a private key."""
        hidden = self.hidden_lines(text)
        if not hidden:
            return text
        return "\n".join(
            marker(hidden[number]) if number in hidden else line for number, line in enumerate(text.split("\n"))
        )

    def hidden_lines(self, text: str, blocks: PrivateKeyTracker | None = None) -> dict[int, str]:
        """Return the rule of each line of `text` that must not be shown, by its number from 0.

        For a stream that comes in several texts, pass each with the same `blocks`. It carries what a text began and the
        next may go on with: a private key, a table with a column of secrets, a list of recovery codes, and the last
        lines, in which a name may stand whose value comes below. Without it the text is all there is.
        """
        text, blocks = without_escapes(text), blocks or PrivateKeyTracker()
        hidden = self._hidden_but_for_keys(text, blocks)
        if blocks.inside or marks_key(searchable(text)):
            hidden |= dict.fromkeys(_key_lines(text.split(_NEWLINE), blocks), PRIVATE_KEY)
        return hidden

    def hidden_together(self, lines: Sequence[str], blocks: PrivateKeyTracker | None = None) -> dict[int, str]:
        """Return the rules of lines of one output, as `hidden_lines` does but for private keys.

        For a record and its followers, which track those in more of a line than is searched.
        """
        return self._hidden_but_for_keys(without_escapes(_NEWLINE.join(lines)), blocks or PrivateKeyTracker())

    def _hidden_but_for_keys(self, text: str, blocks: PrivateKeyTracker) -> dict[int, str]:
        goes_on = blocks.continues or (blocks.within is not None and blocks.within.continues)
        nothing = holds_nothing(text, _RECENT // 4)  # in a longer one this takes as long as to search all
        needed = not nothing or _added or goes_on or blocks.empty < len(blocks.recent) or any(self._find_given(text))
        blocks.empty = blocks.empty + len(text) + 1 if nothing else 0
        begin = blocks.recent.count(_NEWLINE)
        text = blocks.recent + text
        blocks.recent = _last_lines(text)
        if not needed:
            return {}
        read = margins.read(text)
        given, found = list(self._find_given(text)), list(self._find_matches(read.text))
        secrets = kubernetes.may_hold(read.text)
        if not (given or found or secrets or goes_on):
            return {}
        lines = text.split(_NEWLINE)
        searched = lines if read.text == text else read.text.split(_NEWLINE)
        numbered = [
            (number, rule)
            for number, rule in margins.numbered(searched, found)
            if not (number and is_printed_id(searched[number], searched[number - 1]))
        ]
        held = read.held(numbered)
        first_last = reversed([*margins.numbered(lines, given), *held])
        hidden = {number: rule for number, rule in first_last if rule not in HEADS}
        hidden |= self._hidden_below(lines, held, blocks, begin, secrets=secrets)
        other = [each for each, (number, _) in zip(numbered, held, strict=True) if searched[each[0]] != lines[number]]
        if other or goes_on or (secrets and searched is not lines):
            within = blocks.within = blocks.within or PrivateKeyTracker()
            below = self._hidden_below(searched, other, within, read.first_of(begin), secrets=secrets)
            hidden = dict(read.held(below.items())) | hidden
        return {number - begin: rule for number, rule in hidden.items() if number >= begin} if begin else hidden

    def _hidden_below(
        self,
        lines: Sequence[str],
        found: Iterable[tuple[int, str]],
        blocks: PrivateKeyTracker,
        begin: int,
        *,
        secrets: bool,
    ) -> dict[int, str]:
        """Return the rules of lines from `begin` on that others name: of a Secret, a table, a list of codes."""
        heads = {head: sorted({number for number, rule in found if rule == head}) for head in HEADS}
        hidden: dict[int, str] = {}
        if secrets:
            hidden |= dict.fromkeys(kubernetes.value_lines(lines), kubernetes.RULE)
        if heads[columns.HEAD] or blocks.table is not None:
            new = [number for number in heads[columns.HEAD] if number >= begin]
            rows, blocks.table = columns.value_lines(lines, new, blocks.table, self._marks_secret, begin)
            hidden |= dict.fromkeys(rows, columns.RULE)
        if heads[codes.HEAD] or blocks.codes is not None:
            first = min([begin, *heads[codes.HEAD]])  # that of a head may be seen by the line below only
            listed, blocks.codes = codes.code_lines(lines, frozenset(heads[codes.HEAD]), blocks.codes, first)
            hidden |= dict.fromkeys(listed, codes.RULE)
        return hidden

    def argv(self, argv: Iterable[str]) -> list[str]:
        """Return the arguments, each redacted by itself."""
        return [self.text(argument) for argument in argv]

    def value(self, value: Any) -> Any:
        """Return a copy of a JSON-like value with every text in it redacted, keys included.

        A text under a key is also searched as `key="text"`, to catch `{"password": "..."}`.
        """
        copier = Copier(self._marks_secret)
        copy = copier.copy(value)
        # In the common case one scan over all texts of a tool call, in place of one for each.
        return copy if self._are_clean(copier.seen, copier.names) else self._redact_value(value, "", 0)

    def record(self, fields: Mapping[str, Any], *texts: str | None) -> list[Any]:
        """Return what `value` does of flat fields with short names, and of texts; the copying costs a quarter."""
        copy, seen = dict(fields), [text for text in texts if text is not None]
        names: list[str] = []  # `list[str]()` takes ten times as long
        for name, value in copy.items():
            (names if is_plain_name(name) else seen).append(name)
            if type(value) is str:
                seen.append(searched_text(name, value) if name and self._marks_secret(name) else value)
        return [copy, *texts] if self._are_clean(seen, names) else self._redact_value([copy, *texts], "", 0)

    def _are_clean(self, texts: Sequence[str], names: Sequence[str]) -> bool:
        return not (texts or names) or self._is_clean(without_escapes(_NEWLINE.join(texts)), names)

    def _exact_values(self) -> Sequence[tuple[str, str]]:
        """Return the name and text of each value that must not be shown."""
        own = _forms_of(own_passwords())
        return (*self._values, *own) if self._values else own

    def _is_clean(self, text: str, names: Sequence[str] = ()) -> bool:
        """Return whether nothing in `text`, and in names that no built-in rule matches, can be a secret.

        False may be a false alarm.
        """
        exact = self._exact_values()
        if _added or exact:
            whole = _NEWLINE.join((text, *names))
            if any(value in whole for _, value in exact) or any(rule.pattern.search(whole) for rule in _added):
                return False
        if holds_nothing(text):
            return True
        read = margins.read(text)
        heads = None if kubernetes.may_hold(read.text) else _heads_alone(read.text, self._scans)
        if not heads:
            return heads is not None
        forms = text.split(_NEWLINE), read.text.split(_NEWLINE)  # tables are read in both
        tables = (columns.is_head(lines[head], self._marks_secret) for lines in forms for head in heads)
        return read.holders is None and not any(tables)

    def _find_given(self, text: str) -> Generator[tuple[int, str]]:
        """Yield the position and rule of each exact value and of each match of a user's rule."""
        for name, value in self._exact_values():
            place = text.find(value)
            while place >= 0:
                yield place, name
                place = text.find(value, place + len(value))
        for rule in _added:
            for match in rule.pattern.finditer(text):
                yield match.start(), rule.name

    def _find_matches(self, text: str) -> Iterable[tuple[int, str]]:
        """Return the position and rule of each match, in order within each scan."""
        return self._scans().find_all(text) if len(text) >= _SHORTEST else ()

    def _redact_value(self, value: Any, key: str, depth: int) -> Any:
        if isinstance(value, str):
            rule = self.rule_of(keyed_text(key, value)) if key and self._marks_secret(key) else None
            return marker(rule) if rule else self.text(value)
        if value is None or isinstance(value, int | float):
            return value
        if is_mapping(value):
            if depth >= MAX_DEPTH:
                return TOO_DEEP
            return {
                self._redact_value(k, "", depth + 1): self._redact_value(v, str(k)[-KEY_CHARS:], depth + 1)
                for k, v in value.items()
            }
        if is_sequence(value):
            return TOO_DEEP if depth >= MAX_DEPTH else [self._redact_value(item, key, depth + 1) for item in value]
        return value


@lru_cache(maxsize=1)  # each text is searched for them
def _forms_of(passwords: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(("password", form) for password in passwords for form in decoded_forms(password))


def _last_lines(text: str) -> str:
    """Return the last lines of a text, each with its end; of a long first one only its end."""
    recent = f"{text[-_RECENT:]}\n"
    recent = recent[recent.find(_NEWLINE, 0, _RECENT // 2) + 1 :] if len(text) > _RECENT else recent
    if kubernetes.may_hold(recent):  # its values may stand far below
        return recent
    return _NEWLINE.join(recent.rsplit(_NEWLINE, _RECENT_LINES + 1)[-_RECENT_LINES - 1 :])


def _scans_within(text: str) -> Callable[[], ScanSet]:
    """Return the scans for the parts of a text, however they are decoded before a search."""
    forms = {text, without_escapes(text), without_escapes(text.replace("\\u001b", "\x1b"))}
    read = [margins.read(form).text for form in forms]
    decoded = [encoded_texts.joined(encoded_texts.within(unescaped(text))) for text in read]
    scans = scans_for_text("\n".join([*read, *(margins.read(without_escapes(text)).text for text in decoded), PROBE]))
    return lambda: scans


def _heads_alone(text: str, scans: Callable[[], ScanSet]) -> list[int] | None:
    """Return the numbers of the lines above others that may be heads of tables; None if a built-in rule matches."""
    heads: list[tuple[int, str]] = []
    below = _NEWLINE in text  # a head alone hides nothing
    for match in scans().find_all(text) if len(text) >= _SHORTEST else ():
        if match[1] not in HEADS or (below and match[1] != columns.HEAD):
            return None
        heads.append(match)
    return [number for number, _ in margins.numbered(text.split(_NEWLINE), heads)] if below else []


# A mapping's key is searched together with its text only if it would give away a probe. Few keys do, and a host uses
# the same keys again and again.
@lru_cache(maxsize=4096)
def _marks_secret(key: str) -> bool:
    """Return whether this key can make the text under it a secret."""
    return _names_secret(key, all_scans)


def _names_secret(key: str, scans: Callable[[], ScanSet]) -> bool:
    return bool(_added) or _NEWLINE in key or scans().names_secret(key)


def _key_lines(lines: Sequence[str], blocks: PrivateKeyTracker) -> Generator[int]:
    """Yield the numbers of the lines of private keys, also of a key whose first lines are missing."""
    for number, line in enumerate(lines):
        inside = blocks.inside
        if blocks.consume_line(line):
            yield number
            if not inside and not blocks.inside:
                yield from range(key_start_before(lines, number), number)


_plain = Redactor()
redact_record: Final = _plain.record


def find_secret(text: str) -> str | None:
    """Return the name of a rule that matches a line of `text`, or None."""
    return _plain.rule_of(text)


def redact_text(text: str) -> str:
    """Return `text` with a marker in place of each line that a rule matches."""
    return _plain.text(text)


def redact_value(value: Any) -> Any:
    """Return a copy of a JSON-like value (tool parameters, a result) with every text in it redacted."""
    return _plain.value(value)
