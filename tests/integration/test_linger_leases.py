"""The leases of a process that lingers, which may run out."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tellback.state.database import Database
from tellback.state.intake_lease import Read
from tellback.state.keys import Layout
from tests.support.lingering import FAMILY, LingerBench


def test_what_came_while_a_process_was_frozen_is_applied_when_it_continues(
    database: Database, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more streams than one read asks, a stream that never had an entry ended the task with a KeyError."""
    monkeypatch.setattr("tellback.state.intake.FEW_STREAMS", 0)
    bench = LingerBench(database, layout)
    read_next = bench.intake.read_next

    def frozen(*arguments: Any) -> Read:
        read = read_next(*arguments)
        if bench.recorder.tools != ["before"]:
            return read
        time.sleep(0.15)  # longer than it stays with quiet streams
        for shard in layout.all:
            database.command("DEL", shard.key("lease", FAMILY), shard.key("wakeup", FAMILY))
        bench.append(1, "meanwhile")
        monkeypatch.setattr(bench.intake, "read_next", read_next)
        return read

    monkeypatch.setattr(bench.intake, "read_next", frozen)
    bench.append(1, "before")
    assert bench.linger(idle_seconds=0.1) == []
    assert bench.recorder.tools == ["before", "meanwhile"]
    assert bench.lingered_on() == 0
