"""Which records are shown: by kind, directory, command and exit."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from tellback.contracts.commands import CommandRecord

_TERM: Final = re.compile(r"(?:(!=?|<=?|>=?|=)?(-?\d{1,10})|([a-z]+\d*))", re.IGNORECASE)
_SIGNS: Final[dict[str, Callable[[int, int], bool]]] = {
    "": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Kind(IntFlag):
    """What a reviewer looks for; one record may be several."""

    ALL = 1
    FAILED = 2  # an exit that is not 0
    NULL = 4  # no exit
    OPEN = 8  # a failure or null exit that no linked success of the same thing followed
    RETRIES = 16  # linked to another attempt
    SLOW = 32
    CUT = 64  # something was truncated or redacted


@dataclass(frozen=True, slots=True)
class Exits:
    """Exits as a reader writes them: `1`, `!0`, `>1`, `null`, `SIGKILL`, or several of them with commas."""

    tests: tuple[Callable[[CommandRecord], bool], ...] = ()

    def match(self, record: CommandRecord) -> bool:
        """Whether one of them is the record's; without any, each is."""
        return not self.tests or any(test(record) for test in self.tests)


@dataclass(frozen=True, slots=True)
class Filter:
    """What a record must be to be shown; texts are parts, in small letters or not."""

    kind: Kind = Kind.ALL
    directory: str = ""
    command: str = ""
    exits: Exits = Exits()


def parse_exits(text: str) -> Exits:
    """What a reader wrote of exits.

    Raises:
        ValueError: it cannot be read; the message says which part.
    """
    return Exits(tuple(_test(term) for term in re.split(r"[,\s]+", text.strip()) if term))


def _test(term: str) -> Callable[[CommandRecord], bool]:
    found = _TERM.fullmatch(term)
    if found is None:
        raise ValueError(f"no exit: {term}")
    sign, digits, word = found.groups(default="")
    if word:
        if word.lower() == "null":
            return lambda record: record.exit_code is None
        name = f"SIG{word.upper().removeprefix('SIG')}"
        return lambda record: record.signal == name
    number = int(digits)
    if sign.startswith("!"):
        return lambda record: record.exit_code != number  # a null exit is no 0 either
    compare = _SIGNS[sign]
    return lambda record: record.exit_code is not None and compare(record.exit_code, number)
