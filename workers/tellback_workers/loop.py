"""What a loop is to the drain: it says whether it can work, and applies entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tellback.state.intake import Entry, Lease


class Loop(Protocol):
    """Applies the facts of one family for one team."""

    def ready(self) -> None:
        """Return if entries can be processed now.

        Raises:
            Unavailable: something is missing (a model); nothing is read, the entries wait in their stream.
        """
        ...

    def apply(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """Apply and acknowledge every entry, in order, in scripts that check the lease.

        What a raise leaves unacknowledged comes again, alone, with `deliveries` above 1.

        Raises:
            Fenced: the lease has passed on.
        """
        ...
