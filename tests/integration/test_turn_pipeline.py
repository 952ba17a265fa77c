"""The pipeline on a real Redis: from `finish` through the workers' loop to outbox and history, and in the host."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from tellback import (
    LlmError,
    LlmResponse,
    OutgoingResponse,
    SystemFailure,
    Tellback,
    TurnContext,
    TurnPipeline,
    Words,
    connect,
)
from tellback.client.turns import Turn
from tellback.contracts.codec import decode
from tellback.errors import InvalidInput, Unavailable
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.intake_lease import IntakeEntry
from tellback.state.turns import Turns
from tellback.turns.fallback_text import BUSY_KEY, LIMIT_KEYS
from tellback_workers.loops.turns import TurnsLoop
from tellback_workers.runtime import Runtime
from tests.support import systems
from tests.support.examples import examples
from tests.support.intake_entries import read_new
from tests.support.leaking import TEXTS, Blurts, leaks, shown
from tests.support.turns import delivered_now, opened, overdue, sent, state, swept
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

WORDS = Words()
SYSTEMS = "tests.support.systems:"


def apply(tb: Tellback, runtime: Runtime, *, deliveries: int = 1, **settings: Any) -> None:
    """All that waits in the intake, as a worker of these settings applies it."""
    tb.flush()
    runtime.settings = msgspec.structs.replace(runtime.settings, **settings)
    loop, intake = TurnsLoop(runtime, "default"), runtime.intake("default")
    for shard in tb.context.layout.all:
        lease = intake.take_lease(shard, Family.TURNS, 5)
        assert lease is not None
        raws = read_new(intake, lease, 100)
        loop.apply(lease, [IntakeEntry(raw.id, decode(raw.raw or b"", Family.TURNS), deliveries) for raw in raws])
        intake.release(lease)


def reported(tb: Tellback, turn: Turn) -> list[dict[str, Any]]:
    return [entry for entry in tb.history(turn.session) if entry.get("turn") == turn.id]


def routed(tb: Tellback, turn: Turn) -> dict[str, Any]:
    (entry,) = (entry for entry in reported(tb, turn) if entry["event"] == "routed")
    return entry


def test_a_models_response_becomes_the_answer(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb)
    turn.finish(llm_response=LlmResponse(text="🔊 42", attachments=("a.png",)), final_answer_ready=True)
    assert state(turn) == "finishing"
    apply(tb, runtime)
    assert state(turn) == "responded"
    (delivery,) = delivered_now(tb)
    assert delivery.kind == "answer"
    assert delivery.response == OutgoingResponse(text="42", voice="42", attachments=("a.png",))
    assert routed(tb, turn)["outcome"]["queued"] is True


def test_an_error_wins_and_its_code_is_for_operators(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb, language="ja")
    turn.finish(llm_response=None, llm_error=LlmError(code="llm.timeout", message="after 30 s"))
    apply(tb, runtime)
    assert sent(tb) == [(turn.id, "answer", WORDS.feedback("ja"))]
    assert routed(tb, turn)["code"] == "llm.timeout"
    (answered,) = (entry for entry in reported(tb, turn) if entry["event"] == "answered")
    assert answered["code"] == "llm.timeout", "a feedback is no final answer"


def test_the_kind_of_error_is_named_where_the_workers_are_set_so(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb, language="fr")
    turn.finish(llm_error=LlmError(code="rate_limit_error"))
    apply(tb, runtime, interpret_errors=True)
    assert sent(tb) == [(turn.id, "answer", WORDS.say(BUSY_KEY, "fr"))]


def test_a_blank_final_answer_and_a_limit_are_explained(tb: Tellback, runtime: Runtime) -> None:
    blank, limit = opened(tb), opened(tb, conversation="c2", language="ru")
    blank.finish(final_answer_ready=True)
    limit.finish(llm_response=LlmResponse(limit="tool_calls", tool_calls=3))
    apply(tb, runtime)
    found = {delivery.turn_id: delivery.response.text for delivery in delivered_now(tb)}
    assert found == {blank.id: WORDS.feedback(), limit.id: WORDS.say(LIMIT_KEYS["tool_calls"], "ru")}
    assert routed(tb, blank)["code"] == "response.blank"
    assert routed(tb, limit)["code"] == "limit.tool_calls"


def test_nothing_prepared_is_answered_by_the_guarantee_with_its_log_line(
    tb: Tellback, runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    turn = opened(tb, language="de")
    turn.finish(llm_response=LlmResponse(text="let me see", tool_calls=1))
    apply(tb, runtime)
    assert sent(tb) == [(turn.id, "answer", WORDS.feedback("de"))]
    assert "[FeedbackGuarantee] Producing fallback OutgoingResponse ..." in caplog.text
    assert routed(tb, turn)["code"] == "feedback.guarantee"


def test_a_turn_of_auto_mode_is_closed_in_silence(tb: Tellback, runtime: Runtime) -> None:
    quiet = opened(tb, metadata={"auto.mode": True})
    failed = opened(tb, metadata={"auto.mode": True})
    speaks = opened(tb, metadata={"auto.mode": True})
    quiet.finish(llm_response=LlmResponse(tool_calls=1))
    failed.finish(llm_error=LlmError(code="llm.timeout"))
    speaks.finish(llm_response=LlmResponse(text="by the way"))
    apply(tb, runtime, interpret_errors=True)
    assert [state(turn) for turn in (quiet, failed, speaks)] == ["no_reply", "no_reply", "responded"]
    assert sent(tb) == [(speaks.id, "answer", "by the way")]


def test_an_auto_mode_step_within_a_users_turn_leaves_the_user_owed(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb)
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "user", "metadata": {"auto.mode": True}},
    ]
    turn.finish(llm_response=LlmResponse(tool_calls=1), messages=messages)
    apply(tb, runtime)
    assert state(turn) == "finishing", "the sweep answers, or a later answer of the host"
    assert routed(tb, turn)["outcome"]["error"] == "there was nothing to send"
    turn.respond(OutgoingResponse.text_only("done"))
    assert sent(tb) == [(turn.id, "answer", "done")]


def test_voice_in_voice_out_by_the_last_message_of_the_user(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb)
    messages: list[dict[str, Any]] = [
        {"role": "user", "metadata": {"voice": True}},
        {"role": "tool", "content": "secret tool output"},
    ]
    turn.finish(llm_response=LlmResponse(text="42"), messages=messages)
    apply(tb, runtime, voice_channels="chat, other")
    (delivery,) = delivered_now(tb)
    assert delivery.response == OutgoingResponse(text="42", voice="42")


def test_the_channels_language_and_own_catalogs_are_used(tb: Tellback, runtime: Runtime, tmp_path: Path) -> None:
    folder = tmp_path / "words" / "nl" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "tellback.po").write_text('msgid "system.error.generic.feedback"\nmsgstr "Er ging iets mis."\n')
    turn, other = opened(tb), opened(tb, language="de", conversation="c2")
    for each in (turn, other):
        each.finish(llm_error=LlmError())
    apply(tb, runtime, channel_languages="chat=nl", catalogs=str(tmp_path / "words"))
    found = {delivery.turn_id: delivery.response.text for delivery in delivered_now(tb)}
    assert found == {turn.id: "Er ging iets mis.", other.id: WORDS.feedback("de")}


def test_the_sweep_and_a_failure_speak_the_channels_language_too(settings: Settings, tb: Tellback) -> None:
    del tb
    with connect(settings=msgspec.structs.replace(settings, channel_languages="chat=ru")) as russian:
        failed, late = opened(russian), overdue(russian)
        failed.fail(code="llm.down")
        assert swept(russian) == 1
        text = WORDS.feedback("ru")
        assert sorted(sent(russian)) == sorted([(failed.id, "answer", text), (late.id, "fallback", text)])


@pytest.mark.parametrize(
    "bad", ["RaisingSystem", "RaisesWhenAsked", "ExitingSystem", "HangingSystem", "Silences", "Spoils"]
)
def test_a_bad_system_costs_its_own_work_and_is_reported(tb: Tellback, runtime: Runtime, bad: str) -> None:
    turn = opened(tb)
    turn.finish(llm_response=LlmResponse(text="42"))
    apply(tb, runtime, systems=f"{SYSTEMS}{bad},{SYSTEMS}Signs", system_timeout=0.5)
    assert sent(tb) == [(turn.id, "answer", "42 (signed)")]
    (error,) = routed(tb, turn)["errors"]
    assert error.startswith(f"{bad}: ")


def test_a_system_that_hangs_costs_the_turns_behind_it_no_other_system(tb: Tellback, runtime: Runtime) -> None:
    turns = [opened(tb) for _ in range(8)]
    for turn in turns:
        turn.finish(llm_response=LlmResponse(text="42"))
    apply(tb, runtime, systems=f"{SYSTEMS}HangingSystem,{SYSTEMS}Signs", system_timeout=0.5, consumer_lease=4.0)
    assert [text for _, _, text in sent(tb)] == ["42 (signed)"] * 8
    first, *others = [routed(tb, turn)["errors"] for turn in turns]
    assert "did not return within 0.5 s" in first[0]
    assert all("hung at an earlier turn" in error for [error] in others)


def test_an_entry_that_comes_again_is_processed_by_our_systems_alone(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb)
    turn.finish(llm_response=LlmResponse(text="42"))
    apply(tb, runtime, systems=f"{SYSTEMS}Signs", deliveries=2)
    assert sent(tb) == [(turn.id, "answer", "42")]
    assert "only built-in systems ran" in routed(tb, turn)["errors"][0]


def test_a_plain_answer_adds_nothing_to_the_history(tb: Tellback, runtime: Runtime) -> None:
    turn = opened(tb)
    turn.finish(OutgoingResponse.text_only("42"))
    apply(tb, runtime)
    assert [entry["event"] for entry in reported(tb, turn)] == ["opened", "answered"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"response": OutgoingResponse.text_only("a"), "llm_error": LlmError()},
        {"response": OutgoingResponse.text_only("a"), "llm_response": LlmResponse(text="a")},
        {"llm_response": "text"},
        {"llm_response": LlmResponse(text="x" * 70_000)},
        {"llm_response": LlmResponse(text="\ud800")},
        {"llm_error": "timeout"},
        {"llm_response": LlmResponse(text="a"), "messages": "hi"},
        {"llm_response": LlmResponse(text="a"), "messages": ["hi"]},
        {"system_errors": ["boom"]},
        {"system_errors": None, "final_answer_ready": True},
        {"final_answer_ready": "yes"},
        {"final_answer_ready": 1},
    ],
)
def test_what_the_workers_could_not_use_is_refused_before_the_turn_is_marked(tb: Tellback, given: Any) -> None:
    turn = opened(tb)
    with pytest.raises(InvalidInput):
        turn.finish(**given)
    assert state(turn) == "open"


def test_the_same_systems_run_in_the_host(tb: Tellback) -> None:
    turn, second, failed = opened(tb), opened(tb), opened(tb)
    context = turn.run(TurnContext(llm_response=LlmResponse(text="42")), pipeline=TurnPipeline([systems.Signs()]))
    assert context.routing_outcome is not None
    assert context.routing_outcome.queued
    assert context.turn.id == turn.id
    again = turn.run(TurnContext(llm_response=LlmResponse(text="43")))
    assert again.routing_outcome is not None
    assert again.routing_outcome.error == "the outbox did not take it: duplicate"
    second.run(TurnContext())
    failed.run(TurnContext(llm_error=LlmError(code="llm.down")), pipeline=TurnPipeline([systems.RaisingSystem()]))
    generic = WORDS.feedback()
    assert sent(tb) == [
        (turn.id, "answer", "42 (signed)"), (second.id, "answer", generic), (failed.id, "answer", generic),
    ]  # fmt: skip
    codes = {entry["turn"]: entry.get("code") for entry in tb.history("c1") if entry.get("event") == "answered"}
    assert codes == {turn.id: None, second.id: "feedback.guarantee", failed.id: "llm.down"}


@pytest.mark.parametrize("code", ["limit.time", "\n"])
def test_what_a_host_says_of_a_failure_while_redis_is_away_reaches_the_user(
    tb: Tellback, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """The user gets the words of its pipeline, catalogs and systems, not those that the workers would choose."""
    turn = opened(tb, language="de")
    context = TurnContext(llm_response=LlmResponse(limit="time"))
    text = WORDS.say(LIMIT_KEYS["time"], "de")
    if code != "limit.time":
        context = TurnContext(outgoing_response=OutgoingResponse.text_only("a system's words"), failure_code=code)
        text = "a system's words"

    def away(*_: object) -> None:
        raise Unavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(Turns, "answer", away)
        outcome = turn.run(context).routing_outcome
    assert outcome is not None
    assert outcome.queued
    apply(tb, runtime)
    assert sent(tb) == [(turn.id, "answer", text)]
    (answered,) = (entry for entry in reported(tb, turn) if entry["event"] == "answered")
    assert answered["code"] == (code.strip() or "unknown"), "a feedback is no final answer"


@given(leak=leaks, path=st.sampled_from(["code", "message", "system", "failure", "raises", "nests", "field", "reason"]))
@limits(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_secret_and_no_trace_reaches_the_outbox_the_history_or_the_log(
    tb: Tellback,
    runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    leak: tuple[str, str],
    path: str,
) -> None:
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    text, secret = leak
    turn = opened(tb)
    ways: dict[str, dict[str, Any]] = {
        "code": {"llm_error": LlmError(code=text)},
        "message": {"llm_error": LlmError(message=text)},
        "system": {"system_errors": [SystemFailure(system=text)]},
        "failure": {"system_errors": [SystemFailure(system="plan", error=text, message=text)]},
        "reason": {"llm_response": LlmResponse(finish_reason=text)},
    }
    blurting = [Blurts(text, path, 59.5)] if path in {"raises", "nests", "field"} else []

    def loaded(_: str) -> tuple[Blurts, ...]:
        return tuple(blurting)

    monkeypatch.setattr("tellback_workers.isolation.load_systems", loaded)
    turn.finish(**ways.get(path, {"llm_response": LlmResponse(tool_calls=1)}))
    apply(tb, runtime, interpret_errors=True)
    assert [text in TEXTS for _, _, text in sent(tb)] == [True]
    assert shown(json.dumps(reported(tb, turn), ensure_ascii=False), secret) == []
    assert shown(caplog.text, secret) == []


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(120)
@pytest.mark.parametrize("bad", ["Dies", "HangingSystem"])
def test_a_real_worker_answers_whatever_a_system_does(
    tb: Tellback, settings: Settings, start_workers: StartWorkers, bad: str
) -> None:
    del settings
    env = {"TELLBACK_SYSTEMS": f"{SYSTEMS}{bad}", "TELLBACK_SYSTEM_TIMEOUT": "0.1", "PYTHONPATH": str(Path.cwd())}
    start_workers(1, queues="turns,sweeps", env=env)
    turns = [opened(tb, conversation=f"c{number}") for number in range(3)]
    for turn in turns:
        turn.finish(llm_response=LlmResponse(text="42"))
    wait_until(lambda: all(state(turn) == "responded" for turn in turns), "each turn has its answer")
    assert sorted(sent(tb)) == sorted((turn.id, "answer", "42") for turn in turns)
