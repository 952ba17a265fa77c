"""Encoding and decoding of messages, and their JSON Schemas.

Bytes that do not decode raise an error that carries them, for the dead letters. With the schemas a host in another
language can XADD events itself: `python -m tellback.contracts.codec FOLDER` writes one file per message.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from tellback.contracts.commands import CommandSubmitted
from tellback.contracts.guidance import BudgetSpent, ContextChanged, EvaluationBegun, FileSeen, ToolInvoked
from tellback.contracts.limits import MAX_MESSAGE_BYTES, SCHEMA_VERSION
from tellback.contracts.message import Message, plain_builtin
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

MESSAGES: tuple[type[Message], ...] = get_args(AnyMessage)

_encoder = msgspec.json.Encoder(enc_hook=plain_builtin)

_decoder: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)


_REFUSALS: Final = (msgspec.MsgspecError, TellbackError, UnicodeDecodeError, RecursionError)

# An escaped surrogate pair, or half of one. JavaScript and Python write half a pair where a text was cut between the
# two; RFC 8259 allows it, and msgspec refuses it.
_SURROGATES: Final = re.compile(
    rb"(\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})|\\u[Dd][89A-Fa-f][0-9A-Fa-f]{2}"
)


_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

# A text, which stays as it is, or a number that may be whole although it has a fraction or an exponent. Languages with
# one type of numbers write 250.0, which JSON Schema calls an integer, and msgspec refuses it. Possessive, since the
# engine noted each character of a text to come back to it: 125 MB and 0.24 s for 1 MiB.
_TEXTS_AND_FLOATS: Final = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(-?\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+)', re.DOTALL
)
_FIRST_INEXACT: Final = 1 << 53  # a float of this value may stand for the next whole number


class _MessageHeader(msgspec.Struct, frozen=True):
    """The fields that every schema version has."""

    type: str = ""
    v: int = SCHEMA_VERSION


def encode(message: Message) -> bytes:
    """Return the message as one JSON object."""
    return _encoder.encode(message)


def decode(raw: bytes, family: Family) -> AnyMessage:
    """Decode a message, which must belong to `family`.

    A byte order mark is skipped, an escape of half a surrogate pair is read as U+FFFD, and 250.0 as a whole number.

    Raises:
        MessageTooLarge: above `MAX_MESSAGE_BYTES`.
        UnsupportedVersion: written with another schema.
        MalformedMessage: anything else that is wrong; the reason names the field.
    """
    if len(raw) > MAX_MESSAGE_BYTES:
        raise MessageTooLarge(f"{len(raw)} bytes; an entry holds at most {MAX_MESSAGE_BYTES}", raw)
    try:
        message = _decoder.decode(raw)
    except _REFUSALS as refused:
        message = _decoded_plainly(raw, refused)
    if message.v != SCHEMA_VERSION:
        raise _version_refusal(raw, message.v)
    if message.family is not family:
        raise MalformedMessage(f"{type(message).__name__} does not belong to the {family} stream", raw)
    if not message.event_id:
        raise MalformedMessage("event_id is empty; without one a second delivery would count twice", raw)
    return message


def _decoded_plainly(raw: bytes, error: Exception) -> AnyMessage:
    plain = _plain(raw)
    if plain != raw:
        try:
            return _decoder.decode(plain)
        except _REFUSALS as refused:
            error = refused
    raise _refusal(raw, plain, error) from error


def _plain(raw: bytes) -> bytes:
    """Return the same message without what JSON allows and msgspec refuses."""
    plain = _without_halves(raw.removeprefix(_BYTE_ORDER_MARK))
    try:
        msgspec.json.decode(plain)  # otherwise each quote that ends nowhere would be searched to the end
    except _REFUSALS:
        return plain
    return _TEXTS_AND_FLOATS.sub(_whole, plain)


def _whole(found: re.Match[bytes]) -> bytes:
    number = float(found[1]) if found[1] and not found[1].lstrip(b"-").isdigit() else 0.5
    return b"%d" % number if number.is_integer() and abs(number) < _FIRST_INEXACT else found[0]


def _without_halves(raw: bytes) -> bytes:
    if b"\0" in raw:  # no JSON
        return raw
    # An escaped backslash begins no other escape. Bytes in its place, since a match for each took 0.6 s of 1 MiB.
    hidden = raw.replace(b"\\\\", b"\0\0")
    return _SURROGATES.sub(lambda found: found[1] or b"\\ufffd", hidden).replace(b"\0\0", b"\\\\")


def _refusal(raw: bytes, plain: bytes, error: Exception) -> MalformedMessage | UnsupportedVersion:
    # Another schema fails on its unknown fields before its version is read: look at the version by itself, since a
    # worker should say "upgrade" and not "malformed".
    try:
        header = msgspec.json.decode(plain, type=_MessageHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return MalformedMessage(str(error), raw)
    if header.v != SCHEMA_VERSION:
        return _version_refusal(raw, header.v)
    return MalformedMessage(f"{header.type or 'message'}: {error}", raw)


def _version_refusal(raw: bytes, version: int) -> UnsupportedVersion:
    advice = "upgrade the workers" if version > SCHEMA_VERSION else "correct v in the host that sent it"
    return UnsupportedVersion(f"schema version {version}; this release reads {SCHEMA_VERSION}: {advice}", raw)


def schema_of(message: type[Message]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a message."""
    (reference,), components = msgspec.json.schema_components([message], ref_template="#/$defs/{name}")
    root: dict[str, Any] = components.pop(reference["$ref"].rpartition("/")[2])
    root = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "x-tellback-family": message.family.value,
    }
    if components:
        root["$defs"] = components
    for part in (root, *components.values()):
        part["description"] = inspect.cleandoc(part.get("description", ""))  # Python 3.13 dedents docstrings itself
    plain: dict[str, Any] = json.loads(json.dumps(root))  # defaults as JSON has them: a tuple is an array
    return plain


def write_all(folder: Path) -> None:
    """Write every schema into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for message in MESSAGES:
        path = folder / f"{message.__name__}.json"
        path.write_text(json.dumps(schema_of(message), indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
