"""Suggestions know the tools, what was tried, the question, and what is in hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellback import Suggestion, Tool, ToolFeedback
from tellback.guidance.observations.calls import parse_calls
from tellback.guidance.observations.memory import ObservationMemory
from tellback.guidance.observations.observer import ToolObserver
from tellback.guidance.repeats import attempt_fingerprint
from tests.support import json_schema
from tests.support.examples import examples

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SEARCH = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def steps(seen: ToolFeedback) -> tuple[Suggestion, ...]:
    assert seen.envelope is not None
    return seen.envelope.suggestions


def named(seen: ToolFeedback) -> list[str]:
    """The tools that the lines of an observation call."""
    return [tool for line in seen.suggestions for tool, _ in parse_calls(line)]


def limited(observer: ToolObserver, tool: str, **params: Any) -> ToolFeedback:
    return observer.observe(tool, params=params, http_status=429, now=NOW)


def test_only_tools_that_were_declared_are_named() -> None:
    seen = limited(ToolObserver(tools=["search_web", "search_news"]), "search_web", query="x")
    assert set(named(seen)) == {"search_web", "search_news"}
    assert named(limited(ToolObserver(tools=["search_news"]), "search_web", query="x")) == ["search_news"]


def test_a_denied_tool_that_was_not_declared_is_not_named_in_a_suggestion() -> None:
    seen = ToolObserver(tools=["search_news"]).observe("shell", params={"command": "ls"}, status="denied")
    assert "shell" not in "".join(seen.suggestions)
    assert seen.suggestions[0] == "Ask the user for permission, or do without it"


def test_without_a_declaration_only_tools_that_have_worked_here_are_named() -> None:
    observer = ToolObserver()
    assert named(limited(observer, "search_web", query="x")) == ["search_web"]
    observer.observe("search_news", params={"query": "y"}, result="news about many things")
    observer.observe("search_maps", params={"query": "y"}, error="Unknown tool: search_maps")
    seen = limited(observer, "search_web", query="z")
    assert seen.suggestions[0] == 'Try search_news instead → search_news(query: "z")'
    assert "search_maps" not in seen.to_observation()


def test_a_failed_attempt_is_not_suggested_again_but_the_tool_with_other_arguments_is() -> None:
    observer = ToolObserver(tools=["search_web", "search_news"])
    observer.observe("search_news", params={"query": "Blue  Whale size"}, result=[])
    seen = limited(observer, "search_web", query="blue whale SIZE")
    assert 'search_news(query: "blue whale SIZE")' not in seen.to_observation()
    assert seen.suggestions[0] == 'Try search_news instead → search_news(query: "blue whale")'


def test_a_call_whose_result_is_in_hand_is_not_suggested_again() -> None:
    observer = ToolObserver(tools=["search_web", "search_news"])
    observer.observe("search_news", params={"query": "whale"}, result="The blue whale is the largest animal")
    seen = limited(observer, "search_web", query="whale")
    assert 'search_news(query: "whale")' not in seen.to_observation()
    assert 'with that info (you have: search_news "whale")' in seen.to_observation()


def test_waiting_for_the_same_call_comes_last_and_not_for_ever() -> None:
    observer = ToolObserver(tools=["search_web"])
    kinds = [[step.kind for step in steps(limited(observer, "search_web", query="x"))] for _ in range(4)]
    assert kinds[0][-1] == "retry"
    assert "retry" not in kinds[-1]


def test_a_tool_that_cools_down_here_is_no_alternative() -> None:
    observer = ToolObserver(tools=["search_web", "search_news", "search_wiki"])
    observer.observe("search_news", params={"query": "a"}, http_status=429, headers={"Retry-After": "60"}, now=NOW)
    seen = limited(observer, "search_web", query="b")
    assert named(seen)[0] == "search_wiki"
    assert "search_news" not in named(seen)
    later = observer.observe("search_wiki", params={"query": "c"}, http_status=429, now=NOW + timedelta(seconds=61))
    assert "search_news" in named(later)


@pytest.mark.parametrize(
    "query", ["SELECT id FROM users WHERE id = 3", "select * from t where x", "https://a.b/c d", "a | b c"]
)
def test_a_query_in_a_language_is_not_broken_into_fewer_words(query: str) -> None:
    seen = ToolObserver(tools=["query_database"]).observe("query_database", params={"query": query}, result=[])
    assert named(seen) == []


def test_arguments_may_come_as_the_text_that_a_model_wrote() -> None:
    text: Any = '{"query": "Ruby creator"}'
    seen = ToolObserver(tools=["search_web", "search_b"]).observe("search_web", params=text, http_status=429)
    assert seen.suggestions[0] == 'Try search_b instead → search_b(query: "Ruby creator")'
    broken: Any = '{"query": "Rub'
    assert ToolObserver().observe("search_web", params=broken, error="it broke").status == "error"


def test_a_tool_that_answered_again_does_not_cool_down_any_more() -> None:
    observer = ToolObserver(tools=["search_web", "search_news"])
    limited(observer, "search_news", query="a")
    assert "search_news" not in named(limited(observer, "search_web", query="b"))
    observer.observe("search_news", params={"query": "c"}, result="news of many things at last")
    assert "search_news" in named(limited(observer, "search_web", query="d"))


class _CoolingFleet:
    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    def cooling(self, tools: Sequence[str]) -> Mapping[str, float]:
        return {tool: self.seconds[tool] for tool in tools if tool in self.seconds}


class _BrokenFleet:
    def cooling(self, tools: Sequence[str]) -> Mapping[str, float]:
        raise RuntimeError(str(tools))


def test_a_tool_that_cools_down_fleet_wide_is_no_alternative() -> None:
    tools = ["search_web", "search_news", "search_wiki"]
    seen = limited(ToolObserver(tools=tools, health=_CoolingFleet({"search_news": 12.0})), "search_web", query="b")
    assert "search_news" not in named(seen)
    own = limited(ToolObserver(tools=tools, health=_CoolingFleet({"search_web": 41.2})), "search_web", query="b")
    assert 'Wait 42 seconds and retry → search_web(query: "b")' in own.suggestions
    assert "search_news" in named(limited(ToolObserver(tools=tools, health=_BrokenFleet()), "search_web", query="b"))


def test_agents_of_a_fleet_choose_differently_and_each_the_same_again() -> None:
    tools = ["search_web", "search_a", "search_b", "search_c", "search_d"]

    def first(seed: str) -> str:
        return named(limited(ToolObserver(tools=tools, seed=seed), "search_web", query="x"))[0]

    chosen = [first(f"evaluation-{number}") for number in range(400)]
    assert chosen == [first(f"evaluation-{number}") for number in range(400)]
    shares = {tool: chosen.count(tool) for tool in tools[1:]}
    assert all(60 <= share <= 140 for share in shares.values()), shares


def test_a_tool_that_changes_things_is_no_alternative() -> None:
    declared = Tool("search_and_book", effect="writes")
    tools = ["search_web", "delete_page", "send_mail", "calculator", declared, "final_answer"]
    assert set(named(limited(ToolObserver(tools=tools), "search_web", query="x"))) <= {"search_web", "final_answer"}


def test_another_tool_with_the_same_arguments_gets_them() -> None:
    flight = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in ("origin", "destination", "date")},
        "required": ["origin", "destination", "date"],
    }
    tools = [Tool("search_direct_flight", flight), Tool("search_onestop_flight", flight), Tool("get_user", SEARCH)]
    params = {"origin": "JFK", "destination": "SEA", "date": "2024-05-20"}
    seen = ToolObserver(tools=tools).observe("search_direct_flight", params=params, result="[]")
    assert [(step.tool, step.args) for step in steps(seen) if step.tool] == [("search_onestop_flight", params)]


@pytest.mark.parametrize(
    ("schema", "args"),
    [
        (SEARCH, {"query": "x y"}),
        ({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}, {"q": "x y"}),
        ({"type": "object", "properties": {"query": {"type": "integer"}}, "required": ["query"]}, None),
        ({"type": "object", "properties": {"query": {"type": "string", "maxLength": 2}}}, {"query": "x"}),
        ({"type": "object", "properties": {"query": {"type": "string", "enum": ["a"]}}}, None),
        ({"type": "object", "properties": {"query": {"type": "string"}, "k": {}}, "required": ["query", "k"]}, None),
        ({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}, {"title": "x y"}),
        ({"type": "object", "properties": {}}, None),
    ],
)
def test_an_alternative_is_offered_only_with_arguments_that_parse(
    schema: dict[str, Any], args: dict[str, Any] | None
) -> None:
    seen = limited(
        ToolObserver(tools=[Tool("search_web", SEARCH), Tool("search_b", schema)]), "search_web", query="x y"
    )
    found = [step.args for step in steps(seen) if step.tool == "search_b"]
    assert found == ([] if args is None else [args])
    for given_args in found:
        json_schema.validate(given_args, schema)


def test_a_suggestion_ignored_twice_is_not_repeated_and_one_taken_up_counts_again() -> None:
    observer = ToolObserver(tools=["read", "final_answer"])
    lines = [observer.observe("read", params={"page": page}, result="words " * 9).suggestions for page in range(4)]
    assert [len(each) for each in lines] == [1, 1, 0, 0]
    other = ToolObserver(tools=["read", "final_answer"])
    other.observe("read", params={"page": 1}, result="words " * 9)
    other.observe("final_answer", params={"answer": "a"}, result="a")
    assert other.memory.ignored == {}


def test_an_error_never_ends_without_a_next_step() -> None:
    observer = ToolObserver(tools=["read"])
    last = [observer.observe("read", params={"page": 1}, error="it broke") for _ in range(6)][-1]
    assert last.suggestions == ("If nothing else is left → tell the user what you tried and what failed",)


def test_lines_are_capped_in_number_and_length_by_the_documents_priorities() -> None:
    tools = [f"search_{letter}" for letter in "abcdefghij"]
    seen = limited(ToolObserver(tools=tools), "search_a", query="long words " * 500)
    assert len(seen.suggestions) <= 4
    assert all(len(line) <= 480 for line in seen.suggestions)
    seen = limited(ToolObserver(tools=tools), "search_a", query="x")
    assert [step.kind for step in steps(seen)] == ["alternative", "alternative", "use_results", "retry"]


def test_the_same_input_gives_the_same_bytes() -> None:
    def run() -> list[str]:
        observer = ToolObserver(
            tools=["search_web", "search_news", "final_answer"], question="How tall is K2?", seed="e"
        )
        calls: list[tuple[str, Any]] = [
            ("search_web", []),
            ("search_news", "K2 is a mountain of Asia, in the Karakoram"),
        ]
        seen = [observer.observe(tool, params={"query": "K2"}, result=result, now=NOW) for tool, result in calls]
        return [each.to_observation() for each in [*seen, limited(observer, "search_web", query="K2 height")]]

    assert run() == run()


def test_secrets_are_neither_shown_nor_proposed() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    observer = ToolObserver(tools=["search_web", "search_news"])
    seen = limited(observer, "search_web", query=f"token {token}", key=token)
    failed = observer.observe("search_web", params={"query": "x"}, error=RuntimeError(f"bad token {token}"))
    good = observer.observe("search_web", params={"query": "y"}, result={"user": "ada", "api_key": token})
    for text in (
        seen.to_observation(),
        failed.to_observation(),
        good.to_observation(),
        observer.memory_snapshot().decode(),
    ):
        assert token not in text
    assert "ada" in good.to_observation(), "what is no secret of a record stays"
    assert "[redacted" not in "".join(line for line in seen.suggestions)


def test_what_travels_is_what_was_offered() -> None:
    seen = limited(ToolObserver(tools=["search_web", "search_news"]), "search_web", query="x")
    assert seen.envelope is not None
    outcome = seen.envelope.outcome
    assert (outcome.status, outcome.code, outcome.retryable) == ("error", "rate_limited", True)
    offered = [(offer.kind, offer.tool, offer.arguments) for offer in outcome.offered]
    assert offered == [
        ("alternative", "search_news", attempt_fingerprint("search_news", {"query": "x"})),
        ("use_results", None, None),
        ("retry", "search_web", attempt_fingerprint("search_web", {"query": "x"})),
    ]


def test_the_memory_goes_on_elsewhere() -> None:
    first = ToolObserver(tools=["search_web", "search_news"])
    first.observe("search_news", params={"query": "x"}, result=[])
    second = ToolObserver(
        tools=["search_web", "search_news"], memory=ObservationMemory.from_bytes(first.memory_snapshot())
    )
    assert 'search_news(query: "x")' not in limited(second, "search_web", query="x").to_observation()
    assert ObservationMemory.from_bytes(b"no JSON") == ObservationMemory()
    assert ObservationMemory.from_bytes(b'{"calls": "many"}') == ObservationMemory()


@pytest.mark.slow
def test_the_memory_is_bounded() -> None:
    observer = ToolObserver(question="What is the height of K2?")
    for number in range(1_500):
        result = f"text about height {number} of it" if number % 2 else "[]"
        observer.observe(f"search_{number % 300}", params={"query": f"{number} " + "x" * 900}, result=result)
    assert len(observer.memory_snapshot()) < 64_000


_calls = st.tuples(
    st.sampled_from(["search_web", "search_news", "get_user", "book_flight"]),
    st.sampled_from(["x", "X ", "whale size", "blue whale"]),
    st.sampled_from(
        ["", "[]", "The blue whale is the largest animal ever", "Error: 503", "rate limit exceeded", "Error: no"]
    ),
)


@settings(max_examples=examples(150))
@given(calls=st.lists(_calls, max_size=12), declared=st.booleans())
def test_whatever_happened_no_line_names_a_missing_tool_or_repeats_a_failure(
    *, calls: list[tuple[str, str, str]], declared: bool
) -> None:
    tools = [Tool(name, SEARCH) for name in ("search_web", "search_news", "get_user", "book_flight", "final_answer")]
    observer = ToolObserver(tools=tools if declared else (), question="How large is the blue whale?")
    failed: set[str] = set()
    used: set[str] = set()
    for tool, query, result in calls:
        used.add(tool)
        seen = observer.observe(tool, params={"query": query}, result=result, now=NOW)
        assert seen.envelope is not None
        attempt = attempt_fingerprint(tool, {"query": query})
        if seen.envelope.code in ("ok", "partial"):
            failed.discard(attempt)
        else:
            failed.add(attempt)
        for step in steps(seen):
            if step.tool is not None and step.args is not None:
                assert step.tool in (used if not declared else {each.name for each in tools})
                json_schema.validate(step.args, SEARCH)
                assert step.kind == "retry" or attempt_fingerprint(step.tool, step.args) not in failed
        exist = used if not declared else {each.name for each in tools}
        assert set(named(seen)) <= exist


def test_a_failed_fetch_is_no_reason_to_answer_with_the_files_that_were_read() -> None:
    """Requirement G-377."""
    observer = ToolObserver(tools=["Read", "Grep", "WebFetch"], question="Why is the total wrong?")
    observer.observe("Read", params={"file_path": "/w/cart.py"}, result="def total(): ...")
    said = observer.observe("WebFetch", params={"url": "https://x.example"}, error="timeout of 30000ms exceeded")
    assert "answer the user" not in said.to_observation()
    assert "Ask for less at once, or allow more time" in said.to_observation()
    said = observer.observe("Read", params={"file_path": "/w/gone.py"}, error="File does not exist.")
    assert "answer the user" not in said.to_observation()


def test_tools_for_files_and_agents_are_no_alternative_to_a_search_of_the_web() -> None:
    """Requirement G-378."""
    observer = ToolObserver(tools=["Glob", "Grep", "Task", "WebSearch"], question="How are discounts rounded?")
    said = observer.observe("WebSearch", params={"query": "rounding of discounts"}, result={"results": []})
    assert said.envelope is not None
    assert "alternative" not in {step.kind for step in said.envelope.suggestions}
    said = observer.observe("Glob", params={"pattern": "**/*discount*"}, result="No files found")
    assert said.envelope is not None
    assert "alternative" not in {step.kind for step in said.envelope.suggestions}


def test_advice_about_arguments_is_ignored_line_by_line() -> None:
    """Requirement G-379."""
    observer = ToolObserver(tools=["Bash", "fetch"], question="Why is the total wrong?")
    for n in range(3):
        observer.observe("Bash", params={"command": f"make t{n}"}, result="Exit code 2\nmake: *** [t] Error 2")
    said = observer.observe("fetch", params={"url": "https://x.example"}, error="timeout of 30000ms exceeded")
    assert "Ask for less at once, or allow more time" in said.to_observation()


def test_a_search_of_the_web_without_links_has_found_nothing() -> None:
    """Requirement G-378."""
    observer = ToolObserver(tools=["WebSearch"], question="How are discounts rounded?")
    result = 'Web search results for query: "rounding of discounts"\n\nNo links found.'
    said = observer.observe("WebSearch", params={"query": "rounding of discounts"}, result=result)
    assert said.envelope is not None
    assert said.envelope.code == "no_results"
