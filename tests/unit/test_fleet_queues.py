"""The simulated queues of a fleet, against the formulas that are known for simple ones."""

from __future__ import annotations

import math

import pytest

from benchmarks.fleet.queues import Stage, exponential, fixed, simulate

EVENTS = 60_000

pytestmark = pytest.mark.bulk


def waiting_of_mmc(rate: float, mean: float, servers: int) -> float:
    """Return Erlang's mean time in the queue of M/M/c."""
    load = rate * mean
    first = sum(load**n / math.factorial(n) for n in range(servers))
    last = load**servers / math.factorial(servers) / (1 - load / servers)
    return last / (first + last) * mean / (servers - load)


@pytest.mark.parametrize(("rate", "servers"), [(50.0, 1), (80.0, 1), (160.0, 2), (500.0, 8)])
def test_waits_are_those_of_erlangs_formula(rate: float, servers: int) -> None:
    """M/M/1 and M/M/c with a service of 10 ms. Other seeds differ by up to 8 %, with eight servers by 17 %."""
    found = simulate(rate, [Stage(servers, exponential(0.01))], EVENTS)
    assert found.mean == pytest.approx(waiting_of_mmc(rate, 0.01, servers), rel=0.08)


def test_the_formula_itself_gives_the_textbooks_mm1() -> None:
    """Half full, the mean wait is the mean service."""
    assert waiting_of_mmc(50, 0.01, 1) == pytest.approx(0.01)


def test_a_service_of_fixed_length_waits_half_as_long() -> None:
    """This is Pollaczek and Khinchine's formula for M/D/1."""
    found = simulate(80, [Stage(1, fixed(0, 0.01))], EVENTS)
    assert found.mean == pytest.approx(waiting_of_mmc(80, 0.01, 1) / 2, rel=0.08)


def test_the_wait_of_two_stages_is_the_sum() -> None:
    """By Burke, what leaves M/M/1 comes to the next as a Poisson process."""
    found = simulate(50, [Stage(1, exponential(0.01)), Stage(1, exponential(0.012))], EVENTS)
    expected = waiting_of_mmc(50, 0.01, 1) + waiting_of_mmc(50, 0.012, 1)
    assert found.mean == pytest.approx(expected, rel=0.08)


def test_quantiles_of_mm1_are_those_of_its_distribution() -> None:
    found = simulate(80, [Stage(1, exponential(0.01))], EVENTS)
    assert found.quantile(0.99) == pytest.approx(math.log(0.8 / 0.01) / (100 - 80), rel=0.15)


def test_batches_carry_what_single_events_could_not() -> None:
    """A fixed part of 10 ms for each batch bounds single events to 90 a second; batches of up to 100 carry 500."""
    stage = Stage(1, fixed(0.01, 0.001), batch=100)
    assert simulate(500, [stage], 5_000).quantile(0.99) < 0.05
    assert simulate(500, [Stage(1, stage.service)], 5_000).mean > 1


def test_every_event_is_counted_once() -> None:
    assert (
        len(simulate(100, [Stage(3, exponential(0.02)), Stage(2, fixed(0.001, 0.001), 10)], 1_000, warm=0).waits)
        == 1_000
    )
