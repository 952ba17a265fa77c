"""From which cosine on two queries of a bank share a context: read and set."""

from __future__ import annotations

import secrets

from tellback.errors import ConfigurationError
from tellback.state.database import Database
from tellback.state.keys import Shard
from tellback.state.script import Script

_set = Script("set_threshold")


class BankThreshold:
    """The threshold of one bank. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, shard: Shard, bank: str) -> None:
        """Take the Redis, the bank's shard and its name."""
        self._db = database
        self._shard = shard
        self.bank = bank

    def begun_with(self) -> tuple[str, float] | None:
        """The model that the bank was begun with, and its threshold; None before it begins."""
        model, threshold = self._db.command("HMGET", self._shard.key("bank", self.bank), "model", "threshold")
        return None if model is None else (model.decode(), float(threshold))

    def set(self, threshold: float, *, model: str, dimension: int, weights: str = "") -> float | None:
        """Set the threshold that was found for this model; a bank that has not begun begins with both.

        It counts for every query placed or recalled from now on. Contexts that exist stay as they are.

        Args:
            threshold: a cosine.
            model: the model's name.
            dimension: numbers in its vectors.
            weights: what tells its files from others of that name; '' where that is not known.

        Returns:
            The threshold before; None for a bank that has begun now.

        Raises:
            ConfigurationError: the bank was begun with another model; nothing was changed.
        """
        keys = [self._shard.key("bank", self.bank), self._shard.key("banks")]
        begins = secrets.token_hex(8)
        outcome, *told = self._db.run(_set.call(keys, [self.bank, begins, model, dimension, repr(threshold), weights]))
        if outcome == b"other":
            theirs, size, files = (part.decode() for part in told)
            raise ConfigurationError(
                f"bank {self.bank!r} was begun with the model {_named(theirs, size, files)}, and this threshold is of "
                f"{_named(model, dimension, weights)}: a threshold belongs to its model"
            )
        return float(told[0]) if outcome == b"set" else None


def _named(model: str, dimension: int | str, weights: str) -> str:
    return f"{model} of {dimension} dimensions" + (f" (weights {weights})" if weights else "")
