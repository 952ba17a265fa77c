"""The pipeline as a whole: its two scenarios, and systems that do what they should not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tellback import (
    AgentSystem,
    FeedbackGuaranteeSystem,
    LlmError,
    LlmResponse,
    OutgoingResponse,
    RoutingOutcome,
    SystemFailure,
    TurnAbout,
    TurnContext,
    TurnPipeline,
    Words,
)
from tellback.errors import ConfigurationError, InvalidInput
from tellback.turns.pipeline.runner import load_systems
from tests.support import systems

GENERIC = Words().feedback("en")
SENT = RoutingOutcome(attempted=True, sent_text=True)
HELLO = OutgoingResponse.text_only("hello")


@dataclass
class Chat:
    """The responses that a user of a chat platform has received."""

    received: list[OutgoingResponse] = field(default_factory=list[OutgoingResponse])

    def send(self, response: OutgoingResponse) -> RoutingOutcome:
        self.received.append(response)
        return SENT

    @property
    def texts(self) -> list[str | None]:
        return [response.text for response in self.received]


def run(context: TurnContext, *given: AgentSystem, **options: Any) -> Chat:
    chat = Chat()
    TurnPipeline(given, **options).run(context, chat.send)
    return chat


# Scenarios in the words given, when, then: requirements T-41 and T-42.


def given_a_context_where_all_upstream_systems_did_nothing() -> TurnContext:
    return TurnContext(messages=[{"role": "user", "content": "hi", "metadata": {}}], turn=TurnAbout(language="en"))


def given_a_context_with_an_llm_error() -> TurnContext:
    context = given_a_context_where_all_upstream_systems_did_nothing()
    context.llm_error = LlmError(code="llm.timeout", message="no reply in 30 s")
    return context


def when_the_pipeline_runs(context: TurnContext, *given: AgentSystem) -> Chat:
    return run(context, systems.IdleSystem(), *given)


def then_the_user_receives_the_fallback_once(context: TurnContext, chat: Chat) -> None:
    assert chat.texts == [GENERIC]
    assert context.routing_outcome == SENT


def then_the_guarantee_did_not_run(caplog: pytest.LogCaptureFixture) -> None:
    assert "[FeedbackGuarantee]" not in caplog.text


def test_scenario_nothing_was_done_upstream_and_routing_still_sends_the_fallback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    context = given_a_context_where_all_upstream_systems_did_nothing()
    chat = when_the_pipeline_runs(context)
    then_the_user_receives_the_fallback_once(context, chat)
    assert "[FeedbackGuarantee] Producing fallback OutgoingResponse ..." in caplog.text


def test_scenario_an_llm_error_is_handled_by_preparation_and_the_guarantee_does_not_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    context = given_a_context_with_an_llm_error()
    chat = when_the_pipeline_runs(context)
    then_the_user_receives_the_fallback_once(context, chat)
    then_the_guarantee_did_not_run(caplog)
    assert context.failure_code == "llm.timeout"


def test_systems_run_in_their_order_and_ours_first_where_orders_are_equal() -> None:
    placed: list[AgentSystem] = [systems.Spoils(order=order) for order in (61, 58, 57, 60, 12.5)]
    for number, system in enumerate(placed):
        type_ = type(f"S{number}", (systems.Spoils,), {})
        placed[number] = type_(order=system.order)
    names = TurnPipeline(placed, interpret_errors=True).names
    assert names == [
        "S4", "ErrorInterpretationSystem", "S2", "OutgoingResponsePreparationSystem", "S1", "FeedbackGuaranteeSystem",
        "S3", "ResponseRoutingSystem", "S0",
    ]  # fmt: skip


def test_a_system_of_a_user_changes_what_is_sent() -> None:
    assert run(TurnContext(llm_response=LlmResponse(text="42")), systems.Signs()).texts == ["42 (signed)"]


@pytest.mark.parametrize("order", [1, 57.5, 58.5, 59.5, 60, 61])
@pytest.mark.parametrize("kind", [systems.RaisingSystem, systems.RaisesWhenAsked])
def test_a_system_that_raises_has_no_effect_is_recorded_and_the_others_still_run(
    kind: Callable[[], systems.IdleSystem], order: float
) -> None:
    system = kind()
    system.order = order
    earlier = SystemFailure(system="host", error="E", message="earlier")
    context = TurnContext(llm_response=LlmResponse(text="42"), system_errors=[earlier])
    assert run(context, system).texts == ["42"]
    assert context.routing_outcome == SENT
    assert context.llm_error is None
    assert not context.failure_code
    reported = {
        "RaisingSystem": SystemFailure(system="RaisingSystem", error="ValueError", message="it broke"),
        "RaisesWhenAsked": SystemFailure(system="RaisesWhenAsked", error="RuntimeError", message="not even asked"),
    }
    assert context.system_errors == [earlier, reported[system.name]]


def test_one_of_our_own_systems_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    context = TurnContext(llm_response=LlmResponse(text="x" * 70_000))
    assert run(context).texts == [GENERIC], "what cannot be prepared is answered by the guarantee"
    assert [failure.system for failure in context.system_errors] == ["OutgoingResponsePreparationSystem"]
    monkeypatch.setattr(FeedbackGuaranteeSystem, "process", systems.RaisingSystem().process)
    broken = TurnContext()
    assert run(broken).texts == []
    assert broken.routing_outcome == RoutingOutcome(attempted=False, error="there was nothing to send")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_is_the_hosts_own(error: type[BaseException]) -> None:
    class Leaves(systems.IdleSystem):
        def process(self, context: TurnContext) -> None:
            del context
            raise error

    with pytest.raises(error):
        run(TurnContext(), Leaves())


@pytest.mark.parametrize(
    "value", [None, "text", OutgoingResponse(), OutgoingResponse.text_only(" "), OutgoingResponse(text=cast("Any", 5)),
              OutgoingResponse.text_only("x" * 70_000), OutgoingResponse.text_only("\ud800")],
    ids=["none", "str", "nothing", "blank", "number", "large", "surrogate"],
)  # fmt: skip
def test_no_system_can_take_away_or_spoil_what_is_to_be_sent(value: Any) -> None:
    context = TurnContext(llm_response=LlmResponse(text="42"))
    assert run(context, systems.Spoils(value=value)).texts == ["42"]
    (failure,) = context.system_errors
    assert (failure.system, failure.error) == ("Spoils", "InvalidInput")
    assert failure.message.startswith("outgoing_response: ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("messages", []),
        ("turn", TurnAbout("other")),
        ("llm_response", "text"),
        ("llm_error", ValueError("x")),
        ("final_answer_ready", None),
        ("failure_code", None),
        ("system_errors", None),
        ("system_errors", ["text"]),
        ("routing_outcome", "sent"),
    ],
)
@pytest.mark.parametrize("order", [1, 59.5, 61])
def test_a_field_that_a_system_spoils_is_put_back(name: str, value: Any, order: float) -> None:
    context = TurnContext(messages=[{"role": "user"}], llm_response=LlmResponse(text="42"))
    before = getattr(context, name)
    assert run(context, systems.Spoils(name, value, order)).texts == ["42"]
    if name not in {"routing_outcome", "system_errors"}:
        assert getattr(context, name) is before
    assert context.routing_outcome == SENT
    assert [failure.message.partition(":")[0] for failure in context.system_errors] == [name]


def test_an_outcome_cannot_be_taken_away_after_routing() -> None:
    context = TurnContext(outgoing_response=HELLO)
    run(context, systems.Spoils("routing_outcome", None, 61))
    assert context.routing_outcome == SENT


@pytest.mark.parametrize("value", [OutgoingResponse(), OutgoingResponse.text_only(" \n"), "text"])
def test_a_response_of_the_host_that_nobody_can_send_is_no_response(value: Any) -> None:
    context = TurnContext(outgoing_response=value)
    assert run(context).texts == [GENERIC]
    assert [failure.system for failure in context.system_errors] == ["host"]


@pytest.mark.parametrize(
    ("field_name", "value"),
    [
        ("messages", None),
        ("messages", "hi"),
        ("llm_response", "text"),
        ("llm_response", LlmResponse(text=cast("Any", 5))),
        ("llm_error", "timeout"),
        ("llm_error", ValueError("secret")),
        ("llm_error", LlmError(code=cast("Any", 5))),
        ("system_errors", None),
        ("system_errors", ["boom"]),
        ("final_answer_ready", None),
        ("failure_code", 5),
        ("routing_outcome", "sent"),
    ],
)
def test_what_a_host_gives_and_no_system_can_read_leaves_nobody_without_an_answer(field_name: str, value: Any) -> None:
    context = TurnContext(turn=TurnAbout(language="en"))
    setattr(context, field_name, value)
    assert run(context).texts == [GENERIC]
    assert context.routing_outcome == SENT
    assert [(failure.system, failure.message.partition(":")[0]) for failure in context.system_errors] == [
        ("host", field_name)
    ]
    if field_name == "llm_error":
        assert context.failure_code == "unknown", "an error all the same"


def test_what_is_too_long_is_for_a_system_to_cut() -> None:
    class Cuts(systems.IdleSystem):
        order = 57

        def process(self, context: TurnContext) -> None:
            assert context.llm_response is not None
            context.llm_response = LlmResponse(text=(context.llm_response.text or "")[:5])

    assert run(TurnContext(llm_response=LlmResponse(text="x" * 70_000)), Cuts()).texts == ["xxxxx"]
    failed = TurnContext(llm_error=LlmError(code="llm.timeout", message="x" * 1_000))
    run(failed)
    assert failed.failure_code == "llm.timeout"


def test_a_message_of_any_other_kind_is_a_normal_one() -> None:
    odd: Any = [object()]
    context = TurnContext(messages=odd)
    assert run(context).texts == [GENERIC]
    assert context.system_errors == []
    assert not context.spoken_to


@pytest.mark.parametrize("given", [None, "text", {"llm_response": "42"}])
def test_what_is_no_context_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^context: a TurnContext, not"):
        TurnPipeline().run(given)


def test_in_auto_mode_nobody_gets_anything_and_the_outcome_says_so() -> None:
    context = TurnContext(messages=[{"metadata": {"auto.mode": True}}])
    assert run(context, interpret_errors=True).texts == []
    assert context.routing_outcome == RoutingOutcome(attempted=False, error="there was nothing to send")


def test_interpretation_is_an_option() -> None:
    error = LlmError(code="rate_limit_error")
    assert run(TurnContext(llm_error=error)).texts == [GENERIC]
    (reported,) = run(TurnContext(llm_error=error), interpret_errors=True).texts
    assert reported != GENERIC
    failing = TurnContext()
    (reported,) = run(failing, systems.RaisesWhenAsked(), interpret_errors=True).texts
    assert reported == GENERIC, "no rule knows this one"


class NoProcess:
    name = "NoProcess"
    order = 1


class BadOrder(systems.IdleSystem):
    order = float("nan")


class Ours(systems.IdleSystem):
    @property
    def name(self) -> str:
        return "FeedbackGuaranteeSystem"


class LongName(systems.IdleSystem):
    @property
    def name(self) -> str:
        return "x" * 300


class NameRaises(systems.IdleSystem):
    @property
    def name(self) -> str:
        raise RuntimeError("no name")


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ([NoProcess()], "NoProcess is not an AgentSystem"),
        ([systems.IdleSystem], "is not an AgentSystem"),
        ([None], "is not an AgentSystem"),
        ([BadOrder()], "its order is nan; use a number"),
        ([Ours()], "as one of ours: give it another name"),
        ([LongName()], "is not an AgentSystem"),
        ([NameRaises()], "its name or order raised no name"),
        ([systems.Signs(), systems.Signs()], "two systems are named Signs"),
    ],
)
def test_what_is_no_system_is_refused_when_the_pipeline_is_made(given: list[Any], reported: str) -> None:
    with pytest.raises(ConfigurationError, match=reported):
        TurnPipeline(given)


def test_systems_are_loaded_by_name() -> None:
    loaded = load_systems("tests.support.systems:Signs, tests.support.systems:HangingSystem")
    assert [system.name for system in loaded] == ["Signs", "HangingSystem"]
    assert load_systems("") == ()


@pytest.mark.parametrize(
    "setting",
    [
        "nowhere:Signs",
        "tests.support.systems",
        "tests.support.systems:Missing",
        "tests.support.systems:NOT_A_SYSTEM",
        "tests.support.systems:Signs,tests.support.systems:Signs",
    ],
)
def test_a_setting_that_names_no_system_is_a_clear_error(setting: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^TELLBACK_SYSTEMS"):
        load_systems(setting)
