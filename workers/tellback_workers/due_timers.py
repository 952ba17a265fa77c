"""The task that fires due timers of evaluations while no tool is called, so a stuck agent gets its guidance too.

It runs on the queue of events, because those workers have the providers. Any number of runs may overlap: a claim keeps
two from the same evaluation, and an evaluation's version lets only one commit. The cost is proportional to the timers
that are due, not to the evaluations that are open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog
from celery import shared_task

from tellback import clock
from tellback.errors import Unavailable
from tellback.guidance.evaluation import fire_timers
from tellback.guidance.state import BatchEffects
from tellback.names import Task
from tellback.state.evaluation_codec import EvaluationId, LoadedEvaluation
from tellback.state.evaluations import Evaluations, TimedEvaluation
from tellback.state.keys import Shard
from tellback.state.shared_changes import SharedChanges
from tellback.state.steady import onward_now
from tellback_workers.isolation import ProviderCallMarker
from tellback_workers.loops import guidance_of
from tellback_workers.loops.guidance import GuidanceLoop, apply_shared_changes
from tellback_workers.runtime import Runtime, current_runtime

SECONDS: Final = 1.0  # the length of a run; the next wake-up comes within one period of beat
BATCH: Final = 100
CLAIM_SECONDS: Final = 10.0  # longer than a batch takes, so a claim ends only if its run crashed

_logger = structlog.get_logger("tellback.timers")


class DueTimers:
    """Fires the due timers of one shard's evaluations."""

    def __init__(self, runtime: Runtime, shard: Shard, loop: GuidanceLoop) -> None:
        self._runtime = runtime
        self._shard = shard
        self._loop = loop
        self._idle = runtime.settings.guidance_idle
        self._store = Evaluations(runtime.database, shard, idle=self._idle)

    def fire(self, end: float) -> int:
        """Fire due timers until the monotonic clock reaches `end`; return how many evaluations were claimed.

        Raises:
            Unavailable: Redis is unavailable; claimed timers are due again when the claim ends.
        """
        claimed = self._store.claim_timers(BATCH, CLAIM_SECONDS)
        ids = [id_ for id_, _ in claimed]
        loaded = self._loaded(ids)
        self._store.drop_timers([id_ for id_, found in loaded.items() if found.state is None])
        wanting_changes = [id_ for id_, found in loaded.items() if self._asks_changes(found)]
        shared = SharedChanges(self._runtime.database, self._shard).read({id_.session for id_ in wanting_changes})
        [now] = onward_now(self._runtime.database, [self._shard])
        late: list[EvaluationId] = []
        for id_, crashed in claimed:
            found = loaded.get(id_)
            if found is None or found.state is None:
                continue
            if clock.monotonic() >= end:
                late.append(id_)
                continue
            try:
                apply_shared_changes(found.state, shared.get(id_.session, ()), now * 1000)
                self._fire_one(id_, found, now, crashed=crashed)
            except Unavailable:
                raise
            except Exception:  # the others continue; this one is due again when the claim ends
                _logger.exception("timers.failed", session=id_.session, prompt=id_.prompt)
        self._store.release_claims(late)
        return len(claimed)

    def _loaded(self, ids: Sequence[EvaluationId]) -> dict[EvaluationId, LoadedEvaluation]:
        """Load the evaluations that can be read; the others (a newer release?) are due again when the claim ends."""
        try:
            return dict(zip(ids, self._store.load_claimed(ids), strict=True))
        except Unavailable:
            raise
        except Exception:  # one that cannot be read must not stop the others
            if len(ids) > 1:
                return {id_: found for alone in ids for id_, found in self._loaded([alone]).items()}
            _logger.exception("timer.unreadable", session=ids[0].session, prompt=ids[0].prompt)
            return {}

    def _fire_one(self, id_: EvaluationId, found: LoadedEvaluation, now: int, *, crashed: bool) -> None:
        """Fire one evaluation's timers and commit them alone: a provider's crash must cost no other feedback."""
        assert found.state is not None, "`fire` passes over those without a state"
        about = f"timer {found.version.decode()}"  # a crash before the commit leaves the version as it was
        invoker = self._loop.invoker(
            ProviderCallMarker(self._runtime.database, self._shard.key("provider-call", "timer", *id_)),
            crashed=about if crashed else None,
        )
        invoker.about = about
        effects = BatchEffects()
        fire_timers(found.state, now, invoker, effects, generation=found.generation, idle_ms=round(self._idle * 1000))
        if not self._store.commit_timer(TimedEvaluation(id_, found, found.state, effects, now)):
            # An event or a reader of feedback committed first, so the feedback may be different now.
            self._store.release_claims([id_])

    def _asks_changes(self, found: LoadedEvaluation) -> bool:
        slots = found.state.slots if found.state is not None else []
        return any(self._loop.registry.reads_changes(slot.spec.name) for slot in slots)


@shared_task(name=Task.FIRE_TIMERS)
def fire_due_timers(team: str, shard_index: int) -> None:
    """Fire a shard's due timers until none is left, or for a second."""
    runtime = current_runtime()
    end = clock.monotonic() + SECONDS
    try:
        shard = runtime.shard(team, shard_index)
        timers = DueTimers(runtime, shard, guidance_of(runtime))
        runtime.intake(team).clear_timers_pending(shard)
        while timers.fire(end) >= BATCH and clock.monotonic() < end:
            pass
    except Unavailable as away:
        _logger.warning("timers.postponed", shard=f"{team}.{shard_index}", reason=str(away))
