"""Giving a bank another model, in Redis: which contexts are still to be embedded, their new vectors, and the switch."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tellback.errors import NotFound
from tellback.state.banks import BankInfo, bank_fields, bank_info
from tellback.state.database import Arg, Database
from tellback.state.keys import Shard
from tellback.state.script import Script

EMBEDDED_AT_ONCE: Final = 256
"""Contexts between two notes of how far it has come: a killed process repeats no more."""

_next = Script("next_contexts")
_keep = Script("keep_next")
_switch = Script("switch_model")


@dataclass(frozen=True, slots=True)
class Target:
    """The model that a bank is to have, and the threshold that belongs to it."""

    model: str
    weights: str
    dimension: int
    threshold: float


@dataclass(frozen=True, slots=True)
class Outstanding:
    """The next contexts to be embedded, by slot, of `contexts` in all; `upto` is the version up to which they are all.

    None wait where `texts` is empty and `since` is `upto`.
    """

    bank: BankInfo
    since: int
    upto: int
    contexts: int
    texts: Mapping[int, str]


class ModelSwitch:
    """One bank on its way to another model. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, shard: Shard, bank: str, target: Target) -> None:
        """Take the Redis, the bank's shard and name, and the model."""
        self._db = database
        self._shard = shard
        self._bank = bank
        self._target = target

    def embedded(self) -> int:
        """Contexts whose new vectors are kept."""
        return int(self._db.command("HLEN", self._key("nextvec")))

    def outstanding(self) -> Outstanding:
        """What is to be embedded next.

        Raises:
            NotFound: nothing was ever signalled to a bank of this name.
        """
        target = self._target
        keys = [self._key(name) for name in ("bank", "ctxver", "ctxtext", "next", "nextvec")]
        args: list[Arg] = [target.model, target.weights, target.dimension, EMBEDDED_AT_ONCE]
        flat, since, upto, contexts, slots, texts = self._db.run(_next.call(keys, args))
        info = bank_info(bank_fields(flat))
        if info is None:
            self._db.command("UNLINK", self._key("next"))
            raise NotFound(f"no bank {self._bank!r}; one begins with its first signal")
        by_slot = {int(slot): (text or b"").decode() for slot, text in zip(slots, texts, strict=True)}
        return Outstanding(info, int(since), int(upto), int(contexts), by_slot)

    def keep(self, part: Outstanding, vectors: Mapping[int, bytes]) -> bool:
        """Keep the vectors of `part`; False where another process has gone on meanwhile."""
        target = self._target
        flat: list[Arg] = [part for slot, vector in vectors.items() for part in (slot, vector)]
        args: list[Arg] = [part.bank.id, target.model, target.weights, part.since, part.upto, *flat]
        return bool(self._db.run(_keep.call([self._key("next"), self._key("nextvec")], args)) == b"ok")

    def switch(self, part: Outstanding) -> bool:
        """Give the bank its new model, at the version of `part`; False where contexts were written since."""
        target = self._target
        keys = [self._key(name) for name in ("bank", "ctxvec", "next", "nextvec", "lastvec")]
        args: list[Arg] = [part.bank.id, part.upto, secrets.token_hex(8), target.model, target.weights]
        args += [target.dimension, repr(target.threshold)]
        return bool(self._db.run(_switch.call(keys, args)) == b"ok")

    def _key(self, name: str) -> str:
        return self._shard.key(name, self._bank)
