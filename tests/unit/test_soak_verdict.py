"""The verdict on a soak, with series that are made up: what counts as growth, and what as noise."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.soak.sampler import SoakSample, family_of
from tests.soak.verdict import SoakBounds, judge, theil_sen

PERIOD = 5.0
LOAD = 300  # samples
NOISE = random.Random(4)

Series = Callable[[int], float]


def run(name: str, load: Series, *, before: float = 100.0, after: float = 100.0) -> list[SoakSample]:
    """The samples of a run with one series: a level before the load, the load, and a level after it."""
    values = [("baseline", before)] * 5 + [("load", load(number)) for number in range(LOAD)] + [("drain", after)] * 5
    return [SoakSample(number * PERIOD, phase, {name: value}) for number, (phase, value) in enumerate(values)]


def grown(samples: list[SoakSample]) -> set[str]:
    """The series that the verdict refuses."""
    return {finding.series for finding in judge(samples, SoakBounds()) if not finding.ok}


FLAT: dict[str, Series] = {
    "flat": lambda _: 100.0,
    "noisy but flat": lambda _: 100.0 + NOISE.gauss(0, 8),
    "flat with peaks": lambda n: 100.0 + (30.0 if n % 50 == 0 else 0.0),
    "settles in the warm-up": lambda n: 100.0 - 40.0 * 0.97**n,
    "one step": lambda n: 100.0 + (20.0 if n > 200 else 0.0),
}
LEAKS: dict[str, Series] = {
    "leaks": lambda n: 100.0 + 0.03 * n,
    "leaks under noise": lambda n: 100.0 + 0.05 * n + NOISE.gauss(0, 8),
    "leaks in steps": lambda n: 100.0 + n // 60 * 3.0,
}


@pytest.mark.parametrize("name", [*FLAT, *LEAKS])
def test_memory_may_be_noisy_and_step_once_but_not_grow(name: str) -> None:
    found = grown(run("hosts.memory", (FLAT | LEAKS)[name]))
    assert found == ({"hosts.memory under load"} if name in LEAKS else set())


@pytest.mark.parametrize("name", ["hosts.files", "model main.threads", "supervisors.processes"])
@pytest.mark.parametrize(("after", "leaks"), [(100.0, False), (102.0, False), (103.0, True), (40.0, False)])
def test_files_and_threads_come_back(name: str, after: float, *, leaks: bool) -> None:
    """Only the number after the load counts, not the one under load."""
    assert grown(run(name, lambda n: 100.0 + n, after=after)) == ({name} if leaks else set())


@pytest.mark.parametrize(
    ("name", "after", "leaks"),
    [
        ("keys.turn", 100.0, False),
        ("keys.turn", 110.0, True),
        ("redis.used", 104.0, False),
        ("redis.used", 110.0, True),
        ("redis.aof", 400.0, False),
    ],
)
def test_redis_comes_back_to_its_level(name: str, after: float, *, leaks: bool) -> None:
    assert grown(run(name, lambda _: 200.0, after=after)) == ({name} if leaks else set())


@pytest.mark.parametrize("name", ["redis.clients", "loops pool.sockets"])
def test_connections_may_stay_as_many_as_the_warm_up_needed(name: str) -> None:
    """A pool keeps them; a leak continues after the warm-up."""
    assert grown(run(name, lambda _: 108.0, after=108.0)) == set()
    assert grown(run(name, lambda n: 100.0 + n / 10, after=130.0)) == {name}


def test_a_family_that_only_the_load_made_counts_from_nothing() -> None:
    samples = run("keys.turn", lambda _: 9.0, before=0.0, after=0.0)
    left = [
        SoakSample(s.at, s.phase, {**s.values, **({"keys.lost": 7.0} if s.phase == "drain" else {})}) for s in samples
    ]
    assert grown(left) == {"keys.lost"}


def test_a_slope_is_the_median_of_all_pairs() -> None:
    line = [(float(x), 3.0 + 2.0 * x) for x in range(50)]
    assert theil_sen([*line, (50.0, 1e6)]) == pytest.approx(2.0)
    assert theil_sen(line[:1]) == 0.0


@pytest.mark.parametrize(
    ("key", "family"), [(b"tb:{a.0}:turn:x:y", "turn"), (b"tb:{a.0}:clock", "clock"), (b"_kombu.binding.x", "broker")]
)
def test_keys_are_counted_by_family(key: bytes, family: str) -> None:
    assert family_of(key) == family
