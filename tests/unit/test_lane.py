"""A lane numbers the events of its stream without a gap, however often they are taken and put back."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tellback.messaging import lane as lane_module
from tellback.messaging.append_call import CALL_BYTES
from tellback.messaging.lane import BufferedTotal, Lane
from tellback.messaging.spool import Spool
from tellback.messaging.team_cache import SpoolLocation
from tellback.names import Family


@pytest.fixture
def lane(tmp_path: Path) -> Lane:
    spool = Spool(SpoolLocation(str(tmp_path), "here"), "events.0", max_bytes=1 << 20, chunk=10)
    return Lane("stream", "writer", spool, BufferedTotal(Family.EVENTS))


def numbers(lane: Lane) -> list[tuple[bytes, int]]:
    return [(event.raw, event.number) for event in lane.take_all()]


def test_an_event_keeps_its_number_when_it_is_put_back(lane: Lane) -> None:
    for raw in (b"a", b"b"):
        lane.append(raw)
    _, second = lane.take_all()
    lane.append(b"c")
    lane.put_back([second])
    lane.append(b"d")
    assert numbers(lane) == [(b"b", 2), (b"c", 3), (b"d", 4)]
    lane.emptied()
    lane.append(b"e")
    assert numbers(lane) == [(b"e", 5)]


def test_what_a_send_was_interrupted_with_goes_first_under_its_own_number(lane: Lane) -> None:
    lane.append(b"a")
    lane.take_all()  # not appended: the send ended without `emptied`
    lane.append(b"b")
    assert numbers(lane) == [(b"a", 1), (b"b", 2)]


class Ended(BaseException):
    """A signal handler's exception."""


@contextmanager
def interrupted(place: int) -> Generator[None]:
    """Raise at the line of `lane.py` that is run as number `place`."""
    ran = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal ran
        if frame.f_code.co_filename != lane_module.__file__:
            return None
        ran += event == "line"
        if event == "line" and ran == place:
            raise Ended
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with suppress(Ended):
            yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("place", range(1, 30))
def test_an_event_gets_no_second_number_by_an_interruption(lane: Lane, place: int) -> None:
    """The writer's mark drops an event that is sent again only if it has the same number."""
    for raw in (b"a", b"b"):
        lane.append(raw)
    with interrupted(place):
        lane.take_all()
    sent = {(b"a", 1), (b"b", 2)}
    assert set(numbers(lane)) == sent
    rest = lane.take_all()
    with interrupted(place):
        lane.put_back(rest)
    lane.append(b"c")
    assert set(numbers(lane)) == {*sent, (b"c", 3)}


def test_an_event_that_a_signal_handler_publishes_is_kept(lane: Lane) -> None:
    """It may interrupt the thread at any call within the lane, whose locks it may take again."""
    published = 1

    def count(some: list[Any] | bytes) -> int:
        nonlocal published
        if isinstance(some, list):  # no event that is published
            published += 1
            lane.append(b"%d" % published)
        return len(some)

    lane.append(b"1")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lane_module, "len", count, raising=False)
        first = numbers(lane)
    lane.emptied()
    assert [*first, *numbers(lane)] == [(b"%d" % number, number) for number in range(1, published + 1)]


def test_a_call_takes_what_is_within_its_bounds_or_one_event_of_any_size(lane: Lane) -> None:
    assert not lane.fits_call(2)
    lane.append(b"x" * (CALL_BYTES + 1))
    assert lane.fits_call(2)
    lane.append(b"")
    assert not lane.fits_call(2)
    lane.take_all()
    lane.emptied()
    for _ in range(2):
        lane.append(b"x" * (CALL_BYTES // 2))
    assert lane.fits_call(2)
    assert not lane.fits_call(1)
    lane.append(b"x")
    assert not lane.fits_call(3)


def test_waiting_events_are_no_work_for_the_garbage_collector(lane: Lane) -> None:
    """It took 7 % of the time of a host that had 20,000 of them in memory."""
    gc.collect()
    before = len(gc.get_objects())
    for number in range(1_000):
        lane.append(b"%d" % number)
    assert len(gc.get_objects()) < before + 100
