"""Open-loop arrival: things happen when they are due, whether or not those before them are done."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

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
    """Return the result of `call(number, due)` for each arrival; a long one delays none of the next.

    The thread that waited for an arrival makes its call, as if one thread did everything: to hand it to another took
    50 us, and a millisecond or more for one in ten while other processes wanted the cores.
    """
    coming, turn = enumerate(arrivals(rate, count, seed)), Lock()
    results: dict[int, float] = {}

    def run() -> None:
        while True:
            with turn:
                arrival = next(coming, None)
            if arrival is None:
                return
            number, due = arrival
            results[number] = call(number, due)

    with ThreadPoolExecutor(THREADS) as pool:
        for running in [pool.submit(run) for _ in range(THREADS)]:
            running.result()
    return [results[number] for number in range(count)]
