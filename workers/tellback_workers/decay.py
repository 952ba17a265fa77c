"""The weekly decay of every score, in short runs: fallbacks of turns wait in the same queue.

Beat sends it often, since a beat that was away must not cost a week; what is done says so in Redis, and then a run is
two round trips. A run that has not finished sends the next one, which goes on from a cursor that lies in Redis too: a
worker that dies, and a message that is lost, cost at most a lease. Two runs at once are kept apart by that lease, and
would do no harm.
"""

from __future__ import annotations

import secrets
from typing import Final

import structlog
from celery import current_app, shared_task

from tellback import clock
from tellback.errors import Unavailable
from tellback.names import SWEEPS_QUEUE, Task
from tellback.state.decay import Decay
from tellback_workers.runtime import runtime

SECONDS: Final = 1.0

_log = structlog.get_logger("tellback.signals")


@shared_task(name=Task.DECAY)
def decay(team: str, token: str = "") -> None:
    """Do this week's decay of a team, as far as a second goes.

    Args:
        team: the team.
        token: of the run that this one goes on from; beat sends none.
    """
    process = runtime()
    token = token or secrets.token_hex(8)
    try:
        finished = run(Decay(process.database, process.layout(team)), token, SECONDS)
    except Unavailable as away:
        _log.warning("decay.postponed", team=team, reason=str(away))
        return
    if not finished:
        current_app.send_task(Task.DECAY, (team, token), queue=SWEEPS_QUEUE, ignore_result=True)


def run(store: Decay, token: str, seconds: float) -> bool:
    """Decay what is due, for so long; False where this run was at it and is not through.

    A run that finds another at it leaves it alone: as many at a time as there are shards would keep the queue busy.

    Raises:
        Unavailable: Redis is away; the pass stands where it stood.
    """
    end = clock.monotonic() + seconds
    for shard in store.due():
        try:
            outcome = store.run(shard, token, lambda: clock.monotonic() >= end)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - a shard whose keys somebody has spoilt must not hold up the others
            _log.exception("decay.failed", team=shard.team, shard=shard.index)
            continue
        if outcome != "done":
            return outcome == "held"
        _log.info("decay.done", team=shard.team, shard=shard.index)
    return True
