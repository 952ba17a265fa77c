"""The rules compiled into scans, each one regular expression, so that a text costs little more than reading it.

Python's `re` tries alternatives at 10 to 20 nanoseconds a character. So nearly every rule begins with a fixed text, its
anchor, and the rules of one anchor are one scan, which a text without the anchor does not need: `substrings` decides
that at a twentieth of a nanosecond. What has no anchor are tokens with a form of their own: those lie within a long run
of token characters, which `bytes.translate` and `find` show, and only the runs are searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from functools import cache
from typing import Final

from tellback.light_struct import LightStruct
from tellback.redaction import (
    assignments,
    codes,
    columns,
    command_lines,
    encoded_texts,
    forms,
    kubernetes,
    layouts,
    links,
    lone_passwords,
    lone_tokens,
    made_passwords,
    margins,
    phrases,
    printed,
    signed_passwords,
    tokens,
)
from tellback.redaction.compiled_scans import CompiledScan, Row
from tellback.redaction.escapes import unescaped, without_escapes
from tellback.redaction.random_values import issued_windows, may_be_issued, near_random
from tellback.redaction.substrings import (
    Findable,
    Located,
    Searchable,
    findable_if_rare,
    fold_ascii,
    located,
    next_match,
    searchable,
)
from tellback.redaction.token_runs import TOKEN, NearDigits, TokenRuns, Window, add_window, has_run, lacks_digits
from tellback.redaction.values import DOUBT, NAMES, AnchoredRule, repeats_name, seems_random

HEADS: Final = (columns.HEAD, codes.HEAD)  # say where to look, and hide nothing by themselves
PROBE: Final = "x1Y2z3a4B5c6d7e8f9"  # as the value of a secret; a name without a secret does not hide it

_FEW: Final = 60  # characters; a shorter text lacks the rarest character of most anchors, which need no search then
_RARE_FIRST: Final = "zqjxkvbywgpfmucdlhrsnioate "  # what is not a letter is rarer still

# Before a token with a prefix. Most words are shorter than any, and `re` need not try prefixes. Of ASCII alone, as
# tokens are: to compile a class with all other characters took 2 of the 50 ms of a hook.
_BEFORE_PREFIX: Final = rf"[^0-9A-Za-z](?=[0-9A-Za-z$][0-9A-Za-z_+/=%.~!$|:@-]{{{TOKEN - 1}}})"
_NO_PLACEHOLDER: Final = "(?![xX]{8})"  # `ghp_xxxxxxxx…`, as documents have it
_LONGEST_HEAD: Final = 1_000  # characters of a line that heads a table


# The five fixed patterns, always in force. Requirement A-56.
SOURCE_RULES: Final = (
    ("bearer", "^Bearer "),
    ("password", "password="),
    ("api-key", "api[_-]?key="),
    ("aws-access-key", "AKIA[0-9A-Z]{16}"),
    ("slack-token", "xox[baprs]-"),
)


class Rule(LightStruct):
    """A rule that a user adds: a name, and the pattern of a secret within one line."""

    name: str
    pattern: re.Pattern[str]


class Scan:
    """One pass over a text that finds the matches of several rules.

    Each pattern ends with an empty group, so the last group of a match identifies the rule. `DOUBT` in a pattern marks
    the start of a value that counts as a secret only if `seems_random` says so.
    """

    def __init__(
        self, anchor: str = "", rules: Iterable[Row] = (), *, trie: tokens.Trie | None = None, after: str = ""
    ) -> None:
        """Store the rules, of which each match begins with `anchor`, and compile nothing yet.

        A short-lived process compiles only the scans that its texts need. `after` is the pattern of the character
        before each match. It is searched for too: `re` skips what is not in a class twenty times as fast as it tries
        the first letters of hundreds of words.
        """
        self.anchor = anchor
        self._after = after
        # Those that need no second look first: where one of them matches, the value of another need not be random.
        self._rules = sorted(rules, key=lambda row: (DOUBT in row[1], row[2]))
        self._trie = trie
        self._built: CompiledScan | None = None

    @property
    def _compiled(self) -> CompiledScan:
        # No `cached_property`: in Python 3.11 it has one lock for all scans, which stays locked in a process that is
        # forked while another thread compiles one.
        if self._built is None:
            self._built = CompiledScan(self._after or re.escape(self.anchor), self._rules, self._trie)
        return self._built

    @property
    def pattern(self) -> str:
        """The text of the regular expression."""
        return self._compiled.pattern

    def may_match(self, text: str) -> bool:
        """Return whether a match is in the text, whose value need not be random."""
        return self._compiled.regex.search(text) is not None

    def find_all(
        self, folded: str, text: str, windows: Iterable[Window] | None = None, places: Findable | None = None
    ) -> Generator[tuple[int, str]]:
        """Yield the position and rule of each match in `folded`; `text` has the capitals, to decide doubtful values.

        With `places` only those of the anchor that it finds are tried, one by one.
        """
        shift = 1 if self._after else 0  # of what is searched, for a match where the text begins
        searched = f"\n{folded}" if shift else folded
        compiled = self._compiled
        search = compiled.regex.search
        for start, end in windows if windows is not None else ((0, len(folded)),):
            if self.anchor and (places or folded).find(self.anchor, start, end) < 0:
                continue  # most windows lack it, which `find` shows in a third of the time
            while match := (
                search(searched, start, end + shift)
                if places is None
                else next_match(compiled.regex, self.anchor, searched, (start, end), places)
            ):
                index = match.lastindex or 0
                start = max(match.end() - shift, match.start() + 1)  # noqa: PLW2901 - the window is used up
                doubtful = _no_value(text, match, compiled.doubts.get(index, ()), shift)
                if doubtful is None:
                    # One with `after` begins with the character before it, and so at its own place in the text.
                    yield match.end() - 1 - shift if index in compiled.at_end else match.start(), compiled.names[index]
                elif self.anchor and (again := folded.find(self.anchor, max(doubtful, match.start() + 1), start)) >= 0:
                    start = again  # noqa: PLW2901 - what was taken for a value is a name: `set DB_PASSWORD⏎DB_PASSWORD=…`


def _no_value(text: str, match: re.Match[str], doubts: Iterable[int], shift: int) -> int | None:
    """Return where the first value begins that is none, since it is not random or repeats its name, or None."""
    for doubt in doubts:  # not by a generator, which took half of the time of a match
        start = match.start(doubt)
        if start >= 0 and not seems_random(text, start - shift):
            return start - shift
    return match.start() if repeats_name(match.string, match.start(), match.end()) else None


Anchored = dict[str, Scan]  # by the text with which each match begins


class ScanSet(LightStruct):
    """All scans: `tokens` of runs, `plain` for the text itself, the others for it in lower case."""

    tokens: tuple[Scan, ...]
    short_tokens: tuple[Scan, ...]  # as `tokens`, for a text without a long word
    plain: Anchored
    phrases: Anchored
    sentences: Anchored
    random: Anchored  # as `sentences`, the rules of which each value seems random
    issued: tuple[Scan, ...]
    folded: Anchored
    near_digits: Anchored  # of `folded`, the rules that need a digit
    anywhere: Anchored  # the others

    def find_all(self, text: str) -> Generator[tuple[int, str]]:
        """Yield the position and rule of each match in `text`, also of those in what it holds in base64."""
        spaced = unescaped(text)
        runs = TokenRuns(spaced)
        yield from self._find_plain(text, spaced, runs)
        if runs.some:
            yield from self._find_encoded(spaced, runs.once)

    def _find_encoded(self, text: str, once: str | None) -> Generator[tuple[int, str]]:
        """Yield the position and rule of each line of base64 with a match; what is encoded twice stays."""
        if not (encoded := list(encoded_texts.within(text, once))):
            return
        read = margins.read(without_escapes(encoded_texts.joined(encoded)))
        spaced = unescaped(read.text)
        found = [*self._find_plain(read.text, spaced, TokenRuns(spaced))]
        texts = [index for index, (_, decoded) in enumerate(encoded) for _ in range(decoded.count("\n") + 1)]
        lines = read.text.split("\n")
        numbered = margins.numbered(lines, found)
        if heads := sorted({number for number, rule in numbered if rule == columns.HEAD}):
            rows, _ = columns.value_lines(lines, heads, None, self.names_secret)
            numbered += ((row, columns.RULE) for row in rows)
        # One for each text, which may hold a thousand secrets, and stand on a thousand lines.
        hidden = {texts[number]: rule for number, rule in reversed(read.held(numbered)) if rule not in HEADS}
        for index, (places, decoded) in enumerate(encoded):
            rule = kubernetes.RULE if kubernetes.holds_values(decoded) else hidden.get(index)
            yield from ((place, rule) for place in places if rule)

    def names_secret(self, name: str) -> bool:
        """Return whether a random value under this name, of a column or a mapping, is a secret."""
        return any(rule not in HEADS for _, rule in self.find_all(margins.read(f'{name}="{PROBE}"').text))

    def _find_plain(self, text: str, spaced: str, runs: TokenRuns) -> Generator[tuple[int, str]]:
        """Yield the position and rule of each match in a text as it stands."""
        if runs.some:
            yield from self._find_tokens(spaced, text, runs)
        yield from ((place, "application-password") for place in runs.grouped)
        folded = fold_ascii(text)
        if len(folded) <= _FEW and not runs.named and "\\" not in text and not has_anchor(folded):
            return
        within = located(spaced)
        for scan in _present(self.plain, within):
            yield from scan.find_all(spaced, text, places=findable_if_rare(scan.anchor, within, len(text)))
        if signs := [sign for sign in signed_passwords.SIGNS if sign in within]:
            yield from ((place, "password") for place in signed_passwords.places(spaced, signs))
        within = located(folded)
        present = _present(self.folded, within)
        digits = NearDigits(folded, within) if lacks_digits(folded) else None
        for scan in present:
            places = findable_if_rare(scan.anchor, within, len(text))
            if digits is None or scan.anchor not in self.near_digits:
                yield from scan.find_all(folded, text, places=places)
            else:
                yield from self.anywhere[scan.anchor].find_all(folded, text, places=places)
                yield from self.near_digits[scan.anchor].find_all(folded, text, places=digits)
        if any(scan.anchor in self.phrases for scan in present) or any(name in within for name in made_passwords.NAMES):
            yield from self._find_phrases(spaced, folded, within)
        if names := [name for name in lone_passwords.NAMES if name in within]:
            yield from ((place, "password") for place in lone_passwords.places(text, folded, within, names))
        if runs.named:
            yield from self._find_near(folded, text, runs.named, within)
        # Without a row and such a value, only a table that goes on in the next piece of a stream matters.
        start = 0 if runs.named and "\n" in folded else max(0, len(folded) - _LONGEST_HEAD)
        yield from ((place, columns.HEAD) for place in columns.head_places(folded, within, start))

    def _find_tokens(self, spaced: str, text: str, runs: TokenRuns) -> Generator[tuple[int, str]]:
        """Yield the matches of tokens with a form of their own."""
        joined = runs.each_once(spaced)
        for scan in self.tokens if runs.hold_long_word() else self.short_tokens:
            if joined is None or scan.may_match(joined):
                yield from scan.find_all(spaced, text, runs.runs)

    def _find_phrases(self, text: str, folded: str, within: Located) -> Generator[tuple[int, str]]:
        """Yield the matches of rules of passwords with a phrase for a value."""
        text, phrased, made = phrases.randomised(text, folded, within)
        if not phrased:
            return
        folded = fold_ascii(text)
        windows: list[Window] = []
        for start, end in phrased:
            add_window(windows, start, min(len(folded), end + 80))
        near = searchable("\n".join(folded[start:end] for start, end in windows))
        for scan in _present(self.phrases, near):
            yield from scan.find_all(folded, text, windows)
        for start, end in {(text.rfind("\n", 0, word) + 1, text.find("\n", word)) for word in made}:
            for place in lone_passwords.places_in_line(text[start : end if end >= 0 else len(text)]):
                yield start + place, "password"

    def _find_near(self, folded: str, text: str, values: list[Window], within: Located) -> Generator[tuple[int, str]]:
        """Yield the matches near long values with a digit, of rules that need one."""
        # Most anchors are in no window: to search all windows at once costs less than a call for each.
        near = searchable("\n".join(folded[start:end] for start, end in values))
        random = _present(self.random, near)
        judged = near_random(text, values, sum(within.count(scan.anchor) for scan in random))
        # Random ones last: these look at lines above too, and a stream that has not got them is to name the same rule.
        for scans, windows in (_present(self.sentences, near), values), (random, judged):
            for scan in scans:
                yield from scan.find_all(folded, text, windows, findable_if_rare(scan.anchor, within, len(text)))
        yield from ((place, "secret-assignment") for place in lone_tokens.places(text, folded, within))
        if self.issued and may_be_issued(folded, within):
            windows = issued_windows(folded)
            for scan in self.issued:
                yield from scan.find_all(folded, text, windows)


def _present(scans: Anchored, within: Searchable) -> list[Scan]:
    """Return the scans whose anchor is in the text."""
    return [scan for anchor, scan in scans.items() if anchor in within]


@cache
def all_scans() -> ScanSet:
    """Return the scans of every rule; each compiles at its first use."""
    return _scans(lambda _: True, lambda _: True)


def scans_for_text(text: str) -> ScanSet:
    """Return the scans of the rules whose fixed text occurs in `text`, which suffice for it and for its parts.

    A process that reads no other text does not compile the rest.
    """
    return _scans(cache(searchable(text).__contains__), cache(searchable(fold_ascii(text)).__contains__))


_PLAIN: Final = (*tokens.SHORT, *tokens.PLAIN, *forms.CAMEL)
_FOLDED: Final = (
    *assignments.RULES,
    *forms.RULES,
    *command_lines.RULES,
    *printed.RULES,
    *codes.RULES,
    *links.RULES,
)
# In a long text that is mostly without digits, these are tried only near one.
NEAR_DIGITS: Final = (*forms.NEAR_DIGITS, *printed.NEAR_DIGITS, *codes.NEAR_DIGITS, *layouts.NEAR_DIGITS)
_RANDOM: Final = (*forms.RANDOM, *layouts.RANDOM, *printed.RANDOM)
_NEAR: Final = (*forms.SENTENCES, *layouts.RULES, *printed.NEAR_VALUES, *links.NEAR_VALUES)
_OF_ANY_WORDS: Final = frozenset({" -p", "use ", "with "})  # after these, words with hyphens name packages and files


def _scans(occurs: Callable[[str], bool], occurs_folded: Callable[[str], bool]) -> ScanSet:
    """Return the scans of the rules whose fixed text occurs, as it stands or in lower case."""
    # A known prefix names the rule, before that of unknown issuers does.
    prefixed = _prefix_scan(tokens.PREFIXED, occurs, after=_BEFORE_PREFIX)
    anywhere = _prefix_scan((*tokens.ANYWHERE, *tokens.OF_LONG_WORDS), occurs)
    issuers = [name for name in assignments.ISSUERS if occurs_folded(name)]
    folded = (*_FOLDED, *NEAR_DIGITS)
    issued = (("issuer-assignment", assignments.issued(issuers), ""),)
    return ScanSet(
        tokens=(*prefixed, *anywhere),
        short_tokens=(*prefixed, *_prefix_scan(tokens.ANYWHERE, occurs)),
        plain=_anchored(_PLAIN, occurs),
        phrases=_anchored(
            (
                rule
                for rule in (*_FOLDED, *NEAR_DIGITS, *_RANDOM, *_NEAR)
                if rule.name == "password" and rule.anchor not in _OF_ANY_WORDS
            ),
            occurs_folded,
        ),
        sentences=_anchored(_NEAR, occurs_folded),
        random=_anchored(_RANDOM, occurs_folded),
        issued=(Scan(rules=issued, after="[^0-9a-z](?=[a-z])"),) if issuers else (),
        folded=_anchored(folded, occurs_folded),
        near_digits=_anchored(NEAR_DIGITS, occurs_folded),
        anywhere=_anchored(_FOLDED, occurs_folded),
    )


def _prefix_scan(
    table: Iterable[tuple[str, str, str]], occurs: Callable[[str], bool], after: str = ""
) -> tuple[Scan, ...]:
    """Return the scan of the prefixes that occur, or none."""
    trie = tokens.Trie()
    for name, rest, prefixes in table:
        for prefix in prefixes.split():
            if occurs(prefix):
                trie.insert(prefix, (name, f"{_NO_PLACEHOLDER}{rest}" if after else rest))
    return (Scan(trie=trie, after=after),) if trie.below else ()


@cache
def _anchors_by_rarest() -> dict[str, list[str]]:
    """Return the anchors for which every text is searched, in lower case, by the rarest character of each."""
    found: dict[str, list[str]] = {}
    anchors = {rule.anchor.lower() for rule in (*_PLAIN, *_FOLDED, *NEAR_DIGITS)}
    anchors.update(columns.WORDS, margins.SIGNS, signed_passwords.SIGNS, lone_passwords.NAMES)
    for anchor in sorted(anchors, key=len):
        same = found.setdefault(min(anchor, key=_RARE_FIRST.find), [])
        if not any(map(anchor.__contains__, same)):  # a text with `secret set` has `secret` too
            same.append(anchor)
    return found


def has_anchor(folded: str) -> bool:
    """Return whether a short text has one of those anchors, or a sign of what is read otherwise than it stands."""
    for character in (anchors := _anchors_by_rarest()).keys() & folded:
        for anchor in anchors[character]:
            if anchor in folded:
                return True
    return False


def holds_nothing(text: str, most: int = _FEW) -> bool:
    """Return True for a short text in which no rule can match: most are told at a third of the cost of a search."""
    # Margins matter not: a line without its beginning has no longer run, and no anchor that it had not before.
    return len(text) <= most and text.isascii() and "\\" not in text and not (has_run(text) or has_anchor(text.lower()))


def _anchored(rules: Iterable[AnchoredRule], occurs: Callable[[str], bool]) -> Anchored:
    """Return a scan for each anchor that occurs, with the rules that begin with it."""
    grouped: dict[str, list[Row]] = {}
    for rule in rules:
        if occurs(rule.anchor):
            rest = rule.rest.replace(NAMES, assignments.names_after(rule.anchor)) if NAMES in rule.rest else rule.rest
            grouped.setdefault(rule.anchor, []).append((rule.name, rest, rule.guard))
    return {anchor: Scan(anchor, found) for anchor, found in grouped.items()}
