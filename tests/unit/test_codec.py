"""Messages decode to what was encoded; anything else is refused with its bytes and a reason."""

from __future__ import annotations

import json
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.contracts.codec import MESSAGES, decode, encode, schema_of
from tellback.contracts.guidance import EvaluationBegun, ToolCall, ToolInvoked
from tellback.contracts.limits import MAX_ID_CHARS, MAX_MESSAGE_BYTES, MAX_NAME_CHARS, SCHEMA_VERSION
from tellback.contracts.message import Message, new_event_id
from tellback.errors import MalformedMessage, MessageError, MessageTooLarge, UnsupportedVersion
from tellback.names import Family
from tests.support import json_schema

CALL = ToolInvoked(event_id="e1", session="s1", evaluation="v1", tool="search", params={"q": "x", "n": [1, None]})
REQUIRED = {
    "CommandSubmitted": "type event_id command_id session argv",
    "EvaluationBegun": "type event_id session evaluation prompt",
    "ToolInvoked": "type event_id session evaluation tool",
    "BudgetSpent": "type event_id session evaluation",
    "ContextChanged": "type event_id session kind name",
    "FileSeen": "type event_id session evaluation name",
    "TurnFinished": "type event_id turn channel conversation",
    "SignalBatch": "type event_id bank items",
    "FactRemembered": "type event_id bank fact_id text",
    "FactForgotten": "type event_id bank fact_id",
    "RecallRequested": "type event_id bank query",
}


def changed(**fields: object) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(CALL) | fields)


def test_a_message_comes_back_as_it_went() -> None:
    assert decode(encode(CALL), Family.EVENTS) == CALL


def test_a_call_is_sent_without_its_defaults_but_with_its_version() -> None:
    """The defaults were a fifth of a small call's bytes, and a host in another language may still send them."""
    assert json.loads(encode(msgspec.structs.replace(CALL, params={}, status="success"))) == {
        "type": "ToolInvoked",
        "event_id": "e1",
        "v": SCHEMA_VERSION,
        "session": "s1",
        "evaluation": "v1",
        "tool": "search",
    }
    assert decode(changed(prompt="", status="success", result=None, outcome=None), Family.EVENTS) == CALL
    call = msgspec.json.encode(ToolCall(at=1, tool="search", call_index=1))
    assert json.loads(call)["status"] == "success", "whoever reads a history finds how each call ended"


def test_what_tools_do_is_sent_only_where_it_is_declared() -> None:
    """A worker that does not know the field refuses only messages that have it."""
    begun = EvaluationBegun(event_id="e1", session="s1", evaluation="v1", prompt="p", tools=["a", "b"])
    assert b"effects" not in encode(begun)
    declared = msgspec.structs.replace(begun, effects="-w")
    assert decode(encode(declared), Family.EVENTS) == declared


@pytest.mark.parametrize(
    ("raw", "error", "reason"),
    [
        (b"not json", MalformedMessage, "malformed"),
        (b"\xff\xfe", MalformedMessage, "."),
        (b"[]", MalformedMessage, "object"),
        (b"{}", MalformedMessage, "type"),
        (b'{"type": "Nonsense"}', MalformedMessage, "Nonsense"),
        (changed(tool=7), MalformedMessage, r"\$\.tool"),
        (changed(surprise=1), MalformedMessage, "surprise"),
        (changed(event_id=""), MalformedMessage, "event_id"),
        (changed(event_id="x" * (MAX_ID_CHARS + 1)), MalformedMessage, "event_id"),
        (changed(call_id="x" * (MAX_NAME_CHARS + 1)), MalformedMessage, "call_id"),
        (changed(v=SCHEMA_VERSION + 1), UnsupportedVersion, "version 2; this release reads 1: upgrade the workers$"),
        (changed(v=SCHEMA_VERSION + 1, surprise=1), UnsupportedVersion, "version 2.*: upgrade the workers$"),
        (changed(v=0), UnsupportedVersion, "version 0; this release reads 1: correct v in the host that sent it$"),
        (changed(v=-1, surprise=1), UnsupportedVersion, "version -1.*: correct v in the host that sent it$"),
        (b"x" * (10 << 20), MessageTooLarge, "10485760 bytes"),
        (b"[" * 100_000, MalformedMessage, "."),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_bytes(raw: bytes, error: type[MessageError], reason: str) -> None:
    with pytest.raises(error, match=reason) as refused:
        decode(raw, Family.EVENTS)
    assert refused.value.raw == raw


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"a\ud83d", "a\ufffd"),
        (rb"\uDE00b", "\ufffdb"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\ude00\ud83d\u00e9", "\ufffd\ufffdé"),
        (rb"\\ud83d\ud83d", "\\ud83d\ufffd"),
    ],
)
def test_half_an_escaped_pair_is_read_as_a_replacement(written: bytes, read: str) -> None:
    """Hosts in JavaScript cut a long text between the two halves of an emoji, and the call became a dead letter."""
    message = decode(changed(result="TEXT").replace(b"TEXT", written), Family.EVENTS)
    assert isinstance(message, ToolInvoked)
    assert message.result == read


@pytest.mark.parametrize(
    ("written", "read"),
    [("250.0", 250), ("25e1", 250), ("2.50E+2", 250), ("-0.0", 0), ("9007199254740991.0", (1 << 53) - 1)],
)
def test_a_whole_number_written_with_a_fraction_is_one(written: str, read: int) -> None:
    """JSON Schema calls 250.0 an integer, and languages that know one type of numbers write it so."""
    params = {"q": '1.0, "2e0" \\', "n": 0.5}
    raw = changed(duration_ms=7, v=1, params=params, result="7.0")
    raw = raw.replace(b'"duration_ms":7', b'"duration_ms":' + written.encode()).replace(b'"v":1', b'"v":1.0')
    message = decode(raw, Family.EVENTS)
    assert isinstance(message, ToolInvoked)
    assert (message.duration_ms, message.params, message.result) == (read, params, "7.0")


@pytest.mark.parametrize("written", ["1.5", "1e300", "9007199254740993.0", "9007199254740994.0", "1e999", "1.0]"])
def test_a_number_that_is_not_whole_or_not_exact_stays_refused(written: str) -> None:
    raw = changed(duration_ms=7).replace(b'"duration_ms":7', b'"duration_ms":' + written.encode())
    with pytest.raises(MalformedMessage) as refused:
        decode(raw, Family.EVENTS)
    assert refused.value.raw == raw


def test_a_long_text_beside_such_a_number_takes_little_memory() -> None:
    """The engine of regular expressions noted each character of it: 125 MB for 1 MiB."""
    raw = changed(duration_ms=7.0, result="x" * 1_000_000)
    tracemalloc.start()
    try:
        assert decode(raw, Family.EVENTS).event_id == "e1"
        assert tracemalloc.get_traced_memory()[1] < 20 * len(raw)
    finally:
        tracemalloc.stop()


def test_a_byte_order_mark_before_a_message_is_skipped() -> None:
    """Encoders of .NET write one, and RFC 8259 lets a reader skip it."""
    assert decode(b"\xef\xbb\xbf" + encode(CALL), Family.EVENTS) == CALL
    with pytest.raises(UnsupportedVersion, match="upgrade the workers"):
        decode(b"\xef\xbb\xbf" + changed(v=2.0, new=1), Family.EVENTS)


def test_a_later_schema_with_half_a_pair_says_to_upgrade() -> None:
    raw = changed(v=2, new=1, result="TEXT").replace(b"TEXT", rb"\ud83d")
    with pytest.raises(UnsupportedVersion, match="upgrade the workers") as refused:
        decode(raw, Family.EVENTS)
    assert refused.value.raw == raw


def test_a_byte_that_json_forbids_stands_for_no_backslash() -> None:
    with pytest.raises(MalformedMessage):
        decode(changed(result="TEXT").replace(b"TEXT", b"\\ud83d\0\0"), Family.EVENTS)


def test_a_message_in_the_wrong_stream_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="ToolInvoked does not belong to the signals stream"):
        decode(encode(CALL), Family.SIGNALS)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_message_error(raw: bytes) -> None:
    with pytest.raises(MessageError):
        decode(raw, Family.EVENTS)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([*ToolInvoked.__struct_fields__, "type"]), _json)
def test_any_value_in_any_field_is_read_or_refused(field: str, value: object) -> None:
    try:
        message = decode(changed(**{field: value}), Family.EVENTS)
    except MessageError:
        return
    assert isinstance(message, ToolInvoked)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_the_committed_schema_is_the_messages(message: type[Message]) -> None:
    """Refresh with `make generate`."""
    from importlib.resources import files

    committed = json.loads((files("tellback.contracts") / "schemas" / f"{message.__name__}.json").read_text("utf-8"))
    assert committed == schema_of(message)


def test_no_message_requires_more_than_it_did() -> None:
    """A worker would refuse what hosts of the release before send: give a new field a default."""
    required = {message.__name__: " ".join(schema_of(message).get("required", [])) for message in MESSAGES}
    assert required == REQUIRED


def test_the_schema_takes_a_message_and_refuses_a_wrong_field() -> None:
    json_schema.validate(json.loads(encode(CALL)), schema_of(ToolInvoked))
    with pytest.raises(json_schema.ValidationError, match="7 is not of type 'string'"):
        json_schema.validate(json.loads(changed(tool=7)), schema_of(ToolInvoked))


def test_event_ids_of_two_processes_differ() -> None:
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(2) as pool:
        ids = [*pool.map(_ids, range(4), chunksize=1), [new_event_id() for _ in range(100)]]
    assert len({one for some in ids for one in some}) == 500


def _ids(_: int) -> list[str]:
    return [new_event_id() for _ in range(100)]


def test_size_limit_is_inclusive() -> None:
    spare = MAX_MESSAGE_BYTES - len(changed(result=""))
    assert decode(changed(result="x" * spare), Family.EVENTS).family is Family.EVENTS
    with pytest.raises(MessageTooLarge):
        decode(changed(result="x" * (spare + 1)), Family.EVENTS)
