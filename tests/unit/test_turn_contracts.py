"""Contracts of hosts and transports about turns."""

from __future__ import annotations

import msgspec
import pytest

from tellback.contracts.codec import decode, encode
from tellback.contracts.turns import OutgoingResponse, RoutingOutcome, TurnFinished
from tellback.errors import InvalidInput, MalformedMessage
from tellback.names import Family
from tellback.state.keys import Layout
from tellback.state.turn_view import excerpt
from tellback.state.turns import turn_id


@pytest.mark.parametrize(
    ("response", "blank"),
    [
        (OutgoingResponse(), True),
        (OutgoingResponse.text_only(""), True),
        (OutgoingResponse(text=" \n", voice="\t"), True),
        (OutgoingResponse.text_only("hi"), False),
        (OutgoingResponse(voice="hi"), False),
        (OutgoingResponse(attachments=("a.png",)), False),
    ],
)
def test_blank_is_what_a_user_would_neither_see_nor_hear(response: OutgoingResponse, *, blank: bool) -> None:
    assert response.is_blank is blank


@pytest.mark.parametrize(
    ("response", "named"),
    [
        (OutgoingResponse(text="x" * 65_537), "response.text"),
        (OutgoingResponse(text="й" * 32_769), "response.text"),
        (OutgoingResponse(voice="x" * 65_537), "response.voice"),
        (OutgoingResponse(text="\ud800"), "response.text"),
        (OutgoingResponse(attachments=("a",) * 33), "response.attachments"),
        (OutgoingResponse(attachments=("a", "")), "response.attachments[1]"),
        (OutgoingResponse(attachments=("a" * 2049,)), "response.attachments[0]"),
    ],
)
def test_a_response_that_no_outbox_holds_is_refused_by_name(response: OutgoingResponse, named: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        response.check()
    assert str(refusal.value).startswith(f"{named}:")


def test_a_response_at_the_limits_is_taken() -> None:
    OutgoingResponse(text="x" * 65_536, voice="й" * 32_768, attachments=("a" * 2048,) * 32).check()


@pytest.mark.parametrize(
    ("outcome", "settlement"),
    [
        (RoutingOutcome(attempted=True, sent_text=True), "delivered"),
        (RoutingOutcome(attempted=True, sent_voice=True), "delivered"),
        (RoutingOutcome(attempted=True, sent_attachments=1), "delivered"),
        (RoutingOutcome(attempted=True, sent_text=True, error="an attachment failed"), "delivered"),
        (RoutingOutcome(attempted=True, sent_text=True, ambiguous=True, permanent=True), "delivered"),
        (RoutingOutcome(attempted=True, error="500"), "retry"),
        (RoutingOutcome(attempted=True), "retry"),
        (RoutingOutcome(attempted=False, error="not connected"), "retry"),
        (RoutingOutcome(attempted=False, sent_text=True), "delivered"),
        (RoutingOutcome(attempted=True, error="no reply in 10 s", ambiguous=True), "ambiguous"),
        (RoutingOutcome(attempted=False, ambiguous=True), "retry"),
        (RoutingOutcome(attempted=True, error="blocked", permanent=True), "dead"),
        (RoutingOutcome(attempted=False, error="unknown channel", permanent=True), "dead"),
    ],
)
def test_an_outcome_settles_a_delivery(outcome: RoutingOutcome, settlement: str) -> None:
    assert outcome.settlement == settlement


def finished(**fields: object) -> dict[str, object]:
    return {
        "type": "TurnFinished",
        "event_id": "e",
        "v": 1,
        "turn": "t0",
        "channel": "c",
        "conversation": "v",
        **fields,
    }


def test_a_finished_turn_survives_the_wire() -> None:
    event = TurnFinished(
        event_id="e1", turn="t0-1", channel="c", conversation="v", response=OutgoingResponse(attachments=("a",))
    )
    assert decode(encode(event), Family.TURNS) == event


@pytest.mark.parametrize("fields", [{}, {"response": {"text": "hi"}, "llm_response": {"text": "ho"}}])
def test_a_finished_turn_has_exactly_one_end(fields: dict[str, object]) -> None:
    with pytest.raises(MalformedMessage, match="response or error_code must be set"):
        decode(msgspec.json.encode(finished(**fields)), Family.TURNS)


def test_a_misspelt_field_of_a_response_is_no_silence() -> None:
    with pytest.raises(MalformedMessage, match="txt"):
        decode(msgspec.json.encode(finished(response={"txt": "hi"})), Family.TURNS)


def test_an_id_is_of_one_message_and_names_its_shard() -> None:
    layout = Layout("default", 7)
    ids = {turn_id(layout, channel, talk, "1") for channel in ("a", "b") for talk in ("x", "y")}
    assert len(ids) == 4, "a message id counts within its conversation only"
    assert turn_id(layout, "a", "x", "1") in ids
    for talk in map(str, range(50)):
        assert turn_id(layout, "a", talk, "1").startswith(f"t{layout.of_turn('a', talk).index}-")


@pytest.mark.parametrize(("text", "cut"), [("abc", "abc"), ("abcdefghijk", "abcdefg…"), ("йййййй", "ййй…")])
def test_an_excerpt_is_cut_at_whole_characters(text: str, cut: str) -> None:
    assert excerpt(text, 10) == cut
