"""Secrets and stack traces, thrown at every path of the pipeline: no user receives one, and no log shows one."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tellback import LlmError, LlmResponse, OutgoingResponse, RoutingOutcome, SystemFailure, TurnContext, TurnPipeline
from tellback.client.turn_checks import TurnEnding, check_failures, check_llm_error, check_messages
from tellback.contracts.codec import encode
from tellback.state.turn_view import LostTurnOrigin, TurnRef
from tellback.turns.pipeline.checks import error_line, failure_from_exception
from tests.support.examples import examples
from tests.support.leaking import FORMS, TEXTS, Blurts, leaks, secrets, shown

PATHS = (
    "code",
    "message",
    "system",
    "error",
    "reported",
    "finish_reason",
    "raises",
    "nests",
    "field",
    "failure_code",
    "sends",
)


def leaking(path: str, text: str) -> tuple[TurnContext, list[Blurts]]:
    """A turn in which the text comes in by one path."""
    context = TurnContext(turn=TurnContext().turn)
    if path in {"code", "message"}:
        context.llm_error = LlmError(**{path: text})
    elif path in {"system", "error", "reported"}:
        fields = {"system": "plan", "message" if path == "reported" else path: text}
        context.system_errors.append(SystemFailure(**fields))
    elif path == "finish_reason":
        context.llm_response = LlmResponse(finish_reason=text)
    else:
        order = 59.5 if path in {"field", "failure_code"} else 50.0
        return context, [Blurts(text, path, order)] if path != "sends" else []
    return context, []


@given(leak=leaks, path=st.sampled_from(PATHS), interpret=st.booleans(), late=st.booleans())
@settings(max_examples=examples(600), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_user_receives_and_no_log_shows_what_failed(
    caplog: pytest.LogCaptureFixture, leak: tuple[str, str], path: str, *, interpret: bool, late: bool
) -> None:
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    text, secret = leak
    received: list[OutgoingResponse] = []

    def send(response: OutgoingResponse) -> RoutingOutcome:
        received.append(response)
        if path == "sends":
            raise ConnectionError(text)
        return RoutingOutcome(attempted=True, sent_text=True)

    context, systems = leaking(path, text)
    for system in systems:
        system.order += 10 if late and path in {"raises", "nests"} else 0
    TurnPipeline(systems, interpret_errors=interpret).run(context, send)
    assert len(received) == 1
    assert received[0].text in TEXTS
    assert received[0] == OutgoingResponse.text_only(received[0].text or "")
    assert shown(caplog.text, secret) == []
    assert context.routing_outcome is not None
    assert shown(context.routing_outcome.error or "", secret) == []
    if path in {"raises", "nests", "field"}:
        assert shown(repr(context.system_errors), secret) == []


@given(leak=leaks)
@settings(max_examples=examples(300))
def test_what_leaves_the_host_is_cleaned_and_bounded(leak: tuple[str, str]) -> None:
    text, secret = leak
    said = TurnEnding(
        llm_error=check_llm_error(LlmError(code=text, message="\n".join([text] * 100))),
        system_errors=check_failures([SystemFailure(system=text, error=text, message=text)] * 100),
        messages=check_messages([{"role": text[:20], "content": text, "metadata": {"voice": True, "note": text}}]),
    )
    raw = encode(said.to_event(TurnRef("t0-1", "c", "v", "s"), LostTurnOrigin("m", "en", 1, auto=False)))
    assert shown(raw.decode(), secret) == []
    assert len(raw) < 30_000


@pytest.mark.parametrize("form", FORMS)
def test_one_line_is_kept_of_an_error_and_it_is_the_one_that_says_most(form: str) -> None:
    kept = error_line(form.format("the disk is full"), 300)
    assert "\n" not in kept
    assert "full" in kept or kept == "line one"
    assert kept.isprintable()


def test_an_exception_that_cannot_say_what_it_is_is_kept_too() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("mute")

    assert failure_from_exception("plan", MuteError()) == SystemFailure(
        system="plan", error="MuteError", message="(its text cannot be read)"
    )


def test_a_huge_error_costs_no_more_than_what_is_read_of_it() -> None:
    huge = "x" * 50_000_000
    assert len(error_line(huge, 300)) == 300


@pytest.mark.parametrize("given", [None, "text", {"code": "x"}, LlmError(code=cast("Any", 5))])
def test_what_is_no_error_is_refused(given: Any) -> None:
    with pytest.raises(Exception, match=r"^llm_error: "):
        check_llm_error(given)


def test_there_is_something_to_leak() -> None:
    assert len(secrets()) > 100
