"""The drawing of a turn's states in the docs, walked: each call in each state leads where an arrow does, or nowhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, get_args

import pytest

from tellback import StateConflict, Tellback
from tellback.client.turns import Turn
from tellback.contracts.turns import TurnState
from tests.support.turns import HELLO, deadline_passes, opened, state, store, swept

PAGE: Final = Path(__file__).parents[2] / "docs" / "loops" / "turns.md"
ARROWS: Final = re.findall(r"^  (\w+) --> (\w+): (.+)$", PAGE.read_text("utf-8"), re.MULTILINE)
LEADS: Final = {(source, call): target for source, target, label in ARROWS for call in label.split(", ")}
STATES: Final[tuple[str, ...]] = get_args(TurnState)


def _overdue(tb: Tellback, turn: Turn) -> None:
    if state(turn) in {"open", "finishing"}:
        deadline_passes(tb, turn)
    swept(tb)


CALLS: Final[dict[str, Callable[[Tellback, Turn], object]]] = {
    "respond": lambda _, turn: turn.respond(HELLO),
    "fail": lambda _, turn: turn.fail(code="x"),
    "finish": lambda tb, turn: store(tb).mark_finishing(turn.ref, 60_000),
    "no_reply": lambda _, turn: turn.no_reply(reason="meant"),
    "merge_turns": lambda tb, turn: tb.merge_turns([turn], into=opened(tb)),
    "overdue": _overdue,
    "progress": lambda _, turn: turn.progress(),
    "defer": lambda _, turn: turn.defer(seconds=60),
    "hand_over": lambda _, turn: turn.hand_over(to="host-2"),
}
WAYS: Final = {
    "open": "progress",
    "auto": "progress",
    "finishing": "finish",
    "responded": "respond",
    "fallback": "overdue",
    "no_reply": "no_reply",
    "merged": "merge_turns",
}


def test_the_drawing_has_the_states_and_the_calls_that_there_are() -> None:
    assert {name for source, target, _ in ARROWS for name in (source, target)} == set(STATES)
    assert {call for _, call in LEADS} - {"in time"} <= CALLS.keys()


@pytest.mark.parametrize("call", sorted(CALLS))
@pytest.mark.parametrize("begin", STATES)
def test_each_call_leads_where_the_drawing_says(tb: Tellback, begin: str, call: str) -> None:
    turn = opened(tb, metadata={"auto.mode": begin == "auto"})
    CALLS[WAYS[begin]](tb, turn)
    assert state(turn) == begin
    with suppress(StateConflict):
        CALLS[call](tb, turn)
    assert state(turn) == LEADS.get((begin, call), begin)
