"""Bytes to messages and back. What does not decode raises an error that carries the raw bytes."""

from __future__ import annotations

import msgspec

from tellback.contracts.commands import CommandSubmitted
from tellback.contracts.guidance import BudgetSpent, ContextChanged, EvaluationBegun, FileSeen, ToolInvoked
from tellback.contracts.message import MAX_MESSAGE_BYTES, SCHEMA_VERSION, Message
from tellback.contracts.signals import FactForgotten, FactRemembered, RecallRequested, SignalBatch
from tellback.contracts.turns import TurnFinished
from tellback.errors import MalformedMessage, MessageTooLarge, TellbackError, UnsupportedVersion
from tellback.names import Family

AnyMessage = (
    CommandSubmitted
    | EvaluationBegun
    | ToolInvoked
    | BudgetSpent
    | ContextChanged
    | FileSeen
    | TurnFinished
    | SignalBatch
    | FactRemembered
    | FactForgotten
    | RecallRequested
)
MESSAGES: tuple[type[Message], ...] = (
    CommandSubmitted,
    EvaluationBegun,
    ToolInvoked,
    BudgetSpent,
    ContextChanged,
    FileSeen,
    TurnFinished,
    SignalBatch,
    FactRemembered,
    FactForgotten,
    RecallRequested,
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)


class _Header(msgspec.Struct, frozen=True):
    """What every schema version has."""

    type: str = ""
    v: int = SCHEMA_VERSION


def encode(message: Message) -> bytes:
    """The message as one JSON object."""
    return _encoder.encode(message)


def decode(raw: bytes, family: Family) -> AnyMessage:
    """The message in `raw`, which must belong to `family`.

    Raises:
        MessageTooLarge: above `MAX_MESSAGE_BYTES`.
        UnsupportedVersion: written with a newer schema.
        MalformedMessage: anything else that is wrong; the reason names the field.
    """
    if len(raw) > MAX_MESSAGE_BYTES:
        raise MessageTooLarge(f"{len(raw)} bytes; an entry holds at most {MAX_MESSAGE_BYTES}", raw)
    try:
        message = _decoder.decode(raw)
    except (msgspec.MsgspecError, TellbackError, UnicodeDecodeError, RecursionError) as error:
        raise _refusal(raw, error) from error
    if message.v != SCHEMA_VERSION:
        raise _version_refusal(raw, message.v)
    if message.family is not family:
        raise MalformedMessage(f"{type(message).__name__} does not belong to the {family} stream", raw)
    if not message.event_id:
        raise MalformedMessage("event_id is empty; without one a second delivery would count twice", raw)
    return message


def _refusal(raw: bytes, error: Exception) -> MalformedMessage | UnsupportedVersion:
    try:
        header = msgspec.json.decode(raw, type=_Header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return MalformedMessage(str(error), raw)
    if header.v > SCHEMA_VERSION:
        return _version_refusal(raw, header.v)
    return MalformedMessage(f"{header.type or 'message'}: {error}", raw)


def _version_refusal(raw: bytes, version: int) -> UnsupportedVersion:
    return UnsupportedVersion(
        f"schema version {version}; this release reads {SCHEMA_VERSION}: upgrade the workers", raw
    )
