"""The base of the loops of signals and recalls, and the state that they share in a worker process.

`clusters_of` holds the model and the query clusters of a team's banks.
`ModelMismatches` remembers for a moment which banks belong to another model, which saves useless embeddings.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from functools import lru_cache
from typing import Final, NamedTuple

from cachetools import TTLCache

from tellback import clock
from tellback.embedding.clusters import ClusterCache
from tellback.embedding.encoder import encoder_for
from tellback.errors import Unavailable
from tellback.signals.models import ModelMismatch
from tellback.state.intake_lease import Lease
from tellback.state.keys import Shard
from tellback_workers.celery_signals import shutting_down
from tellback_workers.runtime import BY_LAYOUT, Runtime


@lru_cache
def clusters_of(runtime: Runtime, team: str) -> ClusterCache:
    """Return the cluster cache that a team's loops share in this process."""
    return ClusterCache(runtime.settings, runtime.database, runtime.layout(team), encoder_for(runtime.settings))


BY_LAYOUT.append(clusters_of.cache_clear)

_STOP_POLL: Final = 0.5  # seconds between two checks whether the worker shuts down


class ModelLoop:
    """A loop that needs the embedding model. `clusters` may bring another model than the process's own."""

    def __init__(self, runtime: Runtime, team: str, clusters: ClusterCache | None = None) -> None:
        self._clusters = clusters or clusters_of(runtime, team)
        self._intake = runtime.intake(team)

    def ready(self) -> None:
        """Load the model unless it is loaded, but do not wait for that once the worker was asked to stop.

        A load takes up to a minute on a busy machine, and a warm shutdown waits for its tasks.

        Raises:
            Unavailable: it does not load, or the worker shuts down; entries stay in their stream.
        """
        if self._clusters.embedder.encoder.dimension:  # it is loaded
            self._clusters.ready()
            return
        loading: Future[None] = Future()

        def load() -> None:
            try:
                self._clusters.ready()
            except BaseException as error:  # noqa: BLE001 - the waiting task raises it, also a panic of Rust
                loading.set_exception(error)
            else:
                loading.set_result(None)

        try:
            threading.Thread(target=load, name="tellback-model-load", daemon=True).start()
        except RuntimeError as error:  # the system gives no more threads, which no entry caused
            raise Unavailable(f"the embedding model has no thread to load in: {error}") from error
        while not wait([loading], _STOP_POLL).done:
            if shutting_down():
                raise Unavailable("the worker shuts down while it loads the embedding model")
        loading.result()

    def _renew_lease(self, lease: Lease) -> None:
        self._intake.renew(lease, self._clusters.settings.embed_lease)


RECHECK_SECONDS: Final = 1.0
"""Seconds until the bank is checked again: `tellback bank reembed` may have given it our model."""

TTL_SECONDS: Final = 60.0
"""Seconds without a mismatch after which the next one of that bank counts as the first."""

_MAX_BANKS: Final = 1_000  # bounds the memory; an evicted bank costs one more check


class ModelMismatches:
    """The banks that belong to another model, each with its error; safe for all threads of a process."""

    def __init__(self) -> None:
        self._found: TTLCache[tuple[Shard, str], _Mismatch] = TTLCache(
            _MAX_BANKS,
            TTL_SECONDS,
            timer=lambda: clock.monotonic(),  # noqa: PLW0108 - found at each call: tests move it
        )
        self._guard = threading.Lock()

    def note(self, shard: Shard, bank: str, error: ModelMismatch) -> None:
        """Remember that a bank has another model, and set on `error` for how long it has been so."""
        now = clock.monotonic()
        with self._guard:
            found = self._found.get((shard, bank))
            first = found.since if found else now
            error.lasting = now - first
            self._found[shard, bank] = _Mismatch(error, first, now)

    def recent(self, shard: Shard, bank: str, within: float = RECHECK_SECONDS) -> ModelMismatch | None:
        """Return the error of a bank whose mismatch was noted within the last `within` seconds."""
        with self._guard:
            found = self._found.get((shard, bank))
        return found.error if found and clock.monotonic() - found.found_at < within else None


class _Mismatch(NamedTuple):
    """A bank's error, when the mismatch was first noted, and when it was last noted."""

    error: ModelMismatch
    since: float
    found_at: float
