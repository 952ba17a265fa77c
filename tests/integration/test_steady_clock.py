"""The steady clock under any mixture of steps, pauses, slow measurements, and observers that come and go."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tellback import clock as host
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.steady import FRESH_MS, observe
from tests.support.clocks import ServerClock
from tests.support.examples import examples

T0 = 1_800_000_000_000
BOOTS = {"a": 100_000, "b": 5_000_000, "c": 77_000}  # how long each host has been up, in milliseconds


class Step(NamedTuple):
    ms: int


class ClockObservation(NamedTuple):
    host: str
    passed: int
    """Time since the previous step of the test."""
    stall: int
    """Time from the measurement to the script, once."""


actions = st.lists(
    st.one_of(
        st.builds(Step, st.sampled_from([-86_400_000, -3_600_000, -5_000, 5_000, 60_000, 3_600_000])),
        st.builds(ClockObservation, st.sampled_from("abc"), st.integers(0, 300_000), st.integers(0, 3_000)),
    ),
    max_size=25,
)


class ClockWorld:
    """One server and three hosts at one true time, which only passes."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.server = ServerClock(patch)
        self.server.stand_still(T0)
        self.true = 0
        self.observer = "a"
        self.stall = 0
        patch.setattr(host, "since_boot", lambda: (BOOTS[self.observer] + self.true) / 1000)
        patch.setattr(host, "boot_id", lambda: self.observer)
        read = Database.now_ms

        def now_ms(database: Database) -> int:
            now = read(database)
            self.passes(self.stall)
            self.stall = 0
            return now

        patch.setattr(Database, "now_ms", now_ms)

    def passes(self, ms: int) -> None:
        self.true += ms
        self.server.step(ms)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=actions)
def test_steps_are_no_time_and_time_is_no_step(database: Database, given: list[Step | ClockObservation]) -> None:
    """Whoever has a record that knows of all steps before it finds the true time, however many others observe."""
    layout = Layout("default", 1)
    key = layout.shard(0).key("clock")
    database.command("DEL", key)
    with pytest.MonkeyPatch.context() as patch:
        world, counted = ClockWorld(patch), 0
        unknown = False  # a step has come since the last sound observation; two that cancel each other count, too
        sound = set[str]()  # hosts whose record was made when every step was counted
        for action in [ClockObservation("a", 0, 0), *given]:
            if isinstance(action, Step):
                world.server.step(action.ms)
                unknown = True
                continue
            world.passes(action.passed)
            world.observer, world.stall = action.host, action.stall
            knows = action.host in sound and database.command("HEXISTS", key, f"host:{action.host}")
            [seen] = observe(database, layout.all)
            if knows or not sound:
                counted += unknown
                unknown = unknown and not knows
            if not unknown:
                sound.add(action.host)
                assert abs(seen.now - T0 - world.true) <= (counted + 2) * FRESH_MS
            sound = {name for name in sound if database.command("HEXISTS", key, f"host:{name}")}


def test_the_hosts_that_are_kept_are_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process of a system without a boot id is a host; the one that observed longest ago goes."""
    names = itertools.count()
    monkeypatch.setattr(host, "boot_id", lambda: f"h{next(names)}")
    layout = Layout("default", 1)
    for _ in range(70):
        observe(database, layout.all)
    assert database.command("HLEN", layout.shard(0).key("clock")) <= 69
