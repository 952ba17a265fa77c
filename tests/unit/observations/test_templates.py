"""Each template, word for word. Requirements G-52 and G-53."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tellback import InvalidInput, ToolFeedback
from tellback.contracts.guidance import CallStatus
from tellback.guidance.observations.observer import ToolObserver

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOOLS = ("duckduckgo_search", "wikipedia", "final_answer")
MATZ = "Yukihiro Matsumoto is a Japanese computer scientist... born April 14, 1965 in Osaka, Japan..."
TIMES = "The New York Times is headquartered at The New York Times Building in Midtown Manhattan..."


def observer(question: str | None = None, tools: tuple[str, ...] = TOOLS) -> ToolObserver:
    return ToolObserver(tools=tools, question=question)


def test_success_got_good_results() -> None:
    results = [
        {"title": "Yukihiro Matsumoto", "text": MATZ},
        {"title": "Programming in Japan", "text": "Many languages come from elsewhere."},
    ]
    seen = observer("Where was the creator of Ruby born?").observe(
        "wikipedia", params={"query": "Ruby creator"}, result=results
    )
    assert seen.to_observation() == (
        '✓ wikipedia found 2 results for "Ruby creator"\n\n'
        f"## Yukihiro Matsumoto\n{MATZ}\n\n"
        "## Programming in Japan\nMany languages come from elsewhere.\n\n"
        "NEXT STEPS:\n"
        '- If this answers your question → final_answer(answer: "extracted answer")\n'
        '- If you need more detail → search for specific aspect like "Yukihiro Matsumoto born"'
    )


def test_success_partial_or_ambiguous_results() -> None:
    seen = observer("What is the street address of the New York Times?").observe(
        "wikipedia", params={"query": "New York Times"}, result=f"## The New York Times\n{TIMES}"
    )
    assert seen.to_observation() == (
        "⚠ wikipedia found results but they may not directly answer your question\n\n"
        f"## The New York Times\n{TIMES}\n"
        "(Note: nothing here about street, address)\n\n"
        "NEXT STEPS:\n"
        '- Try more specific search → wikipedia(query: "New York Times street address")\n'
        '- Try web search → duckduckgo_search(query: "New York Times street address")\n'
        '- If you have enough info → final_answer(answer: "summarize what you found")'
    )


def test_error_rate_limited() -> None:
    seen = observer().observe("duckduckgo_search", params={"query": "your search terms"}, http_status=429)
    assert seen.to_observation() == (
        "✗ duckduckgo_search is rate limited\n\n"
        "ALTERNATIVES:\n"
        '- Try wikipedia instead → wikipedia(query: "your search terms")\n'
        "- If you have results from other tools → final_answer with that info\n"
        '- Wait and retry → duckduckgo_search(query: "your search terms")'
    )


def test_error_rate_limited_with_the_seconds_of_retry_after() -> None:
    seen = observer().observe(
        "duckduckgo_search", params={"query": "x"}, http_status=429, headers={"Retry-After": "30"}, now=NOW
    )
    assert seen.suggestions[-1] == 'Wait 30 seconds and retry → duckduckgo_search(query: "x")'


def test_error_no_results() -> None:
    seen = observer().observe("wikipedia", params={"query": "Xyzzyville population"}, result=[])
    assert seen.to_observation() == (
        '⚠ wikipedia found no results for "Xyzzyville population"\n\n'
        "This topic may not exist or have a Wikipedia article.\n\n"
        "NEXT STEPS:\n"
        '- Try web search → duckduckgo_search(query: "Xyzzyville")\n'
        '- Try alternate terms → wikipedia(query: "Xyzzyville")\n'
        '- If topic doesn\'t exist → final_answer(answer: "No information found about Xyzzyville population")'
    )


def test_error_service_unavailable() -> None:
    seen = observer().observe("duckduckgo_search", params={"query": "x"}, http_status=503)
    assert seen.to_observation() == (
        "✗ duckduckgo_search is temporarily unavailable\n\n"
        "ALTERNATIVES:\n"
        '- Use wikipedia for encyclopedic facts → wikipedia(query: "x")\n'
        "- If you have results from other tools → final_answer with that info\n"
        '- Try again in a moment → duckduckgo_search(query: "x")'
    )


def test_other_errors() -> None:
    seen = observer().observe("wikipedia", params={"query": "x"}, error=ValueError("it went wrong"))
    assert seen.to_observation() == (
        "✗ wikipedia failed\n\n"
        "ValueError: it went wrong\n\n"
        "NEXT STEPS:\n"
        "- Check your arguments\n"
        "- Try a different approach"
    )


def test_other_errors_name_the_arguments_that_the_message_is_about() -> None:
    seen = observer().observe(
        "update_reservation_flights",
        params={"reservation_id": "ABC123", "flights": [{"flight_number": "HAT030", "date": "2024-05-13"}]},
        result="Error: flight HAT030 not available on date 2024-05-13",
    )
    assert seen.status_line == "✗ update_reservation_flights failed"
    assert seen.suggestions[0] == 'Check your arguments: flights "HAT030"'
    assert "Error: flight HAT030 not available on date 2024-05-13" in seen.to_observation()


def test_unknown_tool() -> None:
    seen = observer().observe("wikipedja", params={"query": "x"}, error="Unknown tool: wikipedja")
    assert seen.to_observation() == (
        "✗ wikipedja does not exist\n\n"
        "Unknown tool: wikipedja\n\n"
        "ALTERNATIVES:\n"
        '- Did you mean wikipedia? → wikipedia(query: "x")\n'
        "- Tools that exist: duckduckgo_search, wikipedia\n"
        "- If you have results from other tools → final_answer with that info"
    )


def test_invalid_arguments() -> None:
    wikipedia = {
        "name": "wikipedia",
        "input_schema": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["query"],
            "additionalProperties": False,
        },
    }
    seen = ToolObserver(tools=[wikipedia]).observe(
        "wikipedia", params={"q": "Ruby", "limit": "3"}, error="Invalid arguments: query is a required property"
    )
    assert seen.to_observation() == (
        "✗ wikipedia was called with invalid arguments\n\n"
        "Invalid arguments: query is a required property\n\n"
        "NEXT STEPS:\n"
        '- Correct the arguments → wikipedia(query: "Ruby", limit: 3)\n'
        '- Add the missing "query" (string)\n'
        '- Change "limit": it must be integer\n'
        "- Try a different approach"
    )


def test_denied() -> None:
    seen = observer(tools=(*TOOLS, "bash")).observe(
        "bash", params={"command": "rm x"}, status="denied", error="The user said no"
    )
    assert seen.to_observation() == (
        "✗ bash was denied\n\nThe user said no\n\nNEXT STEPS:\n- Ask the user for permission, or do without bash"
    )


def test_without_a_final_tool_the_line_says_to_answer_the_user() -> None:
    tools = ("duckduckgo_search", "wikipedia")
    good = observer(tools=tools).observe("wikipedia", params={"query": "x"}, result="x is a letter of the alphabet")
    assert good.suggestions[0] == "If this answers your question → answer the user"
    none = observer(tools=tools).observe("wikipedia", params={"query": "Xyzzyville"}, result="")
    assert none.suggestions[-1] == 'If topic doesn\'t exist → tell the user "No information found about Xyzzyville"'
    limited = observer(tools=tools).observe("wikipedia", params={"query": "x"}, http_status=429)
    assert "If you have results from other tools → answer the user with that info" in limited.suggestions


def test_a_success_adds_at_most_two_lines() -> None:
    for number, tool in enumerate(("wikipedia", "book_flight", "get_user", "t")):
        seen = observer("Who made Ruby?").observe(
            tool, params={"query": str(number)}, result="## A\nRuby was made by A B"
        )
        assert len(seen.suggestions) <= 2
        assert seen.status == "success"


def test_an_action_that_succeeded_is_reported_as_such() -> None:
    seen = observer().observe("book_flight", params={"id": 1}, result='{"id": 1, "state": "booked"}')
    assert seen.to_observation() == (
        '✓ book_flight succeeded\n\n{"id": 1, "state": "booked"}\n\n'
        'NEXT STEPS:\n- If this completes the task → final_answer(answer: "extracted answer")'
    )


def test_the_final_tool_itself_needs_no_next_step() -> None:
    seen = observer().observe("final_answer", params={"answer": "Osaka"}, result="Osaka")
    assert seen.to_observation() == "✓ final_answer succeeded\n\nOsaka"


@pytest.mark.parametrize(
    ("status", "line"),
    [("success", "✓ news succeeded"), ("partial", "⚠ news returned partial results"), ("error", "✗ news failed")],
)
def test_the_wrapper_of_the_document(status: CallStatus, line: str) -> None:
    seen = ToolFeedback(tool_name="news", status=status, result="body", suggestions=["one", "two"])
    assert seen.status_line == line
    assert seen.to_observation() == f"{line}\n\nbody\n\nNEXT STEPS:\n- one\n- two"
    assert ToolFeedback("news", status, None, []).to_observation() == line
    assert ToolFeedback("news", status, "", ()).suggestions_section is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"status": "odd"}, "status is 'odd'; use one of success, partial, error"),
        ({"status": None}, "status is None; use one of success, partial, error"),
        ({"status": []}, "status is []; use one of success, partial, error"),
        ({"suggestions": "go on"}, "suggestions is str; use a list of texts"),
        ({"suggestions": None}, "suggestions is NoneType; use a list of texts"),
    ],
)
def test_a_wrapper_of_anything_else_is_refused(fields: dict[str, Any], reason: str) -> None:
    """The status was a `KeyError` of its name, and a text was one suggestion a letter, when the text was rendered."""
    given: dict[str, Any] = {"tool_name": "news", "status": "success"} | fields
    with pytest.raises(InvalidInput, match=re.escape(reason)):
        ToolFeedback(**given)


def test_one_result_and_unknown_numbers_of_them() -> None:
    one = observer().observe("wikipedia", params={"query": "x"}, result=[{"title": "a", "text": "b"}])
    assert one.status_line == '✓ wikipedia found 1 result for "x"'
    some = observer().observe("wikipedia", params={"query": "x"}, result="a text without headings")
    assert some.status_line == '✓ wikipedia found results for "x"'
    two = observer().observe("wikipedia", params={"query": "x"}, result="## A\na\n\n## B\nb")
    assert two.status_line == '✓ wikipedia found 2 results for "x"'


def test_nothing_found_without_a_query() -> None:
    seen = ToolObserver(tools=["search_direct_flight", "search_onestop_flight"]).observe(
        "search_direct_flight", params={"origin": "JFK", "date": "2024-05-20"}, result="[]"
    )
    assert seen.to_observation() == (
        "⚠ search_direct_flight found no results\n\nThere may be nothing for these arguments.\n\nNEXT STEPS:\n"
        '- Try other arguments than origin "JFK", date "2024-05-20"\n'
        "- If you have enough info → answer the user"
    )
