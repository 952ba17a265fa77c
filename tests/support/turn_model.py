"""A turn and a delivery as they should be, for the state machine of turns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tellback.client.turns import Turn

PAGE = Path(__file__).parents[2] / "docs" / "loops" / "turns.md"
DRAWN = frozenset(re.findall(r"^  (\w+) --> (\w+): ", PAGE.read_text("utf-8"), re.MULTILINE))


@dataclass
class Sent:
    """A delivery as it should stand in its queue."""

    key: str
    kind: str
    text: str | None
    touched: bool = False  # a transport has it, or may have sent it
    lapsed: bool = False  # an earlier taker never said what it did
    final: bool = False


@dataclass
class Owed:
    """A turn as it should be."""

    turn: Turn
    state: str
    overdue: bool = False
    late: bool = False
    host: str | None = None  # the one that it was handed over to
    into: tuple[str, str] | None = None
    posted: list[str] = field(default_factory=list[str])

    def becomes(self, state: str) -> None:
        """Move to a state by a step that the documentation draws."""
        assert (self.state, state) in DRAWN
        self.state = state
