"""Evaluations that this process has committed: they need not be loaded again for the next batch."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from tellback.state.intake import Lease

if TYPE_CHECKING:
    from tellback.state.evaluations import EvaluationId, Loaded

MOST: Final = 1_024
BYTES: Final = 16 << 20


class KnownEvaluations:
    """The evaluations of one team that were committed last, bounded in number and bytes: the longest unused goes.

    A commit compares versions, so that what has changed meanwhile is loaded after all. With a new lease nothing counts
    as known: in between another drainer may have been at work.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: OrderedDict[EvaluationId, tuple[int, Loaded, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        """How many are known."""
        return len(self._known)

    def take(self, lease: Lease, id_: EvaluationId) -> Loaded | None:
        """The evaluation as it was left under this lease. It is the caller's: from here on it is not known any more."""
        found = self._known.pop(id_, None)
        if found is None:
            return None
        fence, loaded, size = found
        self._bytes -= size
        return loaded if fence == lease.fence else None

    def keep(self, lease: Lease, id_: EvaluationId, loaded: Loaded, size: int) -> None:
        """Remember an evaluation of so many bytes as it was committed under this lease."""
        self.take(lease, id_)
        self._known[id_] = (lease.fence, loaded, size)
        self._bytes += size
        while len(self._known) > MOST or self._bytes > BYTES:
            _, (_, _, freed) = self._known.popitem(last=False)
            self._bytes -= freed
