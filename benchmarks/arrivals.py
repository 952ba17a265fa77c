"""Open-loop arrival: things happen when they are due, whether or not those before them are done."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

THREADS = 16


def arrivals(rate: float, count: int, seed: int) -> Iterator[int]:
    """`count` times of a Poisson process, in nanoseconds since the epoch, each yielded when it has come."""
    chance = random.Random(seed)
    due = time.time_ns()
    for _ in range(count):
        due += round(chance.expovariate(rate) * 1e9)
        time.sleep(max(0, due - time.time_ns()) / 1e9)
        yield due


def each(rate: float, count: int, seed: int, call: Callable[[int, int], float]) -> list[float]:
    """Return the result of `call(number, due)` for each arrival; one that takes long holds none of the next up."""
    with ThreadPoolExecutor(THREADS) as pool:
        running = [pool.submit(call, number, due) for number, due in enumerate(arrivals(rate, count, seed))]
    return [one.result() for one in running]
