"""`lexicon.toml`: the words that observations know."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

import msgspec

from tellback.contracts.guidance import Code


class _Tools(msgspec.Struct, frozen=True):
    look_up: str
    act: str
    no_search: str


class _Fields(msgspec.Struct, frozen=True):
    lists: str
    found: str
    answers: str
    beside_results: str
    counts: str
    beside_error: str


class _File(msgspec.Struct, frozen=True):
    stop: dict[str, str]
    endings: dict[str, str]
    alike: dict[str, str]
    tools: _Tools
    fields: _Fields
    exceptions: dict[Code, str]
    said: dict[Code, str]
    challenges: dict[str, str]


class Lexicon(msgspec.Struct, frozen=True):
    """The file's lists as sets, and tables by word."""

    stop: frozenset[str]
    endings: tuple[str, ...]
    alike: dict[str, tuple[str, ...]]
    looks_up: frozenset[str]
    acts: frozenset[str]
    no_search: frozenset[str]
    lists: frozenset[str]
    found: frozenset[str]
    answers: frozenset[str]
    beside_results: frozenset[str]
    counts: frozenset[str]
    beside_error: frozenset[str]
    exceptions: dict[str, Code]
    said: dict[Code, tuple[str, ...]]
    challenges: tuple[str, ...]


@cache
def lexicon() -> Lexicon:
    """Read once, when the first tool call is observed."""
    raw = (files("tellback.guidance.observations") / "lexicon.toml").read_text("utf-8")
    file = msgspec.convert(tomllib.loads(raw), _File)
    endings = {ending for text in file.endings.values() for ending in text.split()}
    return Lexicon(
        stop=frozenset(word for text in file.stop.values() for word in text.split()),
        endings=tuple(sorted(sorted(endings), key=len, reverse=True)),
        alike={word: tuple(text.split()) for word, text in file.alike.items()},
        looks_up=frozenset(file.tools.look_up.split()),
        acts=frozenset(file.tools.act.split()),
        no_search=frozenset(file.tools.no_search.split()),
        lists=frozenset(file.fields.lists.split()),
        found=frozenset(file.fields.found.split()),
        answers=frozenset(file.fields.answers.split()),
        beside_results=frozenset(file.fields.beside_results.split()),
        counts=frozenset(file.fields.counts.split()),
        beside_error=frozenset(file.fields.beside_error.split()),
        exceptions={name: code for code, names in file.exceptions.items() for name in names.split()},
        said={code: _phrases(text) for code, text in file.said.items()},
        challenges=tuple(phrase for text in file.challenges.values() for phrase in _phrases(text)),
    )


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(phrase for part in text.split("|") if (phrase := " ".join(part.split())))
