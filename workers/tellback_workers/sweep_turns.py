"""The sweep of turns: it gives each overdue turn a fallback, exactly once, however many sweeps run at a time.

The cost is proportional to the turns that are due, not to those that are open. Beat sends the task. If no sweep has run
for a while, a worker's main process stands in (`StandInSweeper`), whatever queues that worker reads; it needs only
Redis. So users are answered while beat is dead, while the queue of sweeps has no free process, and while the broker is
unavailable; in the same way the commands whose worker died get their records. A sweep also ends deliveries for channels
that are not in `TELLBACK_CHANNELS`.
Requirements T-20, T-22 and T-23.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import structlog
from celery import bootsteps, shared_task

from tellback import clock
from tellback.client.outbox import open_outbox_store
from tellback.contracts.turns import OutgoingResponse, RoutingOutcome
from tellback.errors import TellbackError, Unavailable
from tellback.names import Task
from tellback.settings import Settings, load
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.outbox import Delivery, Outbox, OutboxQueue
from tellback.state.steady import gap_ms
from tellback.state.stranded import reindex
from tellback.state.turn_sweeps import SweepClaims
from tellback.state.turn_view import TurnView
from tellback.state.turns import Turns
from tellback.tracing import WORKER, tracing_of, turn_span
from tellback_workers.runtime import Runtime, runtime
from tellback_workers.sweep_jobs import record_ends

BATCH: Final = 200  # deliveries of one unknown channel in one run; the next run goes on

UNKNOWN_CHANNEL: Final = RoutingOutcome(
    attempted=False, permanent=True, error="unknown channel: not in TELLBACK_CHANNELS"
)

_log = structlog.get_logger("tellback.outbox")


def dead_letter_unknown(database: Database, layout: Layout, settings: Settings) -> int:
    """Settle the deliveries for unknown channels as dead, and return how many there were.

    Raises:
        Unavailable: Redis is unavailable; the next run goes on.
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
            dead += sum(_end_as_dead(outbox, place, expected) for place, expected in found)
    return dead


def _end_as_dead(outbox: Outbox, place: OutboxQueue, expected: Delivery) -> bool:
    try:
        return _dead_letter(outbox, place, expected)
    except Unavailable:
        raise
    except Exception:  # noqa: BLE001 - the others are settled; this one comes again when its lease ends
        _log.exception("outbox.dead_letter_failed", turn=expected.turn)
        return False


def _dead_letter(outbox: Outbox, queue: OutboxQueue, expected: Delivery) -> bool:
    claimed = outbox.claim(queue, expected)
    if claimed is None or outbox.settle(queue, claimed, UNKNOWN_CHANNEL) != "dead":
        return False
    _log.warning("outbox.unknown_channel", turn=claimed.turn, channel=queue.channel)
    return True


RUN_SECONDS: Final = 1.0  # the longest run; beat sends the next

POSTPONE_MS: Final = 60_000  # until a turn whose own fallback failed is tried again

SILENT_PERIODS: Final = 1.5  # periods without a sweep until beat counts as silent; more than the jitter of its ticks


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
    _log.error("sweep_turns.failed", turn=turn, exc_info=error)
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
                _log.info(
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


def sweep_all(turns: Turns, settings: Settings) -> bool:
    """Sweep until no turn is overdue, or for a second; return True if none is left.

    Raises:
        Unavailable: Redis is unavailable; every turn stays due.
    """
    end = clock.monotonic() + RUN_SECONDS
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
            SweepClaims(process.database, layout).mark_swept(SILENT_PERIODS * process.settings.beat_period)
        dead_letter_unknown(process.database, layout, process.settings)
        reindex(process.database, layout, process.settings.beat_period)
    except Unavailable as away:
        _log.warning("sweep_turns.postponed", team=team, reason=str(away))


BACKOFF: Final = 0.5  # seconds after an error

MIN_WAIT: Final = 0.01  # seconds between two checks, when another worker has just claimed the sweep

STOP_SECONDS: Final = 3.0


class StandInSweeper:
    """Sweeps the turns and commands of the served teams when nobody else does, on one thread a team."""

    def __init__(self, runtime: Runtime) -> None:
        """Set up a sweeper; no other process may share the connections of `runtime`."""
        self._runtime = runtime
        self._silent_seconds = SILENT_PERIODS * runtime.settings.beat_period
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads; while Redis is unavailable they retry."""
        for team in self._runtime.settings.served_teams:
            thread = threading.Thread(target=self._run, name=f"tellback-sweeper-{team}", args=(team,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Stop the threads, and wait for them a little longer than a run takes."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(STOP_SECONDS)

    def sweep_if_silent(self, team: str) -> float:
        """Sweep if nobody has done so for a while; return the seconds until the next check.

        Raises:
            Unavailable: Redis is, and every turn stays due; or the broker, when all that is due was written.
        """
        database, layout = self._runtime.database, self._runtime.layout(team)
        sweeps = SweepClaims(database, layout)
        left = sweeps.seconds_left(self._silent_seconds)
        if left or not sweeps.claim(self._silent_seconds):
            return max(left, MIN_WAIT)
        turns = Turns(database, layout)
        while not sweep_all(turns, self._runtime.settings) and not self._stopping.is_set():
            sweeps.mark_swept(self._silent_seconds)  # one run was not enough, so keep the claim
        sweeps.mark_swept(self._silent_seconds)
        dead_letter_unknown(database, layout, self._runtime.settings)  # as in the task that beat sends
        reindex(database, layout, self._runtime.settings.beat_period)
        record_ends(self._runtime, team)
        return self._silent_seconds

    def _run(self, team: str) -> None:
        while not self._stopping.is_set():
            pause = BACKOFF
            try:
                pause = self.sweep_if_silent(team)
            except TellbackError as trouble:
                _log.warning("sweeper.postponed", team=team, reason=str(trouble))
            except Exception:  # noqa: BLE001 - the thread must survive every error of Redis
                _log.exception("sweeper.postponed", team=team)
            self._stopping.wait(pause)


class StandInSweeperStep(bootsteps.StartStopStep):
    """Runs a sweeper with the worker."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._sweeper: StandInSweeper | None = None

    def start(self, parent: Any) -> None:  # noqa: ARG002 - Celery's signature
        """Start with the worker, after its pool."""
        self._sweeper = StandInSweeper(Runtime(load()))
        self._sweeper.start()

    def stop(self, parent: Any) -> None:  # noqa: ARG002 - Celery's signature
        """Stop with the worker."""
        if self._sweeper is not None:
            self._sweeper.stop()

    terminate = stop
