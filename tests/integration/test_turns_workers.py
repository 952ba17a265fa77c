"""Turns with real workers and a real beat: answers through the intake, hosts that die, Redis that goes away."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tellback import LlmError, OutgoingResponse, Tellback, connect
from tellback.contracts.turns import TurnFinished
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import stream_of
from tellback.turns.fallback_text import Words
from tests.support.redis_server import RedisServer
from tests.support.turns import HELLO, delivered_now, opened, sent, state, store
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers, environment

HOST = """
import sys, time
import tellback
with tellback.connect() as tb:
    turn = tb.open_turn(channel="chat", conversation=sys.argv[1], message_id="m", text="hi", language="de",
                        answer_within=float(sys.argv[2]))
    print(turn.id, flush=True)
    time.sleep(60)
    turn.respond(tellback.OutgoingResponse.text_only("never said"))
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A beat with short periods."""
    return msgspec.structs.replace(settings, beat_period=0.5)


def host(settings: Settings, conversation: str, answer_within: float) -> tuple[subprocess.Popen[str], str]:
    """An agent host in the middle of a turn, and the turn's id."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOST, conversation, str(answer_within)],
        env=environment(settings),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def finished(event_id: str, turn: str, response: OutgoingResponse) -> TurnFinished:
    return TurnFinished(event_id=event_id, turn=turn, channel="chat", conversation="c1", response=response)


def answered(tb: Tellback, turn_id: str) -> bool:
    found = store(tb).load([turn_id])[0]
    return found is not None and not found.is_open


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_host_killed_in_the_middle_of_a_turn_gets_its_user_a_fallback(
    tb: Tellback, settings: Settings, start_workers: StartWorkers, beat: subprocess.Popen[bytes]
) -> None:
    workers = start_workers(1, queues="sweeps,turns")
    hosts = [host(settings, f"c{number}", 2.0) for number in range(4)]
    for process, _ in hosts:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    assert beat.poll() is None
    for _, turn in hosts:
        wait_until(partial(answered, tb, turn), "the sweep answers")
    assert sorted(sent(tb)) == sorted((turn, "fallback", Words().feedback("de")) for _, turn in hosts)
    log = workers.log()
    assert log.count("[FeedbackGuarantee] Producing fallback OutgoingResponse ...") == 4
    for _, turn in hosts:
        assert turn in log


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_answers_through_the_intake_are_applied_in_order(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(1, queues="turns")
    turns = [opened(tb, conversation=f"c{number % 3}", language="ja") for number in range(60)]
    for number, turn in enumerate(turns):
        if number == 30:
            turn.finish(llm_error=LlmError(code="llm.timeout"))
        else:
            turn.finish(OutgoingResponse.text_only(f"answer {number}"))
    wait_until(lambda: all(answered(tb, turn.id) for turn in turns), "every answer is applied")
    found = delivered_now(tb)
    assert {item.kind for item in found} == {"answer"}
    texts = {item.turn_id: item.response.text for item in found}
    assert [texts[turn.id] for turn in turns] == [
        Words().feedback("ja") if number == 30 else f"answer {number}" for number in range(60)
    ]
    for talk in range(3):
        order = [item.turn_id for item in found if item.conversation == f"c{talk}"]
        assert order == [turn.id for turn in turns if turn.conversation == f"c{talk}"]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_what_answers_no_turn_is_a_dead_letter_and_the_stream_goes_on(
    tb: Tellback, database: Database, start_workers: StartWorkers
) -> None:
    start_workers(1, queues="turns")
    turn, other = opened(tb), opened(tb, conversation="c2")
    for event in (
        finished("1", "t0-000000000000000000000000", HELLO),
        finished("2", "not an id", HELLO),
        finished("3", other.id, HELLO),
        finished("4", turn.id, OutgoingResponse.text_only("x" * 70_000)),
        finished("5", turn.id, OutgoingResponse.text_only(" ")),
    ):
        tb.context.publisher.publish(event)
    tb.flush()
    wait_until(lambda: answered(tb, turn.id), "the last event is applied")
    reasons = sorted(letter.reason.partition(":")[0] for letter in tb.dead.newest())
    expected = ["no such turn", "no such turn", "response.text", "the turn belongs to another conversation"]
    assert reasons == expected
    assert sent(tb) == [(turn.id, "answer", Words().feedback("en"))], "a blank answer is an error, never silence"
    assert state(other) == "open"
    stream = stream_of(tb.context.layout.of_turn("chat", "c1"), Family.TURNS)
    wait_until(lambda: database.command("XLEN", stream) == 0, "the stream is empty")


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_answers_given_while_redis_is_away_are_spooled_and_applied(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path) as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "host"))
        workers = Workers(settings, tmp_path, queues="turns")
        try:
            with connect(settings=settings) as tb:
                one, two, three = opened(tb), opened(tb), opened(tb, language="es")
                one.respond(HELLO)
                server.kill()
                assert two.respond(OutgoingResponse.text_only("kept on disk")) == "spooled"
                assert two.respond(OutgoingResponse.text_only("again")) == "spooled"
                assert three.fail(code="llm.down") == "spooled"
                server.launch()
                workers.start(1)
                wait_until(lambda: _all_answered(tb, two.id, three.id), "the spool is applied")
                assert sent(tb) == [
                    (one.id, "answer", "hello"),
                    (two.id, "answer", "kept on disk"),
                    (three.id, "answer", Words().feedback("es")),
                ]
                assert two.respond(HELLO) == "duplicate"
        finally:
            workers.stop()


def _all_answered(tb: Tellback, *turns: str) -> bool:
    return all(answered(tb, turn) for turn in turns)
