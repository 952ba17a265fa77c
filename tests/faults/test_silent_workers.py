"""A firewall forgets all connections of a worker, those to the broker too; they swallow what is sent on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback import Tellback
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tests.support.link import Link
from tests.support.redis_server import RedisServer
from tests.support.turns import opened, sent, state
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

EVENTS = 50


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.usefixtures("beat")
def test_a_worker_whose_connections_fall_silent_goes_on(
    tb: Tellback, start_workers: StartWorkers, redis_server: RedisServer, tmp_path: Path
) -> None:
    """It is the only one, so nobody else takes its place; beat and the host have links of their own."""
    evaluations = Evaluations(tb.context.database, tb.context.layout.of("s1"))
    prompt = tb.prompt("s1", "p", evaluation="e1")

    def counted() -> int:
        return evaluations.counts(EvaluationId("s1", "p", "e1")).calls

    def play(number: int) -> None:
        for _ in range(EVENTS):
            prompt.tool_invoked("t")
        job = tb.submit(["true"], session="s1", cwd=tmp_path)
        turn = opened(tb, conversation=f"c{number}", answer_within=1.0)
        assert job.wait(timeout=60).exit_code == 0
        wait_until(lambda: state(turn) == "fallback", "the sweep answers")
        wait_until(lambda: counted() == EVENTS * number, "each call counts")

    with Link(redis_server.port) as link:
        start_workers(env={"TELLBACK_COMMAND_ROOTS": str(tmp_path), "TELLBACK_REDIS_URL": link.url})
        play(1)
        link.forget()
        play(2)
        link.forget(requests=True)
        play(3)
    assert counted() == 3 * EVENTS
    assert [record.exit_code for record in tb.records("s1")] == [0, 0, 0]
    assert len(sent(tb)) == 3
