"""New entries of a history that is read whole again and again."""

from __future__ import annotations

from tellback.cli.history import new_entries
from tellback.cli.timeline import HistoryEntry


def entry(at: int, kind: str = "turn") -> HistoryEntry:
    return {"at": at, "kind": kind}


def test_each_entry_comes_once() -> None:
    """Known ones do not, two that are alike both do, and one that is cut at the beginning is not missed."""
    polls = [
        [entry(1), entry(2)],
        [entry(1), entry(2), entry(2)],
        [entry(2), entry(2), entry(3)],
        [entry(2), entry(2), entry(3)],
        [entry(2, "command"), entry(3)],
    ]
    found = list(new_entries([entry(1)], polls))
    assert found == [entry(2), entry(2), entry(3), entry(2, "command")]
