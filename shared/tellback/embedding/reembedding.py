"""Giving a bank another model while it is in use: contexts and held facts are embedded anew beside, then it switches.

embed what is outstanding ──▶ keep, with how far it has come ──▶ nothing outstanding? switch at that version, or go on
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tellback.embedding.encoder import Encoder
from tellback.errors import NotFound
from tellback.signals.matching import as_bytes
from tellback.signals.models import default_threshold
from tellback.state.database import Database
from tellback.state.keys import Shard
from tellback.state.reembedding import HeldOutstanding, ModelSwitch, Outstanding, Target

Progress = Callable[[int, int], None]
"""Told how many contexts and held facts are embedded, and of how many."""


@dataclass(frozen=True, slots=True)
class Reembedded:
    """What was done: the bank before, and what it has now.

    `contexts` and `facts`, those that the bank holds, were embedded, by this process or before.
    """

    bank: str
    former_model: str
    model: str
    dimension: int
    threshold: float
    contexts: int
    facts: int
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
        """Embed every context and held fact with the model, and switch; until then all goes on with the old one.

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
            part, held = switch.outstanding(), switch.held_outstanding()
            if part.bank is None and held.info is None:
                raise NotFound(f"no bank {self._bank!r}; one begins with its first signal, or fact that it is to hold")
            if part.done and held.done:
                return self._result(part, held, target, changed=False)
            if part.waits:
                self._embed(switch, part)
            elif held.waits:
                switch.keep_held(held, self._vectors([text for *_, text in held.texts]))
            elif switch.switch(part, held):
                return self._result(part, held, target, changed=True)
            if progress:
                progress(switch.embedded(held.info), _left(part, held))

    def _embed(self, switch: ModelSwitch, part: Outstanding) -> None:
        vectors = dict(zip(part.texts, self._vectors(list(part.texts.values())), strict=True))
        switch.keep(part, vectors)  # where somebody else has gone on, what is outstanding says so

    def _vectors(self, texts: list[str]) -> list[bytes]:
        return [as_bytes(row) for row in self._encoder.encode(texts)] if texts else []

    def _result(self, part: Outstanding, held: HeldOutstanding, target: Target, *, changed: bool) -> Reembedded:
        """Where only the held facts had another model, it is theirs that the bank had before; no threshold moves."""
        before = held.info if part.done and held.info else part.bank
        return Reembedded(
            bank=self._bank,
            former_model=before.model if before else target.model,
            model=target.model,
            dimension=target.dimension,
            threshold=part.bank.threshold if part.bank and part.done else target.threshold,
            contexts=part.contexts,
            facts=held.facts,
            changed=changed,
        )


def _left(part: Outstanding, held: HeldOutstanding) -> int:
    """How many there are of what is to be embedded."""
    return (0 if part.done else part.contexts) + (0 if held.done else held.facts)
