"""The systems of the turns' pipeline, each alone. Requirements T-35, T-39, T-40 and T-43."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest

from tellback import (
    ErrorInterpretationSystem,
    ErrorRule,
    FeedbackGuaranteeSystem,
    LlmError,
    LlmResponse,
    OutgoingResponse,
    OutgoingResponsePreparationSystem,
    ResponseRoutingSystem,
    RoutingOutcome,
    SystemFailure,
    TurnAbout,
    TurnContext,
    TurnMessage,
    Words,
)
from tellback.errors import ConfigurationError, InvalidInput
from tellback.turns.fallback_text import (
    ATTACHMENT_KEY,
    BUSY_KEY,
    FEEDBACK_KEY,
    FILTERED_KEY,
    LIMIT_KEYS,
    TIMEOUT_KEY,
    TOO_LONG_KEY,
    TOOL_KEY,
    UNAVAILABLE_KEY,
)

WORDS = Words()
HELLO = OutgoingResponse.text_only("hello")
AUTO: dict[str, Any] = {"role": "user", "content": "tick", "metadata": {"auto.mode": True}}
NORMAL: dict[str, Any] = {"role": "user", "content": "hi", "metadata": {}}
GENERIC = WORDS.feedback("de")


def turn(**fields: Any) -> TurnContext:
    given: dict[str, Any] = {"messages": [NORMAL], "turn": TurnAbout("t0-1", "chat", "c1", "de"), **fields}
    return TurnContext(**given)


def prepared(context: TurnContext, **options: Any) -> OutgoingResponse | None:
    OutgoingResponsePreparationSystem(WORDS, **options).process(context)
    return context.outgoing_response


class TestGuarantee:
    system = FeedbackGuaranteeSystem(WORDS)

    def test_auto_mode_is_not_processed(self) -> None:
        context = turn(messages=[NORMAL, AUTO])
        assert not self.system.should_process(context)
        self.system.process(context)
        assert context == turn(messages=[NORMAL, AUTO])

    def test_an_existing_response_is_not_processed_and_not_overridden(self) -> None:
        context = turn(outgoing_response=HELLO)
        assert not self.system.should_process(context)
        self.system.process(context)
        assert context.outgoing_response is HELLO
        assert not context.failure_code

    def test_a_missing_response_in_normal_mode_becomes_the_fallback(self) -> None:
        context = turn()
        assert self.system.should_process(context)
        self.system.process(context)
        assert context.outgoing_response == OutgoingResponse.text_only(GENERIC)

    @pytest.mark.parametrize("value", [1, "true", "True", None, [True], 1.0])
    def test_auto_mode_is_true_exactly(self, value: object) -> None:
        assert self.system.should_process(turn(messages=[{"metadata": {"auto.mode": value}}]))

    @pytest.mark.parametrize("message", [{}, {"metadata": None}, {"metadata": "auto.mode"}, TurnMessage(), NORMAL])
    def test_only_the_last_message_sets_auto_mode(self, message: Any) -> None:
        assert self.system.should_process(turn(messages=[AUTO, message]))
        assert not self.system.should_process(turn(messages=[message, AUTO]))
        assert not self.system.should_process(turn(messages=[TurnMessage(metadata={"auto.mode": True})]))

    def test_history_and_the_models_words_are_left_as_they_are(self) -> None:
        messages = [dict(NORMAL), {"role": "assistant", "content": "thinking", "metadata": {"n": 1}}]
        given = {
            "messages": messages,
            "llm_response": LlmResponse(text="not prepared"),
            "llm_error": LlmError(code="c"),
        }
        context, before = turn(**given), copy.deepcopy(messages)
        self.system.process(context)
        assert context.messages is messages
        assert messages == before
        assert context.llm_response is given["llm_response"]
        assert context.llm_error is given["llm_error"]
        assert context.final_answer_ready is False
        assert context.routing_outcome is None, "the guarantee never sends"

    def test_it_says_so_in_the_log_and_not_why(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        context = turn(llm_error=LlmError(code="secret.code", message="inner workings"))
        self.system.process(context)
        (record,) = caplog.records
        assert record.levelname == "INFO"
        assert record.getMessage().startswith("[FeedbackGuarantee] Producing fallback OutgoingResponse ...")
        assert "t0-1" in record.getMessage()
        assert "secret.code" not in caplog.text
        assert "inner" not in caplog.text

    def test_it_says_nothing_where_it_does_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self.system.process(turn(outgoing_response=HELLO))
        assert not caplog.records

    def test_the_orders_are_those_of_the_document(self) -> None:
        orders = (OutgoingResponsePreparationSystem.order, FeedbackGuaranteeSystem.order, ResponseRoutingSystem.order)
        assert orders == (58, 59, 60)


class TestPreparation:
    def test_a_response_that_exists_is_left_alone(self) -> None:
        context = turn(outgoing_response=HELLO, llm_error=LlmError(code="e"), llm_response=LlmResponse(text="x"))
        assert not OutgoingResponsePreparationSystem(WORDS).should_process(context)
        assert prepared(context) is HELLO

    @pytest.mark.parametrize("error", [LlmError(), LlmError(code="llm.timeout", message="after 30 s")])
    @pytest.mark.parametrize("response", [None, LlmResponse(text="an answer")])
    def test_an_error_wins_even_a_blank_one_even_beside_a_response(
        self, error: LlmError, response: LlmResponse | None
    ) -> None:
        context = turn(llm_error=error, llm_response=response, final_answer_ready=True)
        assert prepared(context) == OutgoingResponse.text_only(GENERIC)
        assert context.failure_code == (error.code or "unknown")

    @pytest.mark.parametrize("response", [None, LlmResponse(), LlmResponse(text=" \n"), LlmResponse(text="🔊 ")])
    def test_a_final_answer_that_is_blank_is_an_error(self, response: LlmResponse | None) -> None:
        context = turn(llm_response=response, final_answer_ready=True)
        assert prepared(context) == OutgoingResponse.text_only(GENERIC)
        assert context.failure_code == "response.blank"

    @pytest.mark.parametrize("limit", sorted(LIMIT_KEYS))
    def test_a_limit_is_explained_by_a_text_that_says_which(self, limit: Any) -> None:
        context = turn(llm_response=LlmResponse(text="so far", limit=limit, tool_calls=2))
        assert prepared(context) == OutgoingResponse.text_only(WORDS.say(LIMIT_KEYS[limit], "de"))
        assert context.failure_code == f"limit.{limit}"

    def test_tool_calls_without_a_final_answer_prepare_nothing(self) -> None:
        assert prepared(turn(llm_response=LlmResponse(text="let me see", tool_calls=1))) is None
        final = turn(llm_response=LlmResponse(text="done", tool_calls=1), final_answer_ready=True)
        assert prepared(final) == OutgoingResponse.text_only("done")

    @pytest.mark.parametrize(
        ("given", "wanted"),
        [
            (LlmResponse(text=" as it is\n"), OutgoingResponse.text_only(" as it is\n")),
            (LlmResponse(text="see", attachments=("a.png",)), OutgoingResponse(text="see", attachments=("a.png",))),
            (LlmResponse(text=" ", attachments=("a.png",)), OutgoingResponse(attachments=("a.png",))),
            (LlmResponse(voice="spoken"), OutgoingResponse(voice="spoken")),
            (LlmResponse(text="read", voice="hear"), OutgoingResponse(text="read", voice="hear")),
            (LlmResponse(text="🔊 Hello "), OutgoingResponse(text="Hello", voice="Hello")),
            (LlmResponse(text=" 🔊\ufe0fHello"), OutgoingResponse(text="Hello", voice="Hello")),
            (LlmResponse(text="🔊 Hello", voice="Hullo"), OutgoingResponse(text="Hello", voice="Hullo")),
            (LlmResponse(text="🔊 Hello", voice=" "), OutgoingResponse(text="Hello", voice="Hello")),
            (LlmResponse(text="a 🔊 b"), OutgoingResponse(text="a 🔊 b")),
            (LlmResponse(text="🔊"), None),
            (LlmResponse(), None),
        ],
    )
    def test_text_voice_and_attachments_are_prepared(self, given: LlmResponse, wanted: OutgoingResponse | None) -> None:
        assert prepared(turn(llm_response=given)) == wanted

    @pytest.mark.parametrize("channels", [(), ("chat",), ("*",), ("other",)])
    def test_voice_in_voice_out_where_it_is_configured(self, channels: tuple[str, ...]) -> None:
        spoken = {"role": "user", "metadata": {"voice": True}}
        tool = {"role": "tool", "content": "42"}
        answer = LlmResponse(text="42")
        heard = prepared(turn(messages=[spoken, tool], llm_response=answer), voice_channels=channels)
        assert heard == OutgoingResponse(text="42", voice="42" if channels in {("chat",), ("*",)} else None)
        typed = turn(messages=[spoken, NORMAL, tool], llm_response=answer)
        assert prepared(typed, voice_channels=channels) == OutgoingResponse.text_only("42")

    def test_what_no_outbox_holds_is_not_prepared(self) -> None:
        context = turn(llm_response=LlmResponse(text="x" * 70_000))
        with pytest.raises(InvalidInput, match=r"response\.text"):
            prepared(context)
        assert context.outgoing_response is None


class TestRouting:
    def routed(self, context: TurnContext, transport: Any = None) -> RoutingOutcome | None:
        ResponseRoutingSystem(transport).process(context)
        return context.routing_outcome

    def test_the_response_alone_reaches_the_transport_and_its_outcome_is_kept(self) -> None:
        seen: list[OutgoingResponse] = []
        outcome = RoutingOutcome(attempted=True, sent_text=True, sent_voice=True, sent_attachments=2)

        def transport(response: OutgoingResponse) -> RoutingOutcome:
            seen.append(response)
            return outcome

        context = turn(outgoing_response=HELLO, llm_response=LlmResponse(text="other"), llm_error=LlmError(code="e"))
        assert self.routed(context, transport) is outcome
        assert seen == [HELLO]

    def test_nothing_to_send_is_an_outcome(self) -> None:
        outcome = self.routed(turn(), pytest.fail)
        assert outcome == RoutingOutcome(attempted=False, error="there was nothing to send")
        assert ResponseRoutingSystem().should_process(turn())

    def test_no_transport_is_an_outcome(self) -> None:
        outcome = self.routed(turn(outgoing_response=HELLO))
        assert outcome == RoutingOutcome(attempted=False, error="no transport was given")

    def test_a_transport_that_raises_may_have_sent(self) -> None:
        def transport(_: OutgoingResponse) -> RoutingOutcome:
            raise ConnectionError("token=hunter2")

        outcome = self.routed(turn(outgoing_response=HELLO), transport)
        assert outcome is not None
        assert outcome.settlement == "ambiguous"
        assert outcome.error == "the transport raised ConnectionError"

    def test_a_transport_that_is_interrupted_leaves_its_outcome_too(self) -> None:
        context = turn(outgoing_response=HELLO)

        def transport(_: OutgoingResponse) -> RoutingOutcome:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.routed(context, transport)
        assert context.routing_outcome is not None
        assert context.routing_outcome.settlement == "ambiguous"

    @pytest.mark.parametrize("returned", [None, True, {"attempted": True}])
    def test_a_transport_that_says_nothing_is_not_taken_for_success(self, returned: object) -> None:
        def transport(_: OutgoingResponse) -> object:
            return returned

        outcome = self.routed(turn(outgoing_response=HELLO), transport)
        assert outcome is not None
        assert not outcome.delivered
        assert outcome.settlement == "ambiguous"


class TestInterpretation:
    def reported(self, context: TurnContext, *rules: ErrorRule) -> str | None:
        system = ErrorInterpretationSystem(WORDS, rules=rules)
        if system.should_process(context):
            system.process(context)
        return None if context.outgoing_response is None else context.outgoing_response.text

    @pytest.mark.parametrize(
        ("code", "message", "key"),
        [
            ("llm.timeout", "", TIMEOUT_KEY),
            ("", "Request timed out.", TIMEOUT_KEY),
            ("APITimeoutError", "", TIMEOUT_KEY),
            ("", "DEADLINE_EXCEEDED", TIMEOUT_KEY),
            ("504", "", TIMEOUT_KEY),
            ("rate_limit_error", "", BUSY_KEY),
            ("", "Error code: 429 - {'error': 'Too Many Requests'}", BUSY_KEY),
            ("overloaded_error", "Overloaded", BUSY_KEY),
            ("RESOURCE_EXHAUSTED", "", BUSY_KEY),
            ("context_length_exceeded", "This model's maximum context length is 8192 tokens", TOO_LONG_KEY),
            ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", TOO_LONG_KEY),
            ("content_filter", "", FILTERED_KEY),
            ("", "The response was filtered due to Azure OpenAI's content management policy", FILTERED_KEY),
            ("", "violates our content policy", FILTERED_KEY),
            ("", "[Errno 111] Connection refused", UNAVAILABLE_KEY),
            ("", "503 Service Unavailable", UNAVAILABLE_KEY),
            ("insufficient_quota", "", UNAVAILABLE_KEY),
            ("", "415 Unsupported Media Type", ATTACHMENT_KEY),
            ("tool_error", "the tool failed", TOOL_KEY),
            ("", "KeyError: 'x'", None),
            ("", "", None),
        ],
    )
    def test_what_is_known_is_explained_in_words_for_users(self, code: str, message: str, key: str | None) -> None:
        context = turn(llm_error=LlmError(code=code, message=message))
        wanted = None if key is None else WORDS.say(key, "de")
        assert self.reported(context) == wanted
        assert bool(context.failure_code) is (key is not None)

    def test_the_failure_of_a_system_is_explained_where_there_is_no_answer(self) -> None:
        failures = [
            SystemFailure(system="plan", error="TimeoutError", message="after 30 s"),
            SystemFailure(system="ToolLoop", error="ToolError", message="tool failed"),
        ]
        assert self.reported(turn(system_errors=failures)) == WORDS.say(TOOL_KEY, "de"), "the last one is nearest"
        assert self.reported(turn(system_errors=failures[:1])) == WORDS.say(TIMEOUT_KEY, "de")
        assert self.reported(turn(system_errors=failures, llm_response=LlmResponse(text="an answer"))) is None
        assert self.reported(turn(system_errors=failures, llm_response=LlmResponse(limit="time"))) is None
        waits = turn(system_errors=failures, llm_response=LlmResponse(text="let me see", tool_calls=1))
        assert self.reported(waits) == WORDS.say(TOOL_KEY, "de")
        assert self.reported(turn(system_errors=failures, outgoing_response=HELLO)) == "hello"
        assert self.reported(turn(system_errors=failures, messages=[AUTO])) is None
        assert self.reported(turn()) is None

    @pytest.mark.parametrize(
        ("reason", "key"),
        [("content_filter", FILTERED_KEY), ("length", LIMIT_KEYS["tokens"]), ("max_tokens", LIMIT_KEYS["tokens"])],
    )
    def test_the_providers_reason_for_a_blank_response_is_given(self, reason: str, key: str) -> None:
        assert self.reported(turn(llm_response=LlmResponse(finish_reason=reason))) == WORDS.say(key, "de")
        assert self.reported(turn(llm_response=LlmResponse(text="cut", finish_reason=reason))) is None

    def test_own_rules_come_first_and_can_say_nothing_but_words_of_the_catalogs(self) -> None:
        rule = ErrorRule("KEYERROR|429", FEEDBACK_KEY)
        assert self.reported(turn(llm_error=LlmError(message="KeyError: 'x'")), rule) == GENERIC
        assert self.reported(turn(llm_error=LlmError(code="429")), rule) == GENERIC
        with pytest.raises(ConfigurationError, match="use one of"):
            ErrorRule("x", "the database password is hunter2")
        with pytest.raises(ConfigurationError, match="pattern"):
            ErrorRule("(", FEEDBACK_KEY)

    def test_a_rule_reads_a_bounded_part_of_what_failed(self) -> None:
        assert self.reported(turn(llm_error=LlmError(message="x" * 2_000 + " timeout"))) is None


def test_a_context_has_the_fields_of_the_design() -> None:
    context = TurnContext()
    assert (context.messages, context.llm_response, context.llm_error, context.system_errors) == ((), None, None, [])
    assert (context.outgoing_response, context.final_answer_ready, context.routing_outcome) == (None, False, None)
    assert not context.auto
