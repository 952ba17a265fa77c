"""The dispatcher: waits for notifications of all teams and publishes wake-ups for what they name.

It runs in the worker's main process, beside the pool, with its own Redis clients: one thread, however many teams there
are. If the broker refuses a wake-up, the dispatcher consumes the stream itself (`Rescue`). It is a step of Celery's
*worker* blueprint, because steps of the *consumer* blueprint restart with each broker reconnect and leak the threads
that they started.

If broker and state share a Redis, a backlog that fills its memory gets every wake-up refused, and only applying the
backlog would free memory. Without rescue, 3,000 entries stood still for 40 s beside idle workers.

wake-up refused ── consume a slice here ── try a wake-up again ──▶ published, or the next slice

Beside a pool of processes the main process has no model, and no message of the broker reaches the pool. So a byte of
memory shared across the fork asks each pool process: a thread of it then consumes the signals and recalls that nobody
consumes (`PoolRescue`). The thread reads the byte once a second and does nothing else before it is asked, so a process
that is never asked opens no connection and loads no model.
"""

from __future__ import annotations

import mmap
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import structlog
from billiard.process import current_process
from celery import bootsteps, current_app, signals

from tellback import clock
from tellback.errors import TellbackError
from tellback.names import Family
from tellback.settings import load
from tellback.state.fleet import TeamVisits
from tellback.state.intake import Notifications, StreamRef
from tellback_workers.celery_signals import shutting_down
from tellback_workers.consumer import SLICE
from tellback_workers.loops import consumer_of
from tellback_workers.repeating_thread import RepeatingThread
from tellback_workers.runtime import Runtime, current_runtime
from tellback_workers.scheduler import StandIn
from tellback_workers.wakeups import NotPublished, publish_wakeups

REFUSED_BACKOFF: Final = 1.0  # seconds after a refusal, since one try may take the broker seconds

MODEL: Final = frozenset({Family.SIGNALS, Family.RECALLS})

CHECK_SECONDS: Final = 1.0  # between two reads of the byte

_logger = structlog.get_logger("tellback.rescue")

_asked: Final = mmap.mmap(-1, 1)  # made at import, before the pool forks


def ask_pool() -> None:
    """Ask each pool process to consume the idle streams of the model; whoever finds them idle later asks again."""
    _asked[0] = (_asked[0] + 1) % 256  # any change asks, so it does no harm if one of two threads' increments is lost


class PoolRescue:
    """Consumes idle streams of the model in a pool process, on a thread of its own."""

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        """Set up a rescue; `runtime` returns this process's runtime, which its tasks use too."""
        self._runtime = runtime
        self._seen = _asked[0]

    def run(self) -> None:
        """Consume whenever it is asked for, until the worker shuts down."""
        while not shutting_down():
            clock.sleep(CHECK_SECONDS)
            asked = _asked[0]
            if asked != self._seen:
                self._seen = asked
                self.consume_idle()

    def consume_idle(self) -> None:
        """Consume each idle stream of the model once; errors are logged, since visits find the streams again."""
        runtime = self._runtime()
        try:
            fleet = TeamVisits(runtime.database)
            shards = [shard for layout in runtime.known_layouts(fleet.active()).values() for shard in layout.all]
            found = fleet.work(shards, runtime.settings.longest_consumer_lease)
            for shard, family in [stream for work in found.values() for stream in work.streams if stream[1] in MODEL]:
                if not shutting_down():
                    consumer_of(runtime, shard.team, family).consume(shard, family)
        except TellbackError as trouble:
            _logger.warning("rescue.postponed", reason=str(trouble))
        except Exception:  # the thread must survive every error of Redis and of the model
            _logger.exception("rescue.postponed")


@signals.worker_process_init.connect
def _start(**_: object) -> None:
    # The solo pool sends this signal from the main process, whose dispatcher consumes these families itself.
    serves = not MODEL.isdisjoint(current_app.amqp.queues.consume_from)
    if serves and current_process().name != "MainProcess":
        threading.Thread(target=PoolRescue(current_runtime).run, name="tellback-rescue", daemon=True).start()


def families_of(pool: str, queues: Collection[str]) -> frozenset[Family]:
    """Return the families that a worker may consume in its main process."""
    # Beside a pool of processes this excludes families that need the model: the pool's processes have loaded it, and
    # the main process would load one more copy. It asks the pool for these (`ask_pool`).
    served = frozenset(family for family in Family if family.value in queues)
    return served - MODEL if "prefork" in pool else served


class Rescue:
    """Publishes wake-ups, and consumes the streams whose wake-up was refused; `wake_or_offer` is for other threads."""

    def __init__(self, runtime: Runtime, families: Collection[Family]) -> None:
        self._runtime = runtime
        self._families = families
        self._streams: dict[StreamRef, None] = {}
        self._offered: deque[StreamRef] = deque(maxlen=10_000)
        self._refused_until = 0.0

    @property
    def has_streams(self) -> bool:
        """True while the wake-up of a stream is refused, so that its entries have to be consumed here."""
        return bool(self._streams)

    def wake_or_offer(self, streams: Sequence[StreamRef]) -> None:
        """Publish the wake-ups of streams that a visit found, or leave them to the thread that owns this.

        Any thread may call it. That thread waits for a notification for up to a second, and a burst
        whose notifications a visit had taken stood still for as long.
        """
        try:
            publish_wakeups(self._runtime.database, streams, again=True)
        except NotPublished:
            self._offered.extend(streams)

    def wake_offered(self) -> None:
        """Wake the streams that were left to this thread since the last round."""
        found: dict[StreamRef, None] = {}
        while self._offered:
            found[self._offered.popleft()] = None
        self.wake(list(found), again=True)

    def wake(self, streams: Sequence[StreamRef], *, again: bool = False) -> None:
        """Publish the wake-ups that are due; if the broker refuses, `consume_next` does their work."""
        if streams and clock.monotonic() >= self._refused_until:
            try:
                publish_wakeups(self._runtime.database, streams, again=again)
            except NotPublished as refusal:
                self._refused_until = clock.monotonic() + REFUSED_BACKOFF
                if self._runtime.lines.is_due("rescue.wakeup_failed", str(refusal)):
                    _logger.warning("rescue.wakeup_failed", team=streams[0][0].team, reason=str(refusal))
            else:
                return
        for stream in streams:
            if stream[1] in self._families:  # a worker that serves the others finds them waiting
                self._streams[stream] = None
            elif stream[1] in MODEL:
                ask_pool()

    def consume_next(self) -> None:
        """Consume one stream for a slice; the next call consumes the next stream.

        Raises:
            Unavailable: Redis is unavailable; the entries stay in their streams.
        """
        stream = next(iter(self._streams))
        del self._streams[stream]
        shard, family = stream
        if consumer_of(self._runtime, shard.team, family).consume(shard, family, SLICE):
            self.wake([stream])


BLOCK_MS: Final = 1_000  # below `STOP_SECONDS`, so that a thread that blocks can still return

SHORT_MS: Final = 1  # while a stream is to be rescued; 0 would block forever


class Dispatcher(RepeatingThread):
    """Waits for notifications, in one thread."""

    def __init__(self, runtime: Runtime, families: Collection[Family]) -> None:
        """Set up a dispatcher; `runtime` must not be shared with a pool, and `families` are those to rescue here."""
        super().__init__("dispatcher", _logger, "dispatcher.retry", runtime.lines)
        self._runtime = runtime
        self.rescue = Rescue(runtime, families)

    def repeat(self) -> None:
        """Dispatch until the worker stops."""
        notifications = Notifications(self._runtime.database)
        only = self._runtime.settings.served_teams
        # `wait` takes notifications away from other workers, so a worker that serves only some teams must not use it.
        receive = notifications.watch if only else notifications.wait
        while not self._stopping.is_set():
            block_ms = SHORT_MS if self.rescue.has_streams else BLOCK_MS
            found = [each for each in receive(block_ms) if not only or each.team in only]
            if found:
                self.rescue.wake(self._runtime.streams_of(found))
            self.rescue.wake_offered()
            if self.rescue.has_streams:
                self.rescue.consume_next()


class DispatcherStep(bootsteps.StartStopStep):
    """Runs a dispatcher, and the scheduler that stands in for beat, with the worker."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._running: list[RepeatingThread] = []

    def start(self, parent: Any) -> None:
        """Start with the worker, after its pool."""
        pool = type(parent.pool).__module__
        families = families_of(pool, parent.app.amqp.queues.consume_from)
        # A pool of threads shares this process's runtime, and with it the one copy of the model.
        runtime = Runtime(load()) if "prefork" in pool else current_runtime()
        dispatcher = Dispatcher(runtime, families)
        # While the broker refuses wake-ups, the dispatcher consumes what the scheduler finds.
        self._running = [dispatcher, StandIn(Runtime(load()), dispatcher.rescue.wake_or_offer)]
        for each in self._running:
            each.start()

    def stop(self, parent: Any) -> None:  # noqa: ARG002 - Celery's signature
        """Stop with the worker."""
        for each in self._running:
            each.stop()

    terminate = stop
