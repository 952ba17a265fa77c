"""Rescue in the processes of a pool: those that own the model consume its streams when wake-ups are refused.

The main process of a worker with a pool of processes has no model (see `dispatcher`), and no message of the broker
reaches the pool. So a byte of memory shared across the fork asks each pool process: a thread of it then consumes the
signals and recalls that nobody consumes. The thread looks at the byte once a second and touches nothing else before it
is asked, so a process that is never asked has no connection and no model more.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from typing import Final

import structlog
from billiard.process import current_process
from celery import current_app, signals

from tellback import clock
from tellback.errors import TellbackError
from tellback.names import Family
from tellback.state.fleet import TeamVisits
from tellback_workers.celery_signals import shutting_down
from tellback_workers.loops import consumer_of
from tellback_workers.runtime import Runtime, runtime

MODEL: Final = frozenset({Family.SIGNALS, Family.RECALLS})

CHECK_SECONDS: Final = 1.0  # between two looks at the byte

_logger = structlog.get_logger("tellback.rescue")

_asked: Final = mmap.mmap(-1, 1)  # made at import, before the pool forks


def ask_pool() -> None:
    """Ask each pool process to consume the streams of the model that are idle; it asks again who finds them idle."""
    _asked[0] = (_asked[0] + 1) % 256  # any other value asks, so a lost increment between two teams' threads is none


class PoolRescue:
    """Consumes idle streams of the model in a pool process, on a thread of its own."""

    def __init__(self, process: Callable[[], Runtime]) -> None:
        """Set up a rescue; `process` returns this process's runtime, which its tasks use too."""
        self._process = process
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
        process = self._process()
        try:
            fleet = TeamVisits(process.database)
            shards = [shard for layout in process.known_layouts(fleet.active()).values() for shard in layout.all]
            found = fleet.work(shards, process.settings.longest_consumer_lease)
            for shard, family in [stream for work in found.values() for stream in work.streams if stream[1] in MODEL]:
                if not shutting_down():
                    consumer_of(process, shard.team, family).consume(shard, family)
        except TellbackError as trouble:
            _logger.warning("rescue.postponed", reason=str(trouble))
        except Exception:  # the thread must survive every error of Redis and of the model
            _logger.exception("rescue.postponed")


@signals.worker_process_init.connect
def _start(**_: object) -> None:
    # The solo pool sends this signal from the main process, whose dispatcher consumes these families itself.
    serves = not MODEL.isdisjoint(current_app.amqp.queues.consume_from)
    if serves and current_process().name != "MainProcess":
        threading.Thread(target=PoolRescue(runtime).run, name="tellback-rescue", daemon=True).start()
