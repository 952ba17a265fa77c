"""The regular expression of a scan, made of the patterns of its rules.

It is apart from `rules` since it runs once for each scan of a process, and not for each text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction import tokens
from tellback.redaction.alternations import written_out
from tellback.redaction.values import AT_END, DOUBT, in_tables

_FIRST_LETTERS: Final = lazy_pattern("(?:[a-z](?![?*+{]))*")  # of a pattern, up to one that is repeated
Row = tuple[str, str, str]  # of a scan: the name of a rule, its pattern, its guard


class CompiledScan:
    """The regular expression of a scan, with the rule and the doubtful values of each group that ends a match."""

    def __init__(self, begin: str, rules: Iterable[Row], trie: tokens.Trie | None) -> None:
        self.names: dict[int, str] = {}
        self.doubts: dict[int, range] = {}
        self.at_end: set[int] = set()
        self._groups = 0
        parts: list[str] = []
        written = [(name, written_out(pattern), written_out(guard)) for name, pattern, guard in rules]
        for guard, same in groupby(written, key=lambda row: row[2]):
            if guard:
                patterns = [self._named_group(name, pattern) for name, pattern, _ in same]
                parts.append(f"{guard}(?:{'|'.join(patterns)})")
            else:
                parts.append(self._trie_pattern(_by_first_letters(same)))
        parts += [self._trie_pattern(trie)] if trie else []
        pattern = "|".join(parts)
        self.pattern = in_tables(f"{begin}(?:{pattern})" if begin else pattern)
        self.regex = re.compile(self.pattern, re.MULTILINE)

    def _named_group(self, name: str, pattern: str) -> str:
        doubtful = pattern.count(DOUBT)
        self._groups += doubtful + 1
        self.names[self._groups] = name
        if doubtful:
            self.doubts[self._groups] = range(self._groups - doubtful, self._groups)
        if AT_END in pattern:
            self.at_end.add(self._groups)
        return f"{pattern.replace(DOUBT, '()').replace(AT_END, '')}()"

    def _trie_pattern(self, trie: tokens.Trie) -> str:
        """Return an alternation that reads each character of the prefixes once."""
        # Small letters first: `re` looks at one first letter after the other, and most words begin with a small one.
        ordered = sorted(trie.below.items(), key=lambda item: (not item[0].islower(), item[0]))
        parts = [re.escape(first) + self._trie_pattern(below) for first, below in ordered]
        parts += [self._named_group(name, pattern) for name, pattern in trie.rules]
        return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _by_first_letters(rules: Iterable[Row]) -> tokens.Trie:
    """Return the rules by the letters that their patterns begin with, so that `re` reads those once for all of them."""
    found = tokens.Trie()
    for name, pattern, _ in rules:
        letters = _FIRST_LETTERS.match(pattern)
        end = letters.end() if letters else 0
        found.insert(pattern[:end], (name, pattern[end:]))
    return found
