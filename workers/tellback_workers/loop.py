"""A loop applies the entries of one family; the consumer calls it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from tellback.state.intake_lease import IntakeEntry, Lease


class Loop(Protocol):
    """Applies the events of one family for one team."""

    def ready(self) -> None:
        """Return if entries can be processed now.

        Raises:
            Unavailable: something is missing, such as a model; no entry is read, they all stay in their stream.
        """
        ...

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        """Apply and acknowledge every entry, in order, in scripts that check the fence.

        If it raises, the consumer delivers the unacknowledged entries again, one by one, with `deliveries` above 1.

        Raises:
            Fenced: another consumer has the lease.
        """
        ...


@dataclass(frozen=True, slots=True)
class Deferred:
    """The rest after applying several streams together: leases that are no longer held, and batches to apply alone."""

    fenced: set[Lease] = field(default_factory=set[Lease])
    released: set[Lease] = field(default_factory=set[Lease])
    separate: dict[Lease, Sequence[IntakeEntry]] = field(default_factory=dict[Lease, Sequence[IntakeEntry]])


@runtime_checkable
class JointLoop(Loop, Protocol):
    """A loop that applies entries of several streams in the round trips of one."""

    def apply_together(self, batches: Mapping[Lease, Sequence[IntakeEntry]], *, or_release: bool = False) -> Deferred:
        """Apply and acknowledge new entries of several streams, each stream in order; return the rest.

        With `or_release`, the script that leaves a stream without an entry releases it. A batch that could delay the
        others is returned, for you to apply alone. On a cluster all streams must share a slot.
        """
        ...

    def forget(self, leases: Iterable[Lease]) -> None:
        """Forget what was remembered of streams whose leases end."""
        ...
