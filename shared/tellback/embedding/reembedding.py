"""Giving a bank another model while it is in use: its contexts are embedded beside the old ones, then it switches.

embed what is outstanding ──▶ keep, with how far it has come ──▶ nothing outstanding? switch at that version, or go on
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tellback.embedding.encoder import Encoder
from tellback.signals.matching import as_bytes
from tellback.signals.models import default_threshold
from tellback.state.banks import BankInfo
from tellback.state.database import Database
from tellback.state.keys import Shard
from tellback.state.reembedding import ModelSwitch, Outstanding, Target

Progress = Callable[[int, int], None]
"""Told how many contexts are embedded, and of how many."""


@dataclass(frozen=True, slots=True)
class Reembedded:
    """What was done: the bank before, and what it has now. `contexts` were embedded, by this process or before."""

    bank: str
    former_model: str
    model: str
    dimension: int
    threshold: float
    contexts: int
    changed: bool


class Reembedding:
    """One bank and the model that it is to have. May be killed at any time, and run again: it goes on."""

    def __init__(self, database: Database, shard: Shard, bank: str, encoder: Encoder) -> None:
        """Take the Redis, the bank's shard and name, and the model."""
        self._db = database
        self._shard = shard
        self._bank = bank
        self._encoder = encoder

    def run(self, *, threshold: float | None = None, progress: Progress | None = None) -> Reembedded:
        """Embed every context with the model, and switch; signals and recalls go on with the old one until then.

        Args:
            threshold: the bank's from now on; by default that of the model.
            progress: told after each part.

        Raises:
            NotFound: there is no such bank.
            Unavailable: Redis is away, or the model does not load. What was embedded is kept for seven days.
        """
        encoder = self._encoder
        encoder.load()
        known = default_threshold(encoder.model) if threshold is None else threshold
        target = Target(encoder.model, encoder.weights, encoder.dimension, known)
        switch = ModelSwitch(self._db, self._shard, self._bank, target)
        while True:
            part = switch.outstanding()
            if _has(part.bank, target):
                return self._result(part, target, changed=False)
            if part.texts or part.since != part.upto:
                self._embed(switch, part)
            elif switch.switch(part):
                return self._result(part, target, changed=True)
            if progress:
                progress(switch.embedded(), part.contexts)

    def _embed(self, switch: ModelSwitch, part: Outstanding) -> None:
        vectors: dict[int, bytes] = {}
        if part.texts:
            rows = self._encoder.encode(list(part.texts.values()))
            vectors = {slot: as_bytes(row) for slot, row in zip(part.texts, rows, strict=True)}
        switch.keep(part, vectors)  # where somebody else has gone on, what is outstanding says so

    def _result(self, part: Outstanding, target: Target, *, changed: bool) -> Reembedded:
        threshold = target.threshold if changed else part.bank.threshold
        former = part.bank.model
        return Reembedded(self._bank, former, target.model, target.dimension, threshold, part.contexts, changed)


def _has(bank: BankInfo, target: Target) -> bool:
    return (bank.model, bank.dimension, bank.weights) == (target.model, target.dimension, target.weights)
