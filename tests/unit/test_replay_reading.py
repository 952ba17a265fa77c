"""Transcripts to steps: what counts as a call, an answer, an error; and that no line, however odd, ends the reading."""

from __future__ import annotations

import io
import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.cli.replay import _explain_differences
from tellback.replay import reading
from tellback.replay.reading import parse_line, read_transcripts
from tellback.replay.run import ReplayResult
from tellback.replay.transcript import (
    AgentAnswer,
    BadLine,
    Conversation,
    MissingAnswer,
    Oddities,
    Step,
    ToolResult,
    TranscriptCounts,
    UserMessage,
    content_text,
    count_steps,
    is_error,
    parse_messages,
)


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def says(content: object, *calls: dict[str, object]) -> dict[str, object]:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}


def call(id_: str | None, name: str, arguments: object = "{}") -> dict[str, object]:
    function = {"name": name, "arguments": arguments}
    return {"type": "function", "function": function, **({"id": id_} if id_ else {})}


def result(content: object, **fields: object) -> dict[str, object]:
    return {"role": "tool", "content": content, **fields}


def steps(*messages: object) -> list[Step]:
    return list(parse_messages(messages)[0])


def odd(*messages: object) -> Oddities:
    return parse_messages(messages)[1]


def tools(*messages: object) -> list[ToolResult]:
    return [step for step in steps(*messages) if isinstance(step, ToolResult)]


def line(*messages: object, **fields: object) -> bytes:
    return json.dumps({**fields, "messages": messages}).encode() + b"\n"


def read_all(raw: bytes) -> list[Conversation | BadLine]:
    return list(read_transcripts(io.BytesIO(raw)))


def test_a_conversation_becomes_steps_in_the_order_of_its_messages() -> None:
    found = steps(
        user("book it"),
        says(None, call("c1", "book", '{"seat": 3}')),
        result("Error: seat is taken", tool_call_id="c1", name="book"),
        says("The seat is taken."),
        user("bye"),
    )
    assert found == [
        UserMessage(0, "book it"),
        ToolResult("book", {"seat": 3}, "Error: seat is taken", "error", "c1"),
        AgentAnswer(0, "The seat is taken."),
        UserMessage(4, "bye"),
        MissingAnswer(4, "the transcript ends without an answer"),
    ]
    counts = count_steps(found)
    assert (counts.tool_calls, counts.errors) == (1, 1)
    assert (counts.opened, counts.answered, counts.closed, counts.delivered) == (2, 1, 1, 1)


def test_a_message_without_tool_calls_answers_before_text_beside_them() -> None:
    found = steps(user("hi"), says("Let me look.", call("c", "look")), result("5", tool_call_id="c"), says("It is 5."))
    assert found[-1] == AgentAnswer(0, "It is 5.")


def test_text_beside_tool_calls_answers_where_no_other_text_does() -> None:
    found = steps(user("hi"), says("I pass you on.", call("c", "transfer")), result("done", tool_call_id="c"))
    assert found[-1] == AgentAnswer(0, "I pass you on.")


def test_a_message_followed_by_another_before_any_answer_is_closed() -> None:
    found = steps(user("one"), user("two"), says("both"))
    assert found[1] == MissingAnswer(0, "the user wrote again before any answer")
    assert found[-1] == AgentAnswer(1, "both")


@pytest.mark.parametrize("content", [None, "", "  \n", [], [{"type": "text", "text": ""}]])
def test_blank_content_answers_nobody(content: object) -> None:
    assert isinstance(steps(user("hi"), says(content))[-1], MissingAnswer)


def test_a_refusal_is_an_answer() -> None:
    found = steps(user("hi"), {"role": "assistant", "content": None, "refusal": "I cannot."})
    assert found[-1] == AgentAnswer(0, "I cannot.")


def test_what_an_agent_says_before_any_user_answers_nobody() -> None:
    assert steps(says("Hello, how can I help?")) == []


def test_system_messages_are_no_steps_and_unknown_roles_are_counted() -> None:
    messages = ({"role": "system", "content": "x"}, {"role": "developer"}, {"role": ["odd"]}, "text", 7, None)
    assert steps(*messages) == []
    assert odd(*messages).messages_skipped == 4


def test_several_calls_of_one_message_find_their_results_in_any_order() -> None:
    found = tools(
        says(None, call("a", "first", '{"n": 1}'), call("b", "second", '{"n": 2}')),
        result("two", tool_call_id="b"),
        result("one", tool_call_id="a"),
    )
    assert [(step.tool, step.params, step.result) for step in found] == [
        ("second", {"n": 2}, "two"),
        ("first", {"n": 1}, "one"),
    ]


def test_without_ids_results_belong_to_calls_by_name_then_by_order() -> None:
    found = tools(
        says(None, call(None, "a", '{"n": 1}'), call(None, "b", '{"n": 2}'), call(None, "c", '{"n": 3}')),
        result("x", name="b"),
        result("y"),
        result("z"),
    )
    assert [(step.tool, step.params["n"]) for step in found] == [("b", 2), ("a", 1), ("c", 3)]


def test_an_id_that_is_used_twice_pairs_in_order() -> None:
    found = tools(
        says(None, call("a", "t", '{"n": 1}'), call("a", "t", '{"n": 2}')),
        result("x", tool_call_id="a"),
        result("y", tool_call_id="a"),
    )
    assert [step.params["n"] for step in found] == [1, 2]


def test_a_result_without_a_call_counts_under_its_own_name() -> None:
    messages = result("x", tool_call_id="nobody", name="search"), result("y")
    assert [step.tool for step in tools(*messages)] == ["search", "unknown"]
    assert odd(*messages).results_without_call == 2


def test_a_call_without_a_result_has_not_completed() -> None:
    messages = user("hi"), says(None, call("a", "t"), call("b", "u")), result("x", tool_call_id="b")
    assert [step.tool for step in tools(*messages)] == ["u"]
    assert odd(*messages).calls_without_result == 1


@pytest.mark.parametrize(
    ("arguments", "params", "unreadable"),
    [
        ('{"a": 1}', {"a": 1}, 0),
        ({"a": 1}, {"a": 1}, 0),
        ("", {}, 0),
        (None, {}, 0),
        ("[1, 2]", {"arguments": [1, 2]}, 0),
        ("{a: 1", {"arguments": "{a: 1"}, 1),
        ("[" * 100_000, {"arguments": "[" * 100_000}, 1),
    ],
    ids=["object", "parsed", "empty", "null", "array", "not JSON", "too deep"],
)
def test_arguments_of_any_form_become_parameters(arguments: object, params: dict[str, Any], unreadable: int) -> None:
    messages = says(None, call("a", "t", arguments)), result("x", tool_call_id="a")
    assert tools(*messages)[0].params == params
    assert odd(*messages).arguments_not_json == unreadable


def test_the_older_function_form_is_read_too() -> None:
    found = tools(
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}},
        {"role": "function", "name": "f", "content": "x"},
    )
    assert found == [ToolResult("f", {"a": 1}, "x", "success", None)]


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("Error: no seats", True),
        ("  error - no seats", True),
        ("ValueError: no seats", True),
        ('Traceback (most recent call last):\n  File "x"', True),
        ('{"error": "no seats"}', True),
        ('{"error": null, "seats": 3}', False),
        ('{"error"', False),
        ("Errors are rare", False),
        ("No error", False),
        ("[]", False),
        ("", False),
    ],
)
def test_an_error_is_known_by_how_a_result_begins(text: str, *, failed: bool) -> None:
    assert is_error(text) is failed


def test_a_result_that_says_so_itself_is_an_error() -> None:
    assert tools(result("no seats", is_error=True))[0].status == "error"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("hi", "hi"),
        (
            [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}, "b", 3],
            "a\n[image_url]\nb\n[part]",
        ),
        ({"text": "a"}, "a"),
        (7, "7"),
        ("\ud800", "?"),
    ],
    ids=["null", "text", "parts", "one part", "number", "lone surrogate"],
)
def test_content_of_any_form_becomes_text(content: object, text: str) -> None:
    assert content_text(content) == text


def test_a_file_is_read_past_bad_lines_which_are_named_with_their_numbers() -> None:
    good = line(user("hi"), task_id=4, trial=1)
    found = read_all(good + b"\n" + b"{oops\n" + b"[]\n" + b'{"messages": []}\n' + b"   \n" + good + b'{"messages": [')
    assert [(type(item), item.line) for item in found] == [
        (Conversation, 1), (BadLine, 3), (BadLine, 4), (BadLine, 5), (Conversation, 7), (BadLine, 8),
    ]  # fmt: skip
    reasons = [item.reason for item in found if isinstance(item, BadLine)]
    assert "not JSON" in reasons[0]
    assert reasons[-1].endswith("the file ends inside this line")


def test_a_last_line_without_its_end_is_read_if_it_is_whole() -> None:
    assert isinstance(read_all(line(user("hi")).rstrip())[0], Conversation)


def test_bytes_that_are_no_utf_8_are_replaced() -> None:
    found = read_all(b'{"messages": [{"role": "user", "content": "caf\xe9"}]}')[0]
    assert isinstance(found, Conversation)
    assert found.steps[0] == UserMessage(0, "caf\ufffd")


def test_a_byte_order_mark_is_passed_over() -> None:
    assert isinstance(read_all(b"\xef\xbb\xbf" + line(user("hi")))[0], Conversation)


def test_a_line_above_the_limit_is_named_and_the_next_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    good = line(user("hi"))
    monkeypatch.setattr(reading, "LINE_BYTES", len(good))
    found = read_all(line(user("x" * 1000)) + good + line(user("y" * 1000)).rstrip())
    assert [type(item) for item in found] == [BadLine, Conversation, BadLine]


def test_labels_are_unique_and_say_which_conversation_it_is() -> None:
    lines = [
        line(user("a"), task_id=4, trial=1),
        line(user("b"), task_id=4, trial=1),
        line(user("c")),
        line(user("d"), task_id="line-1"),
        line(user("e"), task_id="x" * 500),
        line(user("f"), task_id={"deep": []}, trial=2),
    ]
    labels = [item.label for item in read_all(b"".join(lines)) if isinstance(item, Conversation)]
    assert labels == ["4-1", "line-2", "line-3", "line-4", "line-5", "2"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
CALL = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["a", "b"]) | JSON,
        "function": st.fixed_dictionaries({}, optional={"name": st.text() | JSON, "arguments": st.text() | JSON})
        | JSON,
    },
)
MESSAGE = JSON | st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "tool", "system", "function"]) | JSON,
        "content": st.text() | JSON,
        "tool_calls": st.lists(CALL | JSON, max_size=3) | JSON,
        "function_call": JSON,
        "tool_call_id": st.sampled_from(["a", "b"]) | JSON,
        "name": st.text() | JSON,
    },
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_line_makes_the_reading_raise(raw: bytes) -> None:
    parse_line(1, raw)
    assert all(item.line >= 1 for item in read_all(raw))


@given(st.lists(MESSAGE, min_size=1, max_size=12), JSON, JSON)
def test_whatever_the_messages_every_user_message_ends_once(
    messages: list[object], task: object, trial: object
) -> None:
    found = parse_line(1, json.dumps({"task_id": task, "trial": trial, "messages": messages}).encode())
    assert isinstance(found, Conversation)
    ends = [step.position for step in found.steps if isinstance(step, AgentAnswer | MissingAnswer)]
    assert ends == [step.position for step in found.steps if isinstance(step, UserMessage)]
    roles = [cast("dict[str, object]", m).get("role") for m in messages if isinstance(m, dict)]
    counts = found.counts
    assert counts.opened == roles.count("user") == counts.answered + counts.closed
    assert counts.tool_calls == roles.count("tool") + roles.count("function")


def test_counts_that_differ_are_given_in_words_and_ten_lines_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    """Requirement A-651. A replay that somebody undid meanwhile printed a line of Python for each conversation."""
    file, redis = TranscriptCounts(tool_calls=2, answered=1), TranscriptCounts(answered=1)
    reason = redis.difference_from(file)
    assert reason == "tool calls: 2 in the file, 0 in Redis"
    outcome = ReplayResult(run="r", applied=True, differing=dict.fromkeys(range(12, 0, -1), reason))
    _explain_differences("calls.jsonl", outcome, "replay")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"tellback: calls.jsonl, line 1: {reason}"
    assert lines[9:] == [
        f"tellback: calls.jsonl, line 10: {reason}",
        "tellback: 2 more lines with a difference; --json names all",
    ]
