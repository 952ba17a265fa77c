"""The dispatcher: waits for notifications of new entries and publishes wake-ups for them.

It runs in the worker's main process, beside the pool, with its own Redis clients. If the broker refuses a wake-up, the
dispatcher consumes the stream itself (`Rescue`). It is a step of Celery's *worker* blueprint, because steps of the
*consumer* blueprint restart with each broker reconnect and leak the threads that they started.

If broker and state share a Redis, a backlog that fills its memory gets every wake-up refused, and only applying the
backlog would free memory. Without rescue, 3,000 entries stood still for 40 s beside idle workers.

wake-up refused ── consume a slice here ── try a wake-up again ──▶ published, or the next slice
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any, Final

import structlog
from celery import Celery, bootsteps

from tellback import clock
from tellback.errors import TellbackError
from tellback.names import Family
from tellback.settings import load
from tellback.state.intake import Intake, StreamRef, WakeupState
from tellback.state.keys import Layout, Shard
from tellback_workers.loops import consumer_of
from tellback_workers.pool_rescue import MODEL, ask_pool
from tellback_workers.runtime import Runtime, runtime
from tellback_workers.wakeups import NotPublished, idle, publish_wakeup, wake_timers

PAUSE: Final = 1.0  # seconds without another try after a refusal, since one try may take the broker seconds

_log = structlog.get_logger("tellback.rescue")


def families_of(pool: str, queues: Collection[str]) -> frozenset[Family]:
    """Return the families that a worker may consume in its main process."""
    # Beside a pool of processes this excludes families that need the model: the pool's processes have loaded it, and
    # the main process would load one more copy. It asks the pool for these (`pool_rescue`).
    served = frozenset(family for family in Family if family.value in queues)
    return served - MODEL if "prefork" in pool else served


class Rescue:
    """Publishes wake-ups for one team's streams, and consumes those whose wake-up was refused; used by one thread."""

    def __init__(self, app: Celery, process: Runtime, families: Collection[Family]) -> None:
        self._app = app
        self._process = process
        self._families = families
        self._places: dict[StreamRef, None] = {}
        self._refused_until = 0.0

    def __bool__(self) -> bool:
        return bool(self._places)

    def wake(self, intake: Intake, place: StreamRef) -> WakeupState | None:
        """Publish a wake-up if one is due; return None if the broker refused it; `consume_next` then does its work."""
        if clock.monotonic() >= self._refused_until:
            try:
                return publish_wakeup(self._app, intake, *place)
            except NotPublished as refusal:
                self._refused_until = clock.monotonic() + PAUSE
                _log.warning("rescue.wakeup_failed", team=place[0].team, reason=str(refusal))
        if place[1] in self._families:  # a worker that serves the others finds them idle
            self._places[place] = None
        elif place[1] in MODEL:
            ask_pool()
        return None

    def consume_next(self, intake: Intake) -> None:
        """Consume one stream for at most half a lease; the next call consumes the next stream.

        Raises:
            Unavailable: Redis is unavailable; the entries stay in their streams.
        """
        place = next(iter(self._places))
        del self._places[place]
        shard, family = place
        if consumer_of(self._process, shard.team, family).consume(shard, family):
            self.wake(intake, place)


BLOCK_MS: Final = 1_000

LINGERING_MS: Final = 25  # the longest time that an entry waits if the lingering consumer has just left

SHORT_MS: Final = 1  # while a stream is to be rescued; 0 would block for ever

BACKOFF: Final = 0.5  # seconds

STOP_SECONDS: Final = 3.0  # above BLOCK_MS, so a thread that blocks can still return


class Dispatcher:
    """Waits for notifications of the served teams' streams: one thread a team, or one a shard on a Redis Cluster."""

    def __init__(self, app: Celery, runtime: Runtime, families: Collection[Family] = ()) -> None:
        """Set up a dispatcher; `runtime` must not be shared with a pool, and `families` are those to rescue here."""
        self._app = app
        self._families = families
        self._runtime = runtime
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._cluster_teams: set[str] = set()

    def start(self) -> None:
        """Start the threads; while Redis is unavailable they retry."""
        for team in self._runtime.settings.served_teams:
            self._spawn(f"dispatcher-{team}", team, None)

    def stop(self) -> None:
        """Stop the threads and wait for them."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(STOP_SECONDS)

    def _spawn(self, name: str, team: str, shard: Shard | None) -> None:
        thread = threading.Thread(target=self._run, name=f"tellback-{name}", args=(team, shard), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, team: str, shard: Shard | None) -> None:
        while not self._stopping.is_set():
            try:
                self._listen(team, shard)
            except TellbackError as trouble:
                _log.warning("dispatcher.retry", team=team, reason=str(trouble))
            except Exception:  # noqa: BLE001 - the thread must survive every error of the broker and of Redis
                _log.exception("dispatcher.retry", team=team)
            self._stopping.wait(BACKOFF)

    def _listen(self, team: str, shard: Shard | None) -> None:
        intake, layout = self._runtime.intake(team), self._runtime.layout(team)
        intake.ensure_groups()
        shards = self._own_shards(layout) if shard is None else (shard,)
        rescue = Rescue(self._app, self._runtime, self._families)
        next_check = 0.0
        # Until when to skip a stream: a consumer that lingers on it reads new entries without a wake-up.
        lingering: dict[StreamRef, float] = {}
        while not self._stopping.is_set():
            lingering = {place: until for place, until in lingering.items() if until > clock.monotonic()}
            for place in intake.wait_for_notifications(
                shards, SHORT_MS if rescue else LINGERING_MS if lingering else BLOCK_MS, lingering
            ):
                if rescue.wake(intake, place) == "lingering":
                    lingering[place] = clock.monotonic() + LINGERING_MS / 1000
            # One thread a team repeats lost wake-ups, in case beat is down.
            if shard in (None, layout.shard(0)) and clock.monotonic() >= next_check:
                for place in idle(self._app, intake, self._runtime.settings.longest_consumer_lease):
                    rescue.wake(intake, place)
                wake_timers(self._app, intake, self._runtime.database, layout)
                next_check = clock.monotonic() + self._runtime.settings.beat_period
            if rescue:
                rescue.consume_next(intake)

    def _own_shards(self, layout: Layout) -> tuple[Shard, ...]:
        """Return the shards of this thread; on a cluster, where a read is limited to one slot, start one for each."""
        if not self._runtime.database.is_cluster():
            return layout.all
        if layout.team not in self._cluster_teams:
            self._cluster_teams.add(layout.team)
            for other in layout.all[1:]:
                self._spawn(f"dispatcher-{layout.team}.{other.index}", layout.team, other)
        return layout.all[:1]


class DispatcherStep(bootsteps.StartStopStep):
    """Runs a dispatcher with the worker."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._dispatcher: Dispatcher | None = None

    def start(self, parent: Any) -> None:
        """Start with the worker, after its pool."""
        pool = type(parent.pool).__module__
        families = families_of(pool, parent.app.amqp.queues.consume_from)
        # A pool of threads shares this process's runtime, and with it the one copy of the model.
        process = Runtime(load()) if "prefork" in pool else runtime()
        self._dispatcher = Dispatcher(parent.app, process, families)
        self._dispatcher.start()

    def stop(self, parent: Any) -> None:  # noqa: ARG002 - Celery's signature
        """Stop with the worker."""
        if self._dispatcher is not None:
            self._dispatcher.stop()

    terminate = stop
