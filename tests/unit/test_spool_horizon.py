"""The six days of an event that could not be sent count from its first attempt, wherever it waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tellback import clock
from tellback.errors import SpoolFull
from tellback.messaging.lane import BufferedTotal, Lane
from tellback.messaging.spool import Spool, SpooledEvent
from tellback.messaging.team_cache import SpoolLocation
from tellback.names import Family
from tellback.state.keys import Shard, stream_of

DAY: Final = 86_400.0
TROUBLE: Final = OSError("Redis is away")
STREAM: Final = stream_of(Shard("default", 0), Family.EVENTS)


def pass_days(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    for name in ("wall", "since_boot"):
        before = getattr(clock, name)
        monkeypatch.setattr(clock, name, lambda before=before: before() + days * DAY)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    """A spool without room."""
    spool = Spool(SpoolLocation(str(tmp_path / "default"), "here"), "events.0", max_bytes=1, chunk=10)
    yield spool
    spool.close()


@pytest.fixture
def lane(spool: Spool) -> Lane:
    """A lane with one event that was tried, and found no room on disk."""
    lane = Lane(STREAM, "w", spool, BufferedTotal(Family.EVENTS))
    lane.append(b"{}")
    tried = lane.take_all()
    with pytest.raises(SpoolFull):
        lane.spool_events(tried, TROUBLE)
    lane.put_back(tried)
    return lane


@pytest.mark.parametrize(("on_disk", "sent"), [(3.9, 1), (4.1, 0)])
def test_days_in_memory_count_on_disk(
    monkeypatch: pytest.MonkeyPatch, lane: Lane, spool: Spool, on_disk: float, sent: int
) -> None:
    """They once counted from the write to disk: with more than a day before it, Redis had forgotten the mark."""
    pass_days(monkeypatch, 2)
    spool._max_bytes = 1 << 20
    lane.spool_events(lane.take_all(), TROUBLE)
    lane.emptied()
    pass_days(monkeypatch, on_disk)
    found: list[SpooledEvent] = []
    lane.catch_up(found.extend)
    assert len(found) == sent


def test_events_in_memory_have_the_same_horizon(monkeypatch: pytest.MonkeyPatch, lane: Lane) -> None:
    """After six days they are dropped, and the next event starts over."""
    pass_days(monkeypatch, 5.9)
    tried = lane.take_all()
    assert [event.raw for event in tried] == [b"{}"]
    lane.put_back(tried)
    pass_days(monkeypatch, 0.2)
    assert lane.take_all() == []
    lane.emptied()
    lane.append(b"[]")
    assert [event.raw for event in lane.take_all()] == [b"[]"]


@pytest.mark.parametrize(("real", "sent"), [(0.0, 2), (5.9, 2), (6.1, 0)])
def test_a_step_of_the_hosts_clock_makes_no_event_of_a_living_process_old(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, real: float, sent: int
) -> None:
    """A host that started without the time lost all that it had spooled when it got it from the network."""
    spool = Spool(SpoolLocation(str(tmp_path / "default"), "here"), "events.0", max_bytes=1 << 20, chunk=10)
    spool.append([SpooledEvent(STREAM, b"{}", "w", 1)])
    pass_days(monkeypatch, real)
    spool.append([SpooledEvent(STREAM, b"{}", "w", 2)])
    wall = clock.wall
    monkeypatch.setattr(clock, "wall", lambda: wall() + 20_000 * DAY)
    found: list[SpooledEvent] = []
    spool.send_own(found.extend)
    assert len(found) == sent
    spool.close()
