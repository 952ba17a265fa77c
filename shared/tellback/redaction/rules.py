"""The rules, ready for searching: a few scans, each one expression, so that a text is read a fixed number of times."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import cache, cached_property
from typing import Final, NamedTuple

from tellback.redaction import assignments, forms, tokens
from tellback.redaction.glance import Glance, has_any

# The source document's five (runtime-feedback-loops, "Redact at write, not at read"), as it has them.
SOURCE_RULES: Final = (
    ("bearer", "^Bearer "),
    ("password", "password="),
    ("api-key", "api[_-]?key="),
    ("aws-access-key", "AKIA[0-9A-Z]{16}"),
    ("slack-token", "xox[baprs]-"),
)
_CHANGES: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|\d[A-Za-z]|[A-Za-z]\d")
_NOTHING: Final = ("\0",)  # a gate for what is not to be looked for
_DIGIT: Final = re.compile("[0-9]")
_VALUE: Final = re.compile(r"[\w+/.~=%-]{8,80}")


class Rule(NamedTuple):  # no dataclass: importing those costs a short-lived process more than all of this
    """A rule that a user adds: what a secret looks like within one line."""

    name: str
    pattern: re.Pattern[str]


class Trie:
    """Rules by the characters of the prefix that what they look for begins with."""

    def __init__(self) -> None:
        """Begin without any."""
        self.rules: list[tuple[str, str]] = []
        self.below: dict[str, Trie] = {}

    def add(self, prefix: str, rule: tuple[str, str]) -> None:
        """Put a rule below its prefix."""
        node = self
        for character in prefix:
            node = node.below.setdefault(character, Trie())
        node.rules.append(rule)


class _Form:
    """The one expression of a scan, with the rule and the doubt of each group that ends a match."""

    def __init__(self, rules: Iterable[tuple[str, str]], trie: Trie | None) -> None:
        self.names: dict[int, str] = {}
        self.doubts: dict[int, range] = {}
        self.at_end: set[int] = set()
        self._groups = 0
        parts = [self._rule(name, pattern) for name, pattern in rules]
        parts += [f"(?<![0-9A-Za-z]){self._branches(trie)}"] if trie else []
        self.pattern = re.compile("|".join(parts), re.MULTILINE)

    def _rule(self, name: str, pattern: str) -> str:
        doubtful = pattern.count(assignments.DOUBT)
        self._groups += doubtful + 1
        self.names[self._groups] = name
        if doubtful:
            self.doubts[self._groups] = range(self._groups - doubtful, self._groups)
        if forms.AT_END in pattern:
            self.at_end.add(self._groups)
        return pattern.replace(assignments.DOUBT, "()").replace(forms.AT_END, "") + "()"

    def _branches(self, trie: Trie) -> str:
        """An alternation that looks at each character of the prefixes once."""
        parts = [re.escape(first) + self._branches(below) for first, below in sorted(trie.below.items())]
        parts += [self._rule(name, pattern) for name, pattern in trie.rules]
        return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


class Scan:
    """One pass over a text that finds the places of several rules.

    An empty group ends each pattern, so that the last group of a match tells the rule. Where a pattern says `DOUBT`, a
    value begins of which only `looks_random` can tell whether it is a secret.
    """

    def __init__(
        self,
        rules: Iterable[tuple[str, str]] = (),
        *,
        trie: Trie | None = None,
        needs: Sequence[str] = (),
        need: str = "",
        gate: Sequence[str] = (),
        gate_without_runs: Sequence[str] | None = None,
        mixed: bool = False,
        else_needs: Sequence[str] | None = None,
    ) -> None:
        """Take rules as pairs of name and pattern, or as a trie of prefixes.

        A text that has none of the texts `needs`, or no match of the pattern `need`, has no match. It has to have a
        text of the `gate`, too, or of `gate_without_runs` where it has no run of token characters; with `mixed`, a run
        with digits. With `else_needs` the whole match lies in such a run, unless the text has one of those. Nothing is
        compiled before a text is searched, and nothing of what a process never needs.
        """
        self._rules = tuple(rules)
        self._trie = trie
        self._gate = gate
        self._gate_without_runs = gate if gate_without_runs is None else gate_without_runs
        self._mixed = mixed
        self._else_needs = else_needs
        self._needs = needs
        self._needed = need

    @cached_property
    def _need(self) -> Callable[[str], object] | None:
        return re.compile(self._needed).search if self._needed else None

    @cached_property
    def _form(self) -> _Form:
        return _Form(self._rules, self._trie)

    @cached_property
    def _search(self) -> Callable[..., object]:
        return self._form.pattern.search

    def clean(self, folded: str) -> bool:
        """Whether no rule matches; False also where one might, for a value in doubt."""
        return not self._may(folded) or not self._search(folded)

    def _may(self, folded: str) -> bool:
        if self._needs and not has_any(folded, self._needs):
            return False
        return self._need is None or self._need(folded) is not None

    def clean_by(self, glance: Glance, folded: str) -> bool:
        """As `clean`, of a short text that was looked at."""
        if self._mixed and not glance.mixed():
            return True
        gate = self._gate if glance.runs else self._gate_without_runs
        if gate and not has_any(folded, gate):
            return True
        if self._else_needs is None or has_any(folded, self._else_needs):
            return self.clean(folded)
        if glance.few:
            return not any(self._search(folded, start, end) for start, end in glance.runs)
        return self.clean(folded)

    def found(self, folded: str, text: str) -> Generator[tuple[int, str]]:
        """Place and rule of each hit in `folded`; `text` is the same with its capitals, for those in doubt."""
        if not self._may(folded):
            return
        names, doubts = self._form.names, self._form.doubts
        for match in self._form.pattern.finditer(folded):
            index = match.lastindex or 0
            if all(match.start(doubt) < 0 or looks_random(text, match.start(doubt)) for doubt in doubts.get(index, ())):
                yield match.end() - 1 if index in self._form.at_end else match.start(), names[index]


def looks_random(text: str, start: int) -> bool:
    """Whether the value that begins there changes between letters, capitals and digits as words and names do not."""
    value = _VALUE.match(text, start)
    if value is None:
        return False
    # A name has capitals, too, `ListOfThings`: where there is no digit, more changes are asked for.
    least = len(value[0]) // (7 if _DIGIT.search(value[0]) else 4)
    return len(_CHANGES.findall(value[0])) >= max(3, least)


class Scans(NamedTuple):
    """All passes: `plain` over the text, `folded` over it in small letters."""

    plain: tuple[Scan, ...]
    folded: tuple[Scan, ...]


@cache
def scans() -> Scans:
    """Every rule; one that no text calls for is never compiled."""
    return scans_within(None)


def scans_within(text: str | None) -> Scans:
    """Every rule that can match in `text` or a part of it: a process that reads no other text saves compiling the rest.

    Only the rules of tokens by their prefix are many enough for that to matter.
    """
    prefixed = Trie()
    for name, rest, prefixes in tokens.PREFIXED:
        for prefix in prefixes.split():
            if text is None or prefix in text:
                prefixed.add(prefix, (name, rest))
    return Scans(
        plain=(
            Scan((*tokens.HEADERS, *tokens.CAPITAL), else_needs=tokens.NO_RUN),
            Scan(tokens.SLACK, needs=("xox",)),
            Scan(tokens.CARGO, needs=("cio",), else_needs=()),
            Scan(tokens.MARKED, else_needs=()),
            Scan(forms.CAMEL, needs=forms.CAMEL_HAVE, gate_without_runs=_NOTHING),
            *((Scan(trie=prefixed, need=tokens.PREFIXED_NEED, else_needs=()),) if prefixed.below else ()),
        ),
        folded=(
            Scan(assignments.PASSWORD),
            Scan(assignments.NAMED_SECRET),
            Scan(assignments.NAMED_TOKEN),
            Scan(assignments.NAMED_KEY),
            Scan(assignments.SECRET, gate=assignments.SECRET_HAS),
            Scan(
                assignments.FORMS,
                needs=assignments.FORMS_NEED,
                gate=assignments.FORMS_HAVE,
                gate_without_runs=assignments.FORMS_HAVE_SHORT,
            ),
            Scan(assignments.FLAGS, need=assignments.FLAGS_NEED, gate=("--", " -")),
            Scan(assignments.PLACES, needs=assignments.PLACES_NEED, gate=("@",)),
            Scan(assignments.SPACED, need=assignments.SPACED_NEED, gate=assignments.SPACED_HAVE),
            Scan(forms.WORDS, gate=("pass",)),
            Scan(forms.PAIRS, needs=forms.PAIR_HAS),
            Scan(forms.BARE, needs=forms.BARE_NEED, gate_without_runs=_NOTHING),
            Scan(forms.SPOKEN, needs=forms.SPOKEN_NEED),
            Scan(forms.RARE, needs=forms.RARE_NEED),
            Scan(forms.LONG, needs=forms.LONG_NEED, gate_without_runs=_NOTHING),
            Scan(forms.TABLE, needs=("|",), need=forms.TABLE_NEED),
            Scan(forms.PGPASS, need=forms.PGPASS_NEED, gate=(":",)),
            Scan(forms.COMMANDS, needs=forms.COMMANDS_NEED, gate=(" -", "pass")),
            Scan(assignments.ISSUED, need=assignments.ISSUED_NEED, mixed=True),
        ),
    )
