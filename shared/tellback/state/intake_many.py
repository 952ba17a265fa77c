"""The reading of many entries, which scripts leave to their caller: they name the id before them and their number.

A script's reply is converted to values of Lua and back, which takes Redis five times as long as the reading itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tellback.state.database import Database
from tellback.state.intake_lease import Lease
from tellback.state.readable import read_each, without_errors
from tellback.state.scripts import intake as scripts


def deliver_many(database: Database, many: Mapping[Lease, tuple[bytes, int]]) -> dict[Lease, Any]:
    """Return the entries of each stream after an id, at most so many; None for a lease that has passed on.

    They are read and delivered in two round trips. If the last reply is lost, they count as left by a dead consumer.
    """
    ranges = [("XRANGE", lease.stream, b"(" + after, "+", "COUNT", most) for lease, (after, most) in many.items()]
    read = dict(zip(many, without_errors(read_each(database, ranges)), strict=True))
    last = {lease: entries[-1][0].decode() for lease, entries in read.items() if entries}
    calls = [scripts.deliver_entries(intake=lease.stream, fence=lease.fence, last=id_) for lease, id_ in last.items()]
    delivered = dict(zip(last, without_errors(database.run_each(calls)), strict=True))
    return {lease: entries if delivered.get(lease, 1) else None for lease, entries in read.items()}
