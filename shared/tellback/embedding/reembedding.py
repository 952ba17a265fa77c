"""The online change of a bank's model.

A bank's clusters and stored facts are embedded with the new model, then the bank switches to it in one step. It stays
in use with its old model meanwhile. New vectors are stored beside the old ones together with the progress, so a killed
run continues. The switch succeeds only at the version that was embedded; if signals moved the bank on, the rest is
embedded first.

embed what is pending ──▶ store it and the progress ──▶ nothing pending? switch at that version, else continue
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tellback.embedding.encoder import Encoder
from tellback.errors import NotFound
from tellback.signals.matching import as_bytes
from tellback.signals.models import default_threshold
from tellback.state.bank_models import ModelSwitch, PendingClusters, PendingFacts, TargetModel
from tellback.state.database import Database
from tellback.state.keys import Shard

Progress = Callable[[int, int], None]
"""Called with the number of clusters and stored facts embedded so far, and with their total."""


@dataclass(frozen=True, slots=True)
class Reembedded:
    """The result: the bank's model before, and its model now.

    `clusters` and `facts` count the bank's clusters and stored facts, embedded by this process or an earlier one.
    """

    bank: str
    former_model: str
    model: str
    dimension: int
    threshold: float
    clusters: int
    facts: int
    changed: bool


class Reembedding:
    """The change of one bank to the encoder's model. You may kill it at any time; the next run continues."""

    def __init__(self, database: Database, shard: Shard, bank: str, encoder: Encoder) -> None:
        self._db = database
        self._shard = shard
        self._bank = bank
        self._encoder = encoder

    def run(self, *, threshold: float | None = None, progress: Progress | None = None) -> Reembedded:
        """Embed every cluster and stored fact with the new model, then switch the bank to it.

        Args:
            threshold: the bank's new threshold; by default the model's.
            progress: called after each part.

        Raises:
            NotFound: there is no such bank.
            Unavailable: Redis does not answer, or the model does not load. Finished work is kept for seven days.
        """
        encoder = self._encoder
        encoder.load()
        known = default_threshold(encoder.model) if threshold is None else threshold
        target = TargetModel(encoder.model, encoder.weights, encoder.dimension, known)
        switch = ModelSwitch(self._db, self._shard, self._bank, target)
        while True:
            clusters, facts = switch.pending_clusters(), switch.pending_facts()
            if clusters.bank is None and facts.info is None:
                raise NotFound(f"no bank {self._bank!r}; its first signal or stored fact creates it")
            if clusters.is_done and facts.is_done:
                return self._result(clusters, facts, target, changed=False)
            if clusters.is_pending:
                self._embed(switch, clusters)
            elif facts.is_pending:
                switch.put_facts(facts, self._vectors([text for *_, text in facts.texts]))
            # The script refuses if the bank has changed since `clusters` was read; the loop then embeds the rest.
            elif switch.switch(clusters, facts):
                return self._result(clusters, facts, target, changed=True)
            if progress:
                progress(switch.count_embedded(facts.info), _remaining(clusters, facts))

    def _embed(self, switch: ModelSwitch, clusters: PendingClusters) -> None:
        vectors = dict(zip(clusters.texts, self._vectors(list(clusters.texts.values())), strict=True))
        switch.put_clusters(clusters, vectors)  # if another process was faster, the next `pending_clusters` shows it

    def _vectors(self, texts: list[str]) -> list[bytes]:
        return [as_bytes(row) for row in self._encoder.encode(texts)] if texts else []

    def _result(
        self, clusters: PendingClusters, facts: PendingFacts, target: TargetModel, *, changed: bool
    ) -> Reembedded:
        """Return the result; if only the stored facts had another model, theirs is the former one.

        The threshold stays in that case, since no cluster changed its model; one without clusters begins with its
        model's.
        """
        before = facts.info if clusters.is_done and facts.info else clusters.bank
        if clusters.bank is None:
            threshold = default_threshold(target.model)
        else:
            threshold = clusters.bank.threshold if clusters.is_done else target.threshold
        return Reembedded(
            bank=self._bank,
            former_model=before.model if before else target.model,
            model=target.model,
            dimension=target.dimension,
            threshold=threshold,
            clusters=clusters.clusters,
            facts=facts.facts,
            changed=changed,
        )


def _remaining(clusters: PendingClusters, facts: PendingFacts) -> int:
    """Return the number of clusters and facts that need the new model."""
    return (0 if clusters.is_done else clusters.clusters) + (0 if facts.is_done else facts.facts)
