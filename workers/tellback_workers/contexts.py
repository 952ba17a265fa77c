"""What the loops of signals and recalls of one team share in a worker process: the model and the banks' contexts."""

from __future__ import annotations

from functools import lru_cache

from tellback.embedding.contexts import Contexts
from tellback.embedding.encoder import encoder_for
from tellback_workers.runtime import Runtime


@lru_cache
def contexts_of(runtime: Runtime, team: str) -> Contexts:
    """What a team's loops share in this process."""
    return Contexts(runtime.settings, runtime.database, runtime.layout(team), encoder_for(runtime.settings))
