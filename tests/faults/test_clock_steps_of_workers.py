"""Redis' wall clock steps by an hour under real workers: nobody waits for the hour, and no healthy command is lost."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from tellback import FeedbackProviderConfig, FeedbackTrigger, StaticFeedback, Tellback, connect
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.keys import stream_of
from tests.support.clocks import SteppedServer, faketime_library
from tests.support.commands import running_beat
from tests.support.waiting import wait_until
from tests.support.workers import Workers

HOUR = 3_600
pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(faketime_library() is None, reason="needs the library of the package `faketime`"),
]


@contextmanager
def system(folder: Path) -> Generator[tuple[SteppedServer, Workers, Tellback]]:
    with SteppedServer.start(folder / "redis") as server:
        settings = Settings(
            redis_url=server.url,
            data_dir=str(folder / "data"),
            job_lease=5.0,  # with 3, a busy machine renews too late
            command_roots=str(folder),
            beat_period=0.5,
        )
        workers = Workers(settings, folder, queues="commands,events,turns,sweeps")
        try:
            workers.start()
            with running_beat(settings, folder), connect(settings=settings) as tb:
                yield server, workers, tb
        finally:
            workers.stop()


@pytest.mark.parametrize("hours", [-1, 1])
def test_feedback_comes_though_the_consumers_died_before_the_step(tmp_path: Path, hours: int) -> None:
    """With a step back their lease and the pending marker lived 3,603 s, and no feedback came."""
    (tmp_path / "redis").mkdir()
    with system(tmp_path) as (server, workers, tb):
        every = FeedbackProviderConfig(StaticFeedback(summary="Look at the log."), FeedbackTrigger(every_n_calls=1))
        prompt = tb.prompt("s1", "p", feedback_providers=[every])
        prompt.tool_invoked("t", params={}, result="r")
        wait_until(lambda: prompt.feedback(wait=1), "the workers serve")
        prompt.tool_invoked("t", params={}, result="r")
        tb.flush()
        workers.kill()
        prompt.tool_invoked("t", params={}, result="r")
        tb.flush()
        server.step_to(hours * HOUR)
        workers.start()
        wait_until(lambda: prompt.feedback(wait=1), "feedback comes after the step")
        stream = stream_of(tb.context.layout.of("s1"), Family.EVENTS)
        wait_until(lambda: tb.context.database.command("XLEN", stream) == 0, "the stream is empty")


@pytest.mark.parametrize("on_lost", ["record", "retry"])
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_healthy_command_survives_the_step_and_runs_once(
    tmp_path: Path, hours: int, on_lost: Literal["record", "retry"]
) -> None:
    """After a step of an hour forward, 4 of 4 healthy commands were declared lost, and two ran twice."""
    (tmp_path / "redis").mkdir()
    ran, go = tmp_path / "ran", tmp_path / "go"
    code = (
        "import os, sys, time\n"
        f"open({str(ran)!r}, 'a').write('x')\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.05)\n"
    )
    with system(tmp_path) as (server, _, tb):
        job = tb.submit([sys.executable, "-c", code], session="s1", cwd=str(tmp_path), timeout=120, on_lost=on_lost)
        wait_until(ran.exists, "the command runs")
        server.step_to(hours * HOUR)
        shard = tb.context.layout.of("s1")
        swept = tb.context.database.command("TIME")[0]
        wait_until(  # leases go by, in which sweeps look at it
            lambda: int(tb.context.database.command("TIME")[0]) > int(swept) + 15, "sweeps have watched"
        )
        go.touch()
        record = job.wait(timeout=60)
        assert (record.exit_code, record.error, record.attempt) == (0, None, 1)
        assert ran.read_text() == "x", "it ran once"
        assert [each.command_id for each in tb.records("s1")] == [job.command_id]
        assert tb.context.database.command("ZCARD", shard.key("running")) == 0
