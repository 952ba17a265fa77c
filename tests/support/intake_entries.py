"""Entries of the turns' intake as a consumer reads them, without Celery."""

from __future__ import annotations

from collections.abc import Callable

from tellback import Tellback
from tellback.contracts.codec import decode
from tellback.names import Family
from tellback.state.intake import IntakeEntry, Lease
from tellback_workers.runtime import Runtime


def published(
    tb: Tellback, runtime: Runtime, *says: Callable[[], object], conversation: str = "c1"
) -> tuple[Lease, list[IntakeEntry]]:
    """What a host said of the turns of one conversation, and the lease of their stream."""
    for say in says:
        say()
    tb.flush()
    intake = runtime.intake("default")
    lease = intake.take_lease(tb.context.layout.of_turn("chat", conversation), Family.TURNS, 60)
    assert lease is not None
    entries = [
        IntakeEntry(raw.id, decode(raw.raw or b"", Family.TURNS), raw.deliveries) for raw in intake.read_new(lease, 100)
    ]
    return lease, entries
