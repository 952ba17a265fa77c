"""The one backoff: the delays between the tries of a call, and the loops that make them.

tenacity runs the loops. It loads with the first of them, which takes some 15 ms, and 40 ms more where tornado is
installed. What starts with each tool call or must not stall uses `Backoff.delays` alone (docs/decisions/libraries.md).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from tellback import clock
from tellback.errors import Unavailable
from tellback.light_struct import LightStruct

if TYPE_CHECKING:
    import threading  # `tellback hook` starts without it

INFINITE: Final = float("inf")  # `math` would be one more file to load for `tellback hook`

T = TypeVar("T")


class Backoff(LightStruct):
    """Delays in seconds that grow by `factor` from `first` to `longest`; without `longest`, all are the first."""

    first: float
    longest: float = 0.0
    factor: float = 2.0

    def delays(self) -> Generator[float]:
        """Yield the delays, without end."""
        delay = self.first
        while True:
            yield delay
            delay = max(self.first, min(self.factor * delay, self.longest))


def retry(
    call: Callable[[], T],
    backoff: Backoff,
    *,
    end: float = INFINITE,
    tries: float = INFINITE,
    stop: threading.Event | None = None,
    report: Callable[[BaseException], object] | None = None,
) -> T:
    """Repeat a call until it does not raise `Unavailable`; `report` gets the error before each delay.

    Raises:
        Unavailable: the call failed at or after the monotonic time `end`, `tries` times, or once `stop` was set.
    """
    try:
        return call()  # a call that succeeds pays nothing for tenacity
    except Unavailable as error:
        failure: Unavailable | None = error

    def attempt() -> T:
        nonlocal failure
        if failure is None:
            return call()
        first, failure = failure, None  # the attempt above was the first of the loop
        raise first

    from tenacity import RetryCallState, Retrying, retry_if_exception_type  # noqa: PLC0415 - see above

    def is_over(state: RetryCallState) -> bool:
        over = state.attempt_number >= tries or clock.monotonic() >= end
        return over or (stop is not None and stop.is_set())

    def announce(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if report is not None and error is not None:
            report(error)

    delays = backoff.delays()
    return Retrying(
        retry=retry_if_exception_type(Unavailable),
        wait=lambda _: next(delays),
        stop=is_over,
        sleep=partial(_wait, stop),
        before_sleep=announce,
        reraise=True,
    )(attempt)


def sleep_between(steps: Iterable[T | float]) -> Iterator[T]:
    """Yield the items among the steps of a poll; each other step is a number of seconds to sleep."""
    for step in steps:
        if isinstance(step, float | int):
            clock.sleep(step)
        else:
            yield step


def _wait(stop: threading.Event | None, seconds: float) -> None:
    if stop is None:
        clock.sleep(seconds)
    else:
        stop.wait(seconds)
