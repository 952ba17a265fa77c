"""Secrets in what real tools print, and clean output of the same tools, of two sets of data.

`tests/data/outputs` and the later `tests/data/named_apart` were each written before their writer had read a rule that
they test.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.secrets_apart import SecretSample

_DATA: Final = Path(__file__).parent.parent / "data"
OUTPUTS: Final = _DATA / "outputs"
NAMED_APART: Final = _DATA / "named_apart"
_SLOT: Final = re.compile("⟪(.*?)⟫|⟦(.*?)⟧")
_SIGNS: Final = str.maketrans({"␛": "\x1b", "␀": "\0"})
_PARSER: Final[Any] = import_module("re._parser")


class NamedKind(NamedTuple):
    """One kind of secret; `bare` says that its form alone gives it away."""

    name: str
    pattern: str
    words: str
    bare: bool


def named_kinds(folder: Path = OUTPUTS) -> Iterator[NamedKind]:
    """Return every kind of the data file."""
    for line in _lines(folder / "kinds.txt"):
        name, pattern, words = line.removeprefix("* ").split(" | ")
        yield NamedKind(name, pattern, words, bare=line.startswith("* "))


def in_forms(seed: int, folder: Path = OUTPUTS) -> Iterator[tuple[NamedKind, SecretSample]]:
    """Return one sample for each kind and each form that it can have."""
    rng, forms = random.Random(seed), list(_blocks(folder / "forms.txt"))
    for kind in named_kinds(folder):
        for title, template in forms:
            form = title.removesuffix(" *")
            if kind.bare or form == title:
                secret = drawn(rng, kind.pattern)
                around, _ = _rendered(rng, template)
                yield kind, SecretSample(kind.name, form, secret, _filled(around, kind, secret))


def printed_by_tools(seed: int, folder: Path = OUTPUTS) -> Iterator[SecretSample]:
    """Return one sample for each secret in each output."""
    rng = random.Random(seed)
    for title, template in _blocks(folder / "secrets.txt"):
        text, secrets = _rendered(rng, template)
        for secret in secrets:
            yield SecretSample("printed", title, secret, text)


def clean(seed: int, times: int, folder: Path = OUTPUTS) -> Iterator[tuple[str, str]]:
    """Return titles and texts that hold no secret, each so many times."""
    rng = random.Random(seed)
    for title, template in _blocks(folder / "clean.txt"):
        for _ in range(times):
            yield title, _rendered(rng, template)[0]


def _lines(file: Path) -> Iterator[str]:
    text = file.read_text("utf-8")
    return (line for line in text.split("\n")[1:] if line)


def _blocks(file: Path) -> Iterator[tuple[str, str]]:
    """Return title and text of each block; "### " begins a title."""
    text = file.read_text("utf-8").translate(_SIGNS)
    for block in text.split("\n### ")[1:]:
        title, _, template = block.partition("\n")
        yield title, template.rstrip("\n") + "\n"


def _rendered(rng: random.Random, template: str) -> tuple[str, list[str]]:
    secrets: list[str] = []

    def fill(slot: re.Match[str]) -> str:
        text = drawn(rng, slot[1] or slot[2])
        if slot[1]:
            secrets.append(text)
        return text

    return _SLOT.sub(fill, template), secrets


def _filled(template: str, kind: NamedKind, secret: str) -> str:
    parts = kind.name.lower().split("_")
    titled = [part.title() for part in parts]
    names = {
        "NAME": kind.name,
        "name": kind.name.lower(),
        "kebab": "-".join(parts),
        "camel": parts[0] + "".join(titled[1:]),
        "Pascal": "".join(titled),
        "Train": "-".join(titled),
        "words": kind.words,
        "v": secret,
    }
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), template)


def drawn(rng: random.Random, pattern: str) -> str:
    """Return one text that the regular expression matches."""
    return "".join(_drawn(rng, _parsed(pattern)))


@cache
def _parsed(pattern: str) -> Sequence[tuple[str, Any]]:
    return _prepared(_PARSER.parse(pattern))


def _prepared(items: Iterable[tuple[object, Any]]) -> Sequence[tuple[str, Any]]:
    """Return the operations of a pattern, each set of characters as one text: 35,000 draws need them again."""
    found: list[tuple[str, Any]] = []
    for operation, argument in items:
        match str(operation):
            case "LITERAL":
                found.append(("LITERAL", chr(argument)))
            case "IN":
                found.append(("IN", "".join(_members(argument))))
            case "MAX_REPEAT":
                least, most, repeated = argument
                found.append(("MAX_REPEAT", (least, most, _prepared(repeated))))
            case "SUBPATTERN":
                found.append(("SUBPATTERN", _prepared(argument[3])))
            case "BRANCH":
                found.append(("BRANCH", [_prepared(branch) for branch in argument[1]]))
            case other:
                raise ValueError(other)
    return found


def _drawn(rng: random.Random, items: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for operation, argument in items:
        match operation:
            case "LITERAL":
                yield argument
            case "IN":
                yield rng.choice(argument)
            case "MAX_REPEAT":
                least, most, repeated = argument
                for _ in range(rng.randint(least, most)):
                    yield from _drawn(rng, repeated)
            case "SUBPATTERN":
                yield from _drawn(rng, argument)
            case _:  # BRANCH
                yield from _drawn(rng, rng.choice(argument))


def _members(items: Iterable[tuple[object, Any]]) -> Iterator[str]:
    for operation, argument in items:
        first, last = argument if str(operation) == "RANGE" else (argument, argument)
        yield "".join(map(chr, range(first, last + 1)))
