"""Observed calls end to end: the text at once, the outcome in the history, whatever Redis does."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tellback import (
    ConfigurationError,
    InvalidInput,
    ObservationMemory,
    Observations,
    Prompt,
    Tellback,
    Tool,
    connect,
)
from tellback.guidance.repeats import attempt_fingerprint
from tellback.settings import Settings
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

TOOLS = ("wikipedia", "duckduckgo_search", "final_answer")
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_the_outcome_of_a_call_stands_in_the_history(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(1, queues="events")
    prompt = tb.prompt("s1", "p", tools=TOOLS, question="Where was the creator of Ruby born?")
    good = prompt.observe("wikipedia", params={"query": "Ruby creator"}, result="Matz was born in Osaka", call_id="c1")
    limited = prompt.observe(
        "duckduckgo_search", params={"query": "Ruby"}, http_status=429, headers={"Retry-After": "30"}, duration_ms=12.4
    )
    prompt.observe("wikipedia", params={"query": TOKEN}, error=PermissionError(f"token {TOKEN}"))
    assert good.to_observation().startswith('✓ wikipedia found results for "Ruby creator"')
    assert limited.to_observation().startswith("✗ duckduckgo_search is rate limited")

    def calls() -> list[dict[str, object]]:
        return [entry for entry in tb.history("s1") if entry["kind"] == "tool_call"]

    wait_until(lambda: len(calls()) == 3, "all calls are applied")
    first, second, third = calls()
    assert (first["status"], first["call_id"]) == ("success", "c1")
    assert first["outcome"] == {
        "status": "success",
        "code": "ok",
        "offered": [{"kind": "answer", "tool": "final_answer"}],
    }
    assert (second["status"], second["duration_ms"]) == ("error", 12)
    assert second["outcome"] == {
        "status": "error",
        "code": "rate_limited",
        "retryable": True,
        "retry_after": 30.0,
        "offered": [
            {
                "kind": "alternative",
                "tool": "wikipedia",
                "arguments": attempt_fingerprint("wikipedia", {"query": "Ruby"}),
            },
            {"kind": "use_results", "tool": "final_answer"},
            {
                "kind": "retry",
                "tool": "duckduckgo_search",
                "arguments": attempt_fingerprint("duckduckgo_search", {"query": "Ruby"}),
            },
        ],
    }
    assert third["status"] == "denied"
    assert TOKEN not in str(third)


def test_a_tool_that_refused_another_agent_is_no_alternative(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(1, queues="events")
    tools = ("search_web", "search_news", "search_wiki")
    tb.prompt("other", "p", tools=tools).observe(
        "search_news", params={"query": "x"}, http_status=429, headers={"Retry-After": "600"}
    )

    def named() -> str:
        return (
            tb.prompt("mine", "p", tools=tools)
            .observe("search_web", params={"query": "y"}, http_status=429)
            .suggestions[1]
        )

    wait_until(lambda: "search_news" not in named(), "the fleet's tool health reached this agent")


def test_definitions_are_used_here_and_names_travel(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(1, queues="events")
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "description": "x" * 90_000}
    prompt = tb.prompt("s1", "p", tools=[Tool("search_a", schema), {"name": "search_b", "input_schema": schema}])
    seen = prompt.observe("search_a", params={"q": "x"}, http_status=503)
    assert seen.suggestions[0] == 'Use search_b instead → search_b(q: "x")'
    wait_until(lambda: bool(tb.history("s1")), "the call is applied: what travelled was small enough")


def test_many_tools_do_not_make_the_beginning_too_large(tb: Tellback) -> None:
    prompt = tb.prompt("s1", "p", tools=[f"search_{n}_" + "x" * 200 for n in range(2_000)])
    assert prompt.observe("search_1", params={"query": "x"}, http_status=429).suggestions


@pytest.mark.parametrize("todo", ["write the tests", None, 3, [None]])
def test_open_items_are_a_list_of_texts(tb: Tellback, todo: Any) -> None:
    """Each letter of a text alone was an open item; of anything else, the error was none of Tellback's."""
    prompt = tb.prompt("s1", "p")
    for ask in (partial(prompt.check_answer, "done"), prompt.verification_prompt):
        with pytest.raises(InvalidInput, match=r"^todo (is|holds) "):
            ask(todo=todo)


def test_wrong_declarations_are_refused_before_anything_is_sent(tb: Tellback) -> None:
    with pytest.raises(InvalidInput, match="tools"):
        tb.prompt("s1", "p", tools=[3])
    odd: list[Any] = [("",), (None,), "search", 3]
    for required in odd:
        with pytest.raises(InvalidInput, match=r"^required_tools (holds|is) (an empty text|NoneType|str|int);"):
            tb.prompt("s1", "p", observations=Observations(required_tools=required))
    wrong: list[dict[str, Any]] = [
        *({"classifiers": odd} for odd in (print, "print", ["print"], None)),
        *({"suggesters": odd} for odd in (["print"], print)),
        {"memory": b"{}"},
    ]
    for options in wrong:
        with pytest.raises(InvalidInput, match=rf"^observations\.{next(iter(options))} (is|holds) .*; use "):
            tb.prompt("s1", "p", observations=Observations(**options))
    with pytest.raises(ConfigurationError, match="no observations in 'xx'"):
        tb.prompt("s1", "p", observations=Observations(language="xx"))


@pytest.mark.usefixtures("database")
def test_language_and_templates_come_from_settings_or_the_prompt(
    settings: Settings,
    tmp_path: Path,
) -> None:
    templates = tmp_path / "mine.toml"
    templates.write_text('[headline]\nrate_limited = "{tool}: slow down"\n', "utf-8")

    def line(how: Observations | None = None, **more: str) -> str:
        with connect(settings=msgspec.structs.replace(settings, **more)) as tb:
            prompt = tb.prompt("s1", "p", observations=how)
            return prompt.observe("t", params={"query": "x"}, http_status=429).status_line

    assert line() == "✗ t is rate limited"
    assert line(observation_language="de") == "✗ t ist durch ein Ratenlimit gesperrt"
    assert line(observation_templates=str(templates)) == "✗ t: slow down"
    assert line(Observations(language="ru"), observation_templates=str(templates)) == "✗ t: превышен лимит запросов"
    assert line(Observations(templates=templates), observation_language="de") == "✗ t: slow down"


def test_the_memory_goes_on_in_another_process(tb: Tellback) -> None:
    first = tb.prompt("s1", "p", tools=TOOLS)
    first.observe("wikipedia", params={"query": "x"}, result=[])
    memory = ObservationMemory.from_bytes(first.observation_memory())
    second = tb.prompt("s1", "p", tools=TOOLS, evaluation=first.evaluation, observations=Observations(memory=memory))
    seen = second.observe("duckduckgo_search", params={"query": "x"}, http_status=429)
    assert 'wikipedia(query: "x")' not in seen.to_observation()


def test_an_answer_is_checked(tb: Tellback) -> None:
    prompt = tb.prompt("s1", "p", question="Where was Matz born?", observations=Observations(required_tools=("tests",)))
    check = prompt.check_answer("in Osaka", todo=["say when"])
    assert [item.kind for item in check.missing] == ["todo", "tool", "words"]
    assert "Where was Matz born?" in prompt.verification_prompt()


@pytest.mark.faults
def test_an_observation_does_not_wait_for_redis_and_raises_nothing_without_it(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    """A thread that waited for the paused server would not end before it continues."""
    settings = Settings(redis_url=own_redis.url, data_dir=str(tmp_path / "data"), spool_max_bytes=4096)
    with connect(settings=settings) as tb:
        prompt = tb.prompt("s1", "p", tools=TOOLS)
        texts: list[str] = []

        def observe(prompt: Prompt) -> None:
            for number in range(40):
                seen = prompt.observe("wikipedia", params={"query": f"x{number}"}, result="y " * 300)
                texts.append(seen.to_observation())

        own_redis.suspend()
        try:
            thread = threading.Thread(target=observe, args=(prompt,), daemon=True)
            thread.start()
            wait_until(lambda: not thread.is_alive(), "all observations came while Redis was stopped")
        finally:
            own_redis.resume()
        own_redis.kill()
        observe(prompt)
        assert len(texts) == 80
        own_redis.launch()
