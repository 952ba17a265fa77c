"""The model of a bank in Redis: its threshold, and the move to another model.

The threshold is the cosine from which two queries of a bank share a cluster. To change models, the queries of clusters
and the texts of stored facts are embedded in batches beside the live vectors; one script then switches both. A process
that is killed resumes from the last stored batch.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypedDict

from tellback.errors import ConfigurationError
from tellback.state.banks import BankInfo, bank_info, text_fields
from tellback.state.database import Database
from tellback.state.keys import Shard
from tellback.state.script_calls import Arg, ScriptCall
from tellback.state.scripts import signals as scripts
from tellback.state.stored_facts import TEXT_BATCH, StoredFactsInfo, describe_model, record_text, stored_facts_info


class BankThreshold:
    """The threshold of one bank. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, shard: Shard, bank: str) -> None:
        self._db = database
        self._shard = shard
        self.bank = bank

    def created_with(self) -> tuple[str, str, float] | None:
        """Return the bank's model, the digest of its files and the threshold; None if it does not exist yet."""
        fields = ("model", "weights", "threshold")
        model, weights, threshold = self._db.command("HMGET", self._shard.key("bank", self.bank), *fields)
        return None if model is None else (model.decode(), (weights or b"").decode(), float(threshold))

    def set(self, threshold: float, *, model: str, dimension: int, weights: str = "") -> float | None:
        """Set the threshold that was found for this model; a new bank begins with both.

        It applies to every query placed or recalled from now on. Existing clusters stay as they are.

        Args:
            threshold: a cosine.
            model: the model's name.
            dimension: numbers in its vectors.
            weights: the digest of its files; '' if it is not known.

        Returns:
            The former threshold; None for a new bank.

        Raises:
            ConfigurationError: the bank has another model; nothing was changed.
        """
        call = scripts.set_threshold(
            bank=self._shard.key("bank", self.bank),
            bank_name=self.bank,
            bank_id=secrets.token_hex(8),
            new_stamp=secrets.token_hex(8),
            model=model,
            dimension=dimension,
            threshold=repr(threshold),
            weights=weights,
        )
        outcome, *found = self._db.run(call)
        if outcome == b"other":
            theirs, size, files = (part.decode() for part in found)
            raise ConfigurationError(
                f"bank {self.bank!r} has the model {describe_model(theirs, files)} of {size} dimensions, and this "
                f"threshold is of {describe_model(model, weights)} of {dimension}: a threshold belongs to its model"
            )
        return float(found[0]) if outcome == b"set" else None


EMBED_BATCH: Final = 256
"""Clusters in one batch: a process that is killed repeats at most these."""


@dataclass(frozen=True, slots=True)
class TargetModel:
    """The model that a bank is to have, and the threshold that belongs to it."""

    model: str
    weights: str
    dimension: int
    threshold: float


@dataclass(frozen=True, slots=True)
class PendingClusters:
    """The next clusters to embed, by slot, of `clusters` in all; they are complete up to the version `upto`.

    `bank` is None before the first signal; then, and if the bank already has the model, `is_done` is True.
    """

    bank: BankInfo | None
    is_done: bool
    since: int
    upto: int
    clusters: int
    texts: Mapping[int, str]

    @property
    def is_pending(self) -> bool:
        """True if something must still be embedded, or its progress stored."""
        return bool(self.texts) or self.since != self.upto


@dataclass(frozen=True, slots=True)
class PendingFacts:
    """The next stored facts to embed, with their versions and texts, of `facts` in all; see `PendingClusters`."""

    info: StoredFactsInfo | None
    is_done: bool
    since: int
    upto: int
    facts: int
    texts: Sequence[tuple[str, int, str]]

    @property
    def is_pending(self) -> bool:
        """True if something must still be embedded, or its progress stored."""
        return bool(self.texts) or self.since != self.upto


class _TargetArgs(TypedDict):
    """The arguments that name a model."""

    model: str
    weights: str
    dimension: int


class ModelSwitch:
    """The move of one bank to another model. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, shard: Shard, bank: str, target: TargetModel) -> None:
        self._db = database
        self._shard = shard
        self._bank = bank
        self._target = target

    def count_embedded(self, facts: StoredFactsInfo | None) -> int:
        """Count the clusters and stored facts that already have new vectors."""
        clusters = int(self._db.command("HLEN", self._key("nextvec")))
        if facts is None:
            return clusters
        counted = ("VCARD", self._key("factnextset")) if facts.kind == "set" else ("HLEN", self._key("factnextvec"))
        return clusters + int(self._db.command(*counted))

    def pending_clusters(self) -> PendingClusters:
        """Return the clusters to embed next."""
        call = scripts.next_clusters(
            **self._target_args,
            bank=self._key("bank"),
            limit=EMBED_BATCH,
        )
        flat, since, upto, clusters, slots, texts = self._db.run(call)
        info = bank_info(text_fields(flat))
        done = info is None or self._has_target(info)
        by_slot = {int(slot): (text or b"").decode() for slot, text in zip(slots, texts, strict=True)}
        return PendingClusters(info, done, int(since), int(upto), int(clusters), by_slot)

    def pending_facts(self) -> PendingFacts:
        """Return the stored facts to embed next."""
        call = scripts.next_facts(
            **self._target_args,
            factinfo=self._key("factinfo"),
            limit=TEXT_BATCH,
        )
        flat, since, upto, facts, names_and_versions, records = self._db.run(call)
        info = stored_facts_info(flat)
        done = info is None or self._has_target(info)
        versions = zip(names_and_versions[::2], names_and_versions[1::2], records, strict=True)
        texts = [(name.decode(), int(version), record_text(record)) for name, version, record in versions]
        return PendingFacts(info, done, int(since), int(upto), int(facts), texts)

    def put_clusters(self, part: PendingClusters, vectors: Mapping[int, bytes]) -> bool:
        """Store the vectors of `part`; return False if another process has continued meanwhile."""
        target = self._target
        flat: list[Arg] = [part for slot, vector in vectors.items() for part in (slot, vector)]
        call = scripts.put_reembedded_clusters(
            bank=self._key("bank"),
            bank_id=_bank_id(part.bank),
            stamp=_stamp(part.bank),
            model=target.model,
            weights=target.weights,
            since=part.since,
            upto=part.upto,
            vectors=flat,
        )
        return bool(self._db.run(call) == b"ok")

    def put_facts(self, part: PendingFacts, vectors: Sequence[bytes]) -> None:
        """Store the vectors of `part`, one for each fact; none if another process has continued meanwhile."""
        # One call a fact: adding a vector to a vector set takes Redis some milliseconds.
        put = partial(
            scripts.put_reembedded_fact,
            factinfo=self._key("factinfo"),
            facts_id=_bank_id(part.info),
            stamp=_stamp(part.info),
            model=self._target.model,
            weights=self._target.weights,
            kind=part.info.kind if part.info else "",
        )
        calls, since = list[ScriptCall](), part.since
        for (fact_id, version, _), vector in zip(part.texts, vectors, strict=True):
            calls.append(put(since=since, upto=version, fact_id=fact_id, vector=vector))
            since = version
        if since != part.upto:  # the last versions belong to deleted facts: move the progress past them
            calls.append(put(since=since, upto=part.upto))
        self._db.run_all(calls)

    def switch(self, part: PendingClusters, facts: PendingFacts) -> bool:
        """Switch the bank to its new model, at the versions of both parts; return False if it was written since."""
        # A new id for bank and facts makes every process that cached them load them again.
        call = scripts.switch_model(
            **self._target_args,
            bank=self._key("bank"),
            bank_id=_bank_id(part.bank),
            version=part.upto,
            facts_id=_bank_id(facts.info),
            facts_version=facts.upto,
            new_id=secrets.token_hex(8),
            threshold=repr(self._target.threshold),
        )
        return bool(self._db.run(call) == b"ok")

    @property
    def _target_args(self) -> _TargetArgs:
        target = self._target
        return {"model": target.model, "weights": target.weights, "dimension": target.dimension}

    def _has_target(self, info: BankInfo | StoredFactsInfo) -> bool:
        target = self._target
        return (info.model, info.weights, info.dimension) == (target.model, target.weights, target.dimension)

    def _key(self, name: str) -> str:
        return self._shard.key(name, self._bank)


def _bank_id(created: BankInfo | StoredFactsInfo | None) -> str:
    return created.id if created else ""


def _stamp(created: BankInfo | StoredFactsInfo | None) -> str:
    return created.stamp if created else ""
