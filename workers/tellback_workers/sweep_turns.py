"""The sweep of turns: it gives each overdue turn a fallback, exactly once, however many sweeps run at a time.

The cost is proportional to the turns that are due, not to those that are open. It is a duty of the scheduler, and needs
only Redis. A second one ends deliveries for channels that are not in `TELLBACK_CHANNELS`.
Requirements T-20, T-22 and T-23.
"""

from __future__ import annotations

from typing import Final

import structlog

from tellback import clock
from tellback.client.outbox import open_outbox_store
from tellback.contracts.turns import OutgoingResponse, RoutingOutcome
from tellback.errors import Unavailable
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.outbox import Delivery, Outbox, OutboxQueue
from tellback.state.steady import gap_ms
from tellback.state.turn_sweeps import reindex
from tellback.state.turn_view import TurnView
from tellback.state.turns import Turns
from tellback.tracing import WORKER, tracing_of, turn_span
from tellback_workers.runtime import Runtime

BATCH: Final = 200  # deliveries of one unknown channel in one run; the next run continues

UNKNOWN_CHANNEL: Final = RoutingOutcome(
    attempted=False, permanent=True, error="unknown channel: not in TELLBACK_CHANNELS"
)

_logger = structlog.get_logger("tellback.outbox")


def dead_letter_unknown(database: Database, layout: Layout, settings: Settings) -> int:
    """Settle the deliveries for unknown channels as dead, and return how many there were.

    Raises:
        Unavailable: Redis is unavailable; the next run continues.
    """
    declared = settings.known_channels
    if not declared:  # a channel without a transport may only wait for it, so nothing is given up without the list
        return 0
    outbox = open_outbox_store(database, layout, settings)
    dead = 0
    for channel in outbox.channels():
        if channel in declared:
            continue
        remaining = BATCH
        # A loop, because `ready` returns only the first delivery of each conversation.
        while remaining > 0 and (found := outbox.ready(channel, remaining)):
            remaining -= len(found)
            dead += sum(_end_as_dead(outbox, queue, expected) for queue, expected in found)
    return dead


def _end_as_dead(outbox: Outbox, queue: OutboxQueue, expected: Delivery) -> bool:
    try:
        return _dead_letter(outbox, queue, expected)
    except Unavailable:
        raise
    except Exception:  # the others are settled; this one comes again when its lease ends
        _logger.exception("outbox.dead_letter_failed", turn=expected.turn)
        return False


def _dead_letter(outbox: Outbox, queue: OutboxQueue, expected: Delivery) -> bool:
    claimed = outbox.claim(queue, expected)
    if claimed is None or outbox.settle(queue, claimed, UNKNOWN_CHANNEL) != "dead":
        return False
    _logger.warning("outbox.unknown_channel", turn=claimed.turn, channel=queue.channel)
    return True


SLICE: Final = 0.2  # seconds for one team before the others get their turn

POSTPONE_MS: Final = 60_000  # until a turn whose own fallback failed is tried again


def sweep(turns: Turns, settings: Settings) -> tuple[int, int]:
    """Run one bounded sweep, longest overdue first; return how many turns were due and how many fallbacks it wrote.

    Raises:
        Unavailable: Redis is unavailable; every turn stays due.
    """
    due = turns.overdue(settings.sweep_batch, gap_ms(settings.beat_period))
    try:
        return len(due), _answer(turns, settings, due)
    except Unavailable:
        raise
    except Exception:  # noqa: BLE001 - one turn that cannot be read must not cost the others their fallbacks
        return len(due), sum(_answer_one(turns, settings, turn) for turn in due)


def _answer_one(turns: Turns, settings: Settings, turn: str) -> int:
    try:
        return _answer(turns, settings, [turn])
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 - a newer release may have written the turn
        _postpone(turns, turn, error)
        return 0


def _postpone(turns: Turns, turn: str, error: Exception) -> None:
    """Log a turn that could not get its fallback, and postpone it."""
    _logger.error("sweep_turns.failed", turn=turn, exc_info=error)
    turns.postpone(turn, POSTPONE_MS)


def _answer(turns: Turns, settings: Settings, due: list[str]) -> int:
    """Write fallbacks for those of these turns that are overdue and open; return how many."""
    loaded = turns.load(due)
    turns.drop_due([name for name, turn in zip(due, loaded, strict=True) if turn is None])
    found = [turn for turn in loaded if turn is not None]
    written = turns.fall_back([(turn.ref, _fallback(turn, settings)) for turn in found])
    for turn, wrote in zip(found, written, strict=True):
        if wrote is True:
            tracing = tracing_of(settings, WORKER) if turn.trace else None
            with turn_span(tracing, "answer turn", turn.ref, answer="fallback", opened=turn.trace):
                _logger.info(
                    "[FeedbackGuarantee] Producing fallback OutgoingResponse ...",
                    turn=turn.id,
                    channel=turn.channel,
                )
    # One turn's error costs only that turn, but an outage concerns all of them.
    failed = [(turn.id, wrote) for turn, wrote in zip(found, written, strict=True) if isinstance(wrote, Exception)]
    unavailable = next((error for _, error in failed if isinstance(error, Unavailable)), None)
    if unavailable is not None:
        raise unavailable
    for name, error in failed:
        _postpone(turns, name, error)
    return written.count(True)


def _fallback(turn: TurnView, settings: Settings) -> OutgoingResponse:
    return OutgoingResponse.text_only(settings.turn_texts.feedback(turn.language, turn.channel))


def sweep_turns(runtime: Runtime, layout: Layout) -> bool:
    """Give the overdue turns of a team their fallbacks, for a fraction of a second; return True if none is left.

    Raises:
        Unavailable: Redis is unavailable; every turn stays due.
    """
    turns, settings = Turns(runtime.database, layout), runtime.settings
    end = clock.monotonic() + SLICE
    while sweep(turns, settings)[0] >= settings.sweep_batch:
        if clock.monotonic() >= end:
            return False
    return True


def sweep_outbox(runtime: Runtime, layout: Layout) -> None:
    """End the deliveries for unknown channels, and put stranded conversations back into their index.

    Raises:
        Unavailable: Redis is unavailable; the next run continues.
    """
    dead_letter_unknown(runtime.database, layout, runtime.settings)
    reindex(runtime.database, layout, runtime.settings.beat_period)
