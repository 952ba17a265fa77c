"""The sweep: an overdue turn that nobody answered gets a fallback, exactly once, however many sweep at a time.

Its cost follows what is due, not what is open. Beat sends it; where nobody does it, workers stand in (`sweeper`).
Source: feedback-guarantee.
"""

from __future__ import annotations

from typing import Final

import structlog
from celery import shared_task

from tellback import clock
from tellback.contracts.turns import OutgoingResponse
from tellback.errors import Unavailable
from tellback.names import Task
from tellback.settings import Settings
from tellback.state.sweeps import Sweeps
from tellback.state.turns import Turns, TurnView
from tellback_workers.runtime import runtime
from tellback_workers.unknown_channels import bury_unknown

SECONDS: Final = 1.0  # a run that finds its batch full goes on for as long; beat sends the next
SET_ASIDE_MS: Final = 60_000  # a turn whose fallback failed by itself waits for as long
QUIET: Final = 1.5  # periods without a sweep after which beat counts as silent: above what its ticks waver by

_log = structlog.get_logger("tellback.turns")


def sweep(turns: Turns, settings: Settings) -> tuple[int, int]:
    """One bounded sweep, longest overdue first: how many due turns it looked at, and how many fallbacks it wrote.

    Raises:
        Unavailable: Redis is away; every turn stays due.
    """
    due = turns.overdue(settings.sweep_batch)
    try:
        return len(due), _answer(turns, settings, due)
    except Unavailable:
        raise
    except Exception:  # noqa: BLE001 - one turn that cannot be read must not keep all others from their answers
        return len(due), sum(_answer_alone(turns, settings, turn) for turn in due)


def _answer_alone(turns: Turns, settings: Settings, turn: str) -> int:
    try:
        return _answer(turns, settings, [turn])
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 - perhaps a newer release wrote it
        _set_aside(turns, turn, error)
        return 0


def _set_aside(turns: Turns, turn: str, error: Exception) -> None:
    """Tell of a turn that could not get its fallback; it is tried again later."""
    _log.error("sweep_turns.failed", turn=turn, exc_info=error)
    turns.postpone(turn, SET_ASIDE_MS)


def _answer(turns: Turns, settings: Settings, due: list[str]) -> int:
    """Give those of these turns that are overdue and open a fallback; how many got one."""
    loaded = turns.load(due)
    turns.forget_due([name for name, turn in zip(due, loaded, strict=True) if turn is None])
    found = [turn for turn in loaded if turn is not None]
    written = turns.fall_back([(turn.ref, _fallback(turn, settings)) for turn in found])
    for turn, wrote in zip(found, written, strict=True):
        if wrote is True:
            _log.info(
                "[FeedbackGuarantee] Producing fallback OutgoingResponse ...",
                turn=turn.id,
                channel=turn.channel if turn.channel.isprintable() else repr(turn.channel),  # no forged log line
            )
    failed = [(turn.id, wrote) for turn, wrote in zip(found, written, strict=True) if isinstance(wrote, Exception)]
    away = next((error for _, error in failed if isinstance(error, Unavailable)), None)
    if away is not None:
        raise away
    for name, error in failed:
        _set_aside(turns, name, error)
    return written.count(True)


def _fallback(turn: TurnView, settings: Settings) -> OutgoingResponse:
    return OutgoingResponse.text_only(settings.words.feedback(turn.language, turn.channel))


def sweep_all(turns: Turns, settings: Settings) -> bool:
    """Sweep until no turn is overdue, or for a second; whether none was left.

    Raises:
        Unavailable: Redis is away; every turn stays due.
    """
    end = clock.monotonic() + SECONDS
    while sweep(turns, settings)[0] >= settings.sweep_batch:
        if clock.monotonic() >= end:
            return False
    return True


@shared_task(name=Task.SWEEP_TURNS)
def sweep_turns(team: str) -> None:
    """Sweep a team's overdue turns until none is left, or for a second."""
    process = runtime()
    try:
        layout = process.layout(team)
        if sweep_all(Turns(process.database, layout), process.settings):
            Sweeps(process.database, layout).note(QUIET * process.settings.beat_period)
        bury_unknown(process.database, layout, process.settings)
    except Unavailable as away:
        _log.warning("sweep_turns.postponed", team=team, reason=str(away))
