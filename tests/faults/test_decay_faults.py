"""The weekly decay under real processes: workers that are killed in the middle, two beats, a server that goes away."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tellback.names import SWEEPS_QUEUE
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.decay import Decay, monday
from tellback.state.keys import Layout
from tellback.state.teams import Teams
from tests.support.clocks import DAY_MS
from tests.support.redis_server import RedisServer
from tests.support.scores import build_bank, scores
from tests.support.stopping_worker import APP, standing_still, stopping_at
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers, environment

pytestmark = [pytest.mark.faults, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
KILLS = 8
PASS = "tellback.state.decay:_DecayPass"
# A worker's task without Celery, so that a life is short, with a lease to match. A timer of the kernel ends it at any
# instruction, and all lives together are shorter than the pauses of `calmly`. A kill from here would come whenever the
# test's process gets a core.
DECAYER = """
import secrets, signal, sys, time
from tellback.settings import load
from tellback.state import decay
from tellback.state.database import Database
from tellback.state.team import open_layout
decay.LEASE_MS, decay.SCORE_BATCH = 100, 50
settings = load()
database = Database(settings.redis_url)
store, token = decay.Decay(database, open_layout(database, "default", settings.shards)), secrets.token_hex(4)
def calmly():
    time.sleep(0.002)
    return False
signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
while due := store.due_shards():
    for shard in due:
        store.run(shard, token, calmly)
    time.sleep(0.01)
"""


def all_done(database: Database, layout: Layout, banks: list[str]) -> bool:
    week = monday(database.now_ms()).timestamp() * 1000
    found = [score for bank in banks for score in scores(database, layout.of(bank), bank).values()]
    return all(score.scored_at >= week for score in found)


def test_killed_in_the_middle_again_and_again(database: Database, layout: Layout, settings: Settings) -> None:
    """Each life continues where the one before stood: in the end every score was looked at exactly once."""
    banks = ["one", "two", "three"]
    for bank in banks:
        build_bank(database, layout.of(bank), bank, facts=6_000, clusters=30, each=100, age_ms=30 * DAY_MS)
    before = {bank: scores(database, layout.of(bank), bank) for bank in banks}
    lives, env = random.Random(11), environment(settings)
    for _ in range(KILLS):
        life = str(lives.uniform(0.01, 0.13))
        decayer = subprocess.run([sys.executable, "-c", DECAYER, life], env=env, cwd=ROOT, check=False)
        assert decayer.returncode == -signal.SIGALRM, "it was killed in the middle"
    subprocess.run([sys.executable, "-c", DECAYER, "0"], env=env, cwd=ROOT, check=True, timeout=60)
    assert all_done(database, layout, banks)
    assert sum(state.scores for state in Decay(database, layout).states()) == 3 * 9_000
    now = database.now_ms()
    for bank in banks:
        after = scores(database, layout.of(bank), bank)
        assert all(after[name].at(now) == pytest.approx(old.at(now), abs=1e-9) for name, old in before[bank].items())


def test_two_beats_and_two_workers(
    database: Database, layout: Layout, settings: Settings, start_workers: StartWorkers, tmp_path: Path
) -> None:
    """Both beats send it all the time; every shard is done once, and a run that lasts is no run twice."""
    banks = [f"bank-{i}" for i in range(6)]
    for bank in banks:
        build_bank(database, layout.of(bank), bank, facts=20_000, clusters=20, each=200, age_ms=30 * DAY_MS)
    workers = start_workers(2, queues=SWEEPS_QUEUE)
    beats = [
        subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "tellback_beat.app", "beat", "-s", str(tmp_path / f"beat{i}")],
            # At 0.02 s they send 300 tasks a second; on a busy machine each decay then expired before its turn came.
            env=environment(settings, {"TELLBACK_BEAT_PERIOD": "0.1"}),
            stderr=subprocess.DEVNULL,
        )
        for i in range(2)
    ]
    try:
        shards = {layout.of(bank) for bank in banks}
        wait_until(lambda: workers.log().count("decay.done") >= len(shards), "every shard is done", timeout=180)
        wait_until(lambda: not Decay(database, layout).due_shards(), "nothing is due")
    finally:
        for beat in beats:
            beat.terminate()
        for beat in beats:
            beat.wait(60)
    workers.stop()
    assert workers.log().count("decay.done") == len(shards)
    assert sum(state.scores for state in Decay(database, layout).states()) == len(banks) * 24_000
    assert all_done(database, layout, banks)


def test_redis_goes_away_in_the_middle(tmp_path: Path) -> None:
    """The run ends with a warning; the next one that beat sends continues, and misses nothing."""
    folder = tmp_path / "redis"
    folder.mkdir()
    with RedisServer.start(folder) as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"))
        database = Database(server.url)
        layout = Teams(database).create("default", settings.shards)
        for bank in ("one", "two"):
            build_bank(database, layout.of(bank), bank, facts=20_000, clusters=10, each=100, age_ms=30 * DAY_MS)
        env = {"TELLBACK_BEAT_PERIOD": "0.05", **stopping_at(f"{PASS}._run", 20, tmp_path / "stopped")}
        workers = Workers(settings, tmp_path, queues=SWEEPS_QUEUE, env=env, app=APP)
        beat = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "tellback_beat.app", "beat", "-s", str(tmp_path / "beat")],
            env=environment(settings, {"TELLBACK_BEAT_PERIOD": "0.05"}),
            stderr=subprocess.DEVNULL,
        )
        try:
            workers.start(1)
            store = Decay(database, layout)
            with standing_still(workers):
                assert any(state.scores for state in store.states()), "the decay has begun"
                assert store.due_shards(), "it is not through yet"
                server.restart()
            wait_until(lambda: not store.due_shards(), "the decay is done", timeout=90)
            assert all_done(database, layout, ["one", "two"])
        finally:
            beat.terminate()
            beat.wait(60)
            workers.stop()
            database.close()
