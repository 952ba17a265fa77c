"""Turns that more than one process or message has a part in: joined by their id, handed over, merged.

Source: notes on turns, "a fleet's answer".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from tellback.client.context import Context
from tellback.client.turn_checks import check_name, check_text
from tellback.client.turns import Turn
from tellback.errors import InvalidInput, NotFound
from tellback.state.turns import MAX_MERGED, Turns, TurnView

HANDED_AT_ONCE: Final = 100


def join_turn(context: Context, turn_id: str) -> Turn:
    """The turn of this id, opened by whichever process.

    Raises:
        InvalidInput: not the id of a turn.
        NotFound: turns are kept for seven days.
        Unavailable: Redis is away.
    """
    found = _store(context).load([check_text("turn_id", turn_id, None)])[0]
    if found is None:
        raise NotFound(f"turn {turn_id}: no such turn; turns are kept for seven days")
    return _joined(context, found)


def handed_over(context: Context, to: str | None = None) -> list[Turn]:
    """Open turns that were handed over to a host and are with it still, the longest there first, at most 100.

    Raises:
        InvalidInput: `to` is not text of 1 to 512 bytes.
        Unavailable: Redis is away.
    """
    host = check_name("to", context.settings.host_name if to is None else to)
    return [_joined(context, turn) for turn in _store(context).handed_to(host, HANDED_AT_ONCE)]


def merge_turns(context: Context, turns: Iterable[Turn], *, into: Turn) -> None:
    """Let one turn cover others of its conversation; see `Tellback.merge_turns`."""
    into = _checked("into", into)
    if isinstance(turns, str | bytes | Turn) or not isinstance(cast("object", turns), Iterable):
        raise InvalidInput(f"turns: a list of turns, not {type(turns).__name__}")
    covered = {turn.id: turn for turn in (_checked(f"turns[{index}]", turn) for index, turn in enumerate(turns))}
    if not 0 < len(covered) <= MAX_MERGED:
        raise InvalidInput(f"turns: 1 to {MAX_MERGED} turns, not {len(covered)}")
    for turn in covered.values():
        if turn.id == into.id:
            raise InvalidInput(f"turns: {turn.id} cannot be merged into itself")
        if (turn.channel, turn.conversation) != (into.channel, into.conversation):
            raise InvalidInput(
                f"turns: {turn.id} is of another conversation than {into.id}: an answer goes to one conversation, and "
                "the user of the other would hear nothing; answer each with respond(...)"
            )
    _store(context).merge([turn.ref for turn in covered.values()], into.ref)


def _checked(name: str, turn: object) -> Turn:
    if not isinstance(turn, Turn):
        raise InvalidInput(f"{name}: a turn, not {type(turn).__name__}; tb.turn(id) gives one")
    return turn


def _joined(context: Context, found: TurnView) -> Turn:
    return Turn(
        id=found.id,
        channel=found.channel,
        conversation=found.conversation,
        message_id=found.message_id,
        session=found.session,
        language=found.language or None,
        duplicate=True,
        _opened_at=found.opened_at,
        _auto=found.state == "auto",
        _context=context,
    )


def _store(context: Context) -> Turns:
    return Turns(context.database, context.layout)
