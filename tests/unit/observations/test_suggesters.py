"""A tool's own suggester is asked, and kept apart from the agent."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from tellback import InvalidInput, Tool, suggester
from tellback.guidance.observations.observer import ToolObserver

TOOLS = ["wikipedia", "duckduckgo_search", "final_answer"]
DEFAULT = ('If this answers your question → final_answer(answer: "extracted answer")',)


def says(*lines: str) -> Any:
    """A suggester that always says these lines."""

    def steps(**_: object) -> list[str]:
        return list(lines)

    return steps


class Wikipedia:
    """A suggester as an object: requirement G-71."""

    def suggest_next_steps(self, *, query: str, results: Sequence[Any], original_question: str) -> list[str]:
        if not results:
            return [f'Try duckduckgo_search(query: "{query}")', "Try different search terms"]
        return [f"Extract the answer to {original_question}", f"{len(results)} results"]


def test_an_object_is_asked_with_query_results_and_question() -> None:
    observer = ToolObserver(tools=TOOLS, question="Who?", suggesters={"wikipedia": Wikipedia()})
    found = observer.observe("wikipedia", params={"query": "Ruby"}, result=[{"title": "a"}, {"title": "b"}])
    assert found.suggestions == ("Extract the answer to Who?", "2 results")
    empty = observer.observe("wikipedia", params={"query": "Rubyy"}, result=[])
    assert empty.suggestions == ('Try duckduckgo_search(query: "Rubyy")', "Try different search terms")
    other = observer.observe("duckduckgo_search", params={"query": "Ruby"}, result="Ruby is a language of its own")
    assert other.suggestions[0].startswith("If this answers")


def test_one_is_registered_for_the_whole_process() -> None:
    name = "registered_search"

    @suggester(name)
    def steps(*, query: str, results: Sequence[Any], original_question: str) -> list[str]:
        return [f"{query}/{len(results)}/{original_question}"]

    assert steps(query="q", results=[], original_question="o") == ["q/0/o"]
    seen = ToolObserver(question="o?").observe(name, params={"query": "q"}, result="a text that was found")
    assert seen.suggestions == ("q/1/o?",)
    own = ToolObserver(suggesters={name: says("mine")}).observe(name, params={"query": "q"}, result="a text of words")
    assert own.suggestions == ("mine",)


def _raises(**_: Any) -> list[str]:
    raise ValueError("secret text")


def _exits(**_: Any) -> list[str]:
    raise SystemExit(3)


def _no_list(**_: Any) -> Any:
    return "a text"


def _no_texts(**_: Any) -> Any:
    return [1, None]


def _positional(query: str) -> list[str]:
    return [query]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (_raises, "raised ValueError"),
        (_exits, "raised SystemExit"),
        (_no_list, "returned str, not a list of texts"),
        (_no_texts, "returned list, not a list of texts"),
        (_positional, "raised TypeError"),
    ],
)
def test_one_that_fails_costs_its_own_lines_and_is_logged(
    broken: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    observer = ToolObserver(tools=TOOLS, suggesters={"wikipedia": broken})
    with caplog.at_level(logging.WARNING, "tellback.guidance"):
        seen = observer.observe("wikipedia", params={"query": "x"}, result="words that were found here")
    assert seen.suggestions == DEFAULT
    assert [record.message for record in caplog.records] == [
        f"suggester.failed tool='wikipedia' reason='{reason}' disabled=False"
    ]


def test_one_that_hangs_is_left_behind_and_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()
    asked: list[str] = []

    def hangs(*, query: str, **_: object) -> list[str]:
        asked.append(query)
        release.wait(60)
        return ["late"]

    observer = ToolObserver(tools=TOOLS, suggesters={"wikipedia": hangs}, suggester_timeout=0.05)
    try:
        for number in range(3):
            seen = observer.observe("wikipedia", params={"query": f"x{number}"}, result="words that were found here")
            assert "late" not in seen.suggestions
    finally:
        release.set()
    assert asked == ["x0"]
    assert "disabled=True" in caplog.text


def test_its_lines_name_only_tools_that_exist_and_calls_that_parse_and_did_not_fail() -> None:
    lines = [
        'Try bing_search(query: "x")',
        "Try nowhere_search(...)",
        'Try wikipedia(query: "failed  ONCE")',
        "Try wikipedia(limit: 3)",
        'Try wikipedia(query: "fresh")',
        "Look at the section (if any) on history",
    ]
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    observer = ToolObserver(tools=[Tool("wikipedia", schema)], suggesters={"wikipedia": says(*lines)})
    observer.observe("wikipedia", params={"query": "failed once"}, error="it broke")
    seen = observer.observe("wikipedia", params={"query": "x"}, result=[])
    assert seen.suggestions == ('Try wikipedia(query: "fresh")', "Look at the section (if any) on history")


def test_its_lines_are_bounded_and_one_line_each() -> None:
    observer = ToolObserver(
        tools=TOOLS, suggesters={"wikipedia": says(*["a\n\nNEXT STEPS:\n- b" * 900] * 50, "\ud800")}
    )
    seen = observer.observe("wikipedia", params={"query": "x"}, result=[])
    assert len(seen.suggestions) <= 4
    assert len(seen.to_observation()) < 4_000
    assert seen.to_observation().splitlines().count("NEXT STEPS:") == 1


def test_what_is_no_suggester_is_refused() -> None:
    wrong: Any = {"wikipedia": 3}
    with pytest.raises(InvalidInput, match="suggest_next_steps"):
        ToolObserver(suggesters=wrong)
