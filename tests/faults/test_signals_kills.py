"""Consumers of signals die at random moments: every signal counts once, and no query cluster begins twice."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tellback import Settings, SignalItem, Tellback
from tellback.state.intake import Intake
from tests.support.publishing import Publishing
from tests.support.waiting import wait_until
from tests.support.workers import environment

pytestmark = [pytest.mark.faults, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
KILLS = 12
BANKS = ("one", "two", "three")
# A worker's loops without Celery and without the model, so that a life is short; it says when it has begun.
CONSUMER = """
import time
from tellback.settings import load
from tellback.state.database import Database
from tellback.state.team import open_layout
from tests.support.signals import Angles, Bench
settings = load()
layout = open_layout(Database(settings.redis_url), "default", settings.shards)
bench = Bench(settings, layout, Angles())
print("begun", flush=True)
while True:
    bench.consume(lease_seconds=settings.embed_lease)
    time.sleep(0.005)
"""


class SignalsPublishing(Publishing):
    """Signals on a thread: 26 axes of queries, three degrees apart within an axis, one signal in ten sent twice."""

    every = 0.02

    def __init__(self, tb: Tellback) -> None:
        super().__init__(tb)
        self.published = dict.fromkeys(BANKS, 0)

    def publish(self) -> None:
        for bank in BANKS:
            number = self.published[bank]
            query = f"{chr(ord('a') + number % 26)}@{number % 4 * 3}"
            signal = SignalItem(fact_id="f", signal_type="used", query=query, signal_id=f"{bank}-{number}")
            self.tb.bank(bank).signal([signal])
            if number % 10 == 0:
                self.tb.bank(bank).signal([signal])
            self.published[bank] += 1


@pytest.mark.timeout(420)
def test_killed_consumers_lose_and_repeat_nothing(tb: Tellback, settings: Settings) -> None:
    lives = random.Random(7)
    env = environment(settings, {"TELLBACK_EMBED_LEASE": "0.4"})
    with SignalsPublishing(tb) as publishing:
        for _ in range(KILLS):
            consumer = subprocess.Popen([sys.executable, "-c", CONSUMER], env=env, stdout=subprocess.PIPE, cwd=ROOT)
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == b"begun\n"
            time.sleep(lives.uniform(0.02, 0.6))
            consumer.kill()
            consumer.wait()
            consumer.stdout.close()
        wait_until(lambda: min(publishing.published.values()) > 100, "many are published")
    last = subprocess.Popen([sys.executable, "-c", CONSUMER], env=env, stdout=subprocess.DEVNULL, cwd=ROOT)
    try:
        intake = Intake(tb.context.database, tb.context.layout)
        wait_until(lambda: not any(intake.lengths().values()), "the intake is empty")
    finally:
        last.kill()
        last.wait()
    assert {bank: tb.bank(bank).fact_stats("f").signal_count for bank in BANKS} == publishing.published
    assert {tb.bank(bank).stats().clusters for bank in BANKS} == {26}
    assert tb.dead.count() == 0
