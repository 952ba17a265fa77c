"""The weekly decay of every score, in runs of a second, because turns' fallbacks wait in the same queue.

The scheduler checks often, so one that was down does not cost a week; once the week's decay is done, a check is two
round trips. A run that has not finished sends the next one, which continues from a cursor in Redis. A worker's death or
a lost message therefore costs at most one lease. The lease also keeps two runs apart, but two at once would do no harm.
"""

from __future__ import annotations

import secrets
from typing import Final

import structlog
from celery import shared_task

from tellback import clock
from tellback.errors import Unavailable
from tellback.names import SWEEPS_QUEUE, Task
from tellback.state.decay import Decay
from tellback_workers.runtime import current_runtime
from tellback_workers.wakeups import publish

SECONDS: Final = 1.0  # of a run, behind which a fallback may wait

_logger = structlog.get_logger("tellback.signals")


@shared_task(name=Task.DECAY)
def decay(team: str, token: str = "") -> None:
    """Decay a team's scores for up to a second.

    Args:
        team: the team.
        token: the token of the run that this one continues; the scheduler sends none.
    """
    runtime = current_runtime()
    token = token or secrets.token_hex(8)
    try:
        if not run_for(Decay(runtime.database, runtime.layout(team)), token, SECONDS):
            publish(Task.DECAY, (team, token), SWEEPS_QUEUE)
    except Unavailable as away:
        _logger.warning("decay.postponed", team=team, reason=str(away))


def run_for(store: Decay, token: str, seconds: float) -> bool:
    """Decay the due shards for up to `seconds`; return False if this run holds the lease and has not finished.

    Raises:
        Unavailable: Redis is unavailable; the cursor keeps its place.
    """
    end = clock.monotonic() + seconds
    for shard in store.due_shards():
        try:
            outcome = store.run(shard, token, lambda: clock.monotonic() >= end)
        except Unavailable:
            raise
        except Exception:  # a shard with a damaged key must not hold up the others
            _logger.exception("decay.failed", team=shard.team, shard=shard.index)
            continue
        # Another run has the lease: leave the other shards to it too, or as many runs as shards would fill the queue.
        if outcome != "done":
            return outcome == "held"
        _logger.info("decay.done", team=shard.team, shard=shard.index)
    return True
