"""Looks at evaluations whose time has come while no tool is called, so that guidance waits for an agent that is stuck.

The task runs on the queue of events, where the providers are. Any number may run at a time: a claim keeps two from the
same work, and the version of an evaluation lets one of them commit. The cost follows what is due, not what is open.
"""

from __future__ import annotations

from typing import Final

import structlog
from celery import shared_task

from tellback import clock
from tellback.errors import Unavailable
from tellback.guidance.evaluation import Effects, look
from tellback.names import Family, Task
from tellback.state.changes import Changes
from tellback.state.evaluations import EvaluationId, Evaluations, Loaded, Looked
from tellback.state.keys import Shard
from tellback_workers.isolation import Asking
from tellback_workers.loops import loop_of
from tellback_workers.loops.guidance import GuidanceLoop, absorb
from tellback_workers.runtime import Runtime, runtime

SECONDS: Final = 1.0  # a run goes on while there is more; the next wake-up is at most a beat away
BATCH: Final = 100
LEASE: Final = 10.0  # of a claim; above what a batch takes

_log = structlog.get_logger("tellback.looks")


class Looker:
    """Looks at the evaluations of one shard."""

    def __init__(self, process: Runtime, shard: Shard, loop: GuidanceLoop) -> None:
        """Take the connections, the shard, and the loop whose providers are asked."""
        self._process = process
        self._shard = shard
        self._loop = loop
        self._idle = process.settings.guidance_idle
        self._store = Evaluations(process.database, shard, idle=self._idle)

    def look(self, end: float, limit: int = BATCH) -> int:
        """Look at those that are due, until the monotonic clock shows `end`; how many were found.

        Raises:
            Unavailable: Redis is away; what was claimed is due again when the claim ends.
        """
        claimed = self._store.claim_due(limit, LEASE)
        ids = [id_ for id_, _ in claimed]
        loaded = self._store.load_due(ids)
        self._store.forget_due([id_ for id_, found in zip(ids, loaded, strict=True) if found.state is None])
        asking = [id_ for id_, found in zip(ids, loaded, strict=True) if self._asks_changes(found)]
        shared = Changes(self._process.database, self._shard).read({id_.session for id_ in asking})
        now = self._process.database.now_ms()
        late: list[EvaluationId] = []
        for (id_, died), found in zip(claimed, loaded, strict=True):
            if found.state is None:
                continue
            if clock.monotonic() >= end:
                late.append(id_)
                continue
            absorb(found.state, shared.get(id_.session, ()), now * 1000)
            try:
                self._one(id_, found, now, died=died)
            except Unavailable:
                raise
            except Exception:  # noqa: BLE001 - costs the others nothing; it is due again when the claim ends
                _log.exception("look.failed", session=id_.session, prompt=id_.prompt)
        self._store.give_back(late)
        return len(claimed)

    def _one(self, id_: EvaluationId, found: Loaded, now: int, *, died: bool) -> None:
        """Each commits by itself, so that a provider that kills its process takes no other's feedback with it."""
        assert found.state is not None, "look"
        about = f"look {found.version.decode()}"  # one that never commits leaves the version as it is
        panel = self._loop.panel(
            Asking(self._process.database, self._shard.key("asking", "look", *id_)), fallen=about if died else None
        )
        panel.about = about
        effects = Effects()
        look(found.state, now, panel, effects, generation=found.generation, idle_ms=round(self._idle * 1000))
        if not self._store.commit_look(Looked(id_, found, found.state, effects, now)):
            self._store.give_back(
                [id_]
            )  # an event or a taker was faster: what there is to say may be another thing now

    def _asks_changes(self, found: Loaded) -> bool:
        slots = found.state.slots if found.state is not None else []
        return any(self._loop.registry.asks_changes(slot.spec.name) for slot in slots)


@shared_task(name=Task.LOOK)
def look_at_due(team: str, shard_index: int) -> None:
    """Look at a shard's evaluations that are due until none is left, or for a second."""
    process = runtime()
    shard = process.layout(team).shard(shard_index)
    end = clock.monotonic() + SECONDS
    loop = loop_of(process, team, Family.EVENTS)
    assert isinstance(loop, GuidanceLoop), "the loop of events"
    looker = Looker(process, shard, loop)
    try:
        process.intake(team).answer_looks(shard)
        while looker.look(end) >= BATCH and clock.monotonic() < end:
            pass
    except Unavailable as away:
        _log.warning("look.postponed", shard=f"{team}.{shard_index}", reason=str(away))
