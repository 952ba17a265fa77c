"""Which banks have another model than this process, as it found a moment ago: nothing is embedded for them in vain."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, NamedTuple

from tellback import clock
from tellback.signals.models import OtherModel
from tellback.state.keys import Shard

ASK_AGAIN: Final = 1.0
"""Seconds after which the bank is asked again: it may have got our model."""
LASTS: Final = 60.0
"""Seconds after which a bank that was not met since is met for the first time again."""
_MOST: Final = 1_000


class Refusals:
    """The banks, each with the error that says what its model is; for all threads of a process."""

    def __init__(self) -> None:
        """Begin with none."""
        self._found: OrderedDict[tuple[Shard, str], _Refusal] = OrderedDict()
        self._guard = threading.Lock()

    def note(self, shard: Shard, bank: str, error: OtherModel) -> None:
        """A bank was found to have another model."""
        now = clock.monotonic()
        with self._guard:
            known = self._found.get((shard, bank))
            first = known.first if known and now - known.last < LASTS else now
            error.lasting = now - first
            self._found[shard, bank] = _Refusal(error, first, now)
            self._found.move_to_end((shard, bank))
            while len(self._found) > _MOST:
                self._found.popitem(last=False)

    def of(self, shard: Shard, bank: str, within: float = ASK_AGAIN) -> OtherModel | None:
        """The error of a bank that was found so in the last seconds."""
        found = self._found.get((shard, bank))
        return found.error if found and clock.monotonic() - found.last < within else None


class _Refusal(NamedTuple):
    """Why a bank is refused; when that began, and when it was found last."""

    error: OtherModel
    first: float
    last: float
