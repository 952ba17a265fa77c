"""What a loop is to the drain: it says whether it can work, and applies entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

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


@dataclass(frozen=True, slots=True)
class Left:
    """What applying several streams together has left: leases that have passed on, and batches to be applied alone."""

    fenced: set[Lease] = field(default_factory=set[Lease])
    alone: dict[Lease, Sequence[Entry]] = field(default_factory=dict[Lease, Sequence[Entry]])


@runtime_checkable
class JointLoop(Loop, Protocol):
    """A loop that applies what came in several streams in the round trips that one would take."""

    def apply_together(self, batches: Mapping[Lease, Sequence[Entry]]) -> Left:
        """Apply and acknowledge new entries of several streams, each stream in order; what is left is returned.

        A batch that may keep the others waiting is left to be applied alone. On a cluster the streams share a slot.
        """
        ...
