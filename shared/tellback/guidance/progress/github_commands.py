"""The effect of commands of gh, the client of GitHub: which read, search, wait or change something there."""

from __future__ import annotations

import re
from typing import Final

from tellback.guidance.progress.effects import Effect, words_in

# Verbs that only show something; gh has about four times as many that change something, and gets more of them.
_READS: Final = words_in(
    "list view status diff checks check get token logs ports verify verify-asset browse explain",
    "item-list field-list",
) | {""}
_ALONE: Final = words_in("status browse help version completion")  # they stand where a group of verbs does
_WITH_VALUE: Final = words_in("-R --repo")  # they may stand before the verb, and take the next word
_GETS: Final = re.compile(r"(?:-X|--method=)?(?:GET|HEAD)$")
# By which `gh api` sends something, if no method says that it asks.
_SENDS: Final = re.compile(r"-[fF]|--(?:raw-)?field|--input|(?:-X|--method=)?(?:POST|PUT|PATCH|DELETE)$")
_DOCUMENT: Final = re.compile(r"(?:-[fF]|--(?:raw-)?field=)?query=(.*)", re.DOTALL)
# A file's text is not seen, so it may hold a mutation.
_MAY_CHANGE: Final = re.compile(r"@|.*\bmutation\b", re.DOTALL)


def github_effect(words: tuple[str, ...]) -> Effect:
    """Return the effect of a command of gh."""
    group, verb, *_ = [*_plain(words), "", ""]
    if group == "api":
        return _of_api(words, verb)
    if group == "search" or verb == "search":
        return "search"
    if verb == "watch" or "--watch" in words:
        return "wait"
    lists_branches = verb == "develop" and not {"-l", "--list"}.isdisjoint(words)
    return "read" if group in _ALONE or verb in _READS or lists_branches else "write"


def _plain(words: tuple[str, ...]) -> list[str]:
    after_option = (False, *(word in _WITH_VALUE for word in words))
    return [word for word, value in zip(words, after_option, strict=False) if not value and not word.startswith("-")]


def _of_api(words: tuple[str, ...], address: str) -> Effect:
    documents = [found[1] for word in words if (found := _DOCUMENT.match(word))]
    if "graphql" in (address, *words) and documents:  # it is asked by POST too
        return "write" if any(map(_MAY_CHANGE.match, documents)) else "read"
    if any(map(_GETS.match, words)):
        return "read"
    return "write" if any(map(_SENDS.match, words)) else "read"
