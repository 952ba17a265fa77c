"""Calls that `tellback hook` published count in statistics and in the tools' health, by their outcome."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from tellback import Tellback
from tellback.cli.app import app
from tellback.contracts.guidance import OutcomeCode
from tellback.hook.event import read_event, tool_invoked
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.scripts import intake as scripts
from tellback.state.tool_health import ToolHealth
from tellback_workers.loops import consumer_of
from tellback_workers.runtime import Runtime
from tests.support.hooks import run_hook, tool_event
from tests.support.workers import StartWorkers

Apply = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def applied(settings: Settings, layout: Layout, database: Database, tb: Tellback) -> Apply:
    """Applies events as hooks publish them; the calls as the history has them."""
    runtime = Runtime(settings)

    def run(*events: dict[str, Any]) -> list[dict[str, Any]]:
        for event in events:
            read = read_event(json.dumps(event).encode(), event["hook_event_name"])
            stream = layout.of(read.session).key("in", "events")
            database.run(
                scripts.append_events(
                    intake=stream,
                    max_entries=1_000,
                    max_bytes=1 << 20,
                    first=0,
                    events=[tool_invoked(read, "agent")],
                )
            )
        for shard in layout.all:
            while consumer_of(runtime, "default", Family.EVENTS).consume(shard, Family.EVENTS):
                continue
        return [entry for entry in tb.history("s1") if entry["kind"] == "tool_call"]

    return run


def failed(error: str, tool: str = "mcp__ddg__search", call_id: str = "t1") -> dict[str, Any]:
    return tool_event(
        call_id, tool_name=tool, hook_event_name="PostToolUseFailure", tool_response=None, error=error, session_id="s1"
    )


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (tool_event(), "ok"),
        (failed("Exit code 1\nrate limit exceeded", "Bash"), "error"),
        (failed("Command timed out after 2m 0.0s", "Bash"), "error"),
        (failed("Request failed with status code 429"), "rate_limited"),
        (failed("Connection refused"), "unavailable"),
        (failed("<tool_use_error>No such tool available: foo</tool_use_error>", "foo"), "unknown_tool"),
        (failed("The user doesn't want to proceed with this tool use.", "Bash"), "cancelled"),
        (failed("Exit code 1", "Bash"), "error"),
        (failed("InputValidationError: The required parameter `file_path` is missing", "Read"), "invalid_arguments"),
        (tool_event(tool_name="Grep", tool_response={"filenames": [], "numFiles": 0}), "no_results"),
        (
            tool_event(tool_name="mcp__x", tool_response=[{"type": "text", "text": "Error: 202 Ratelimit"}]),
            "rate_limited",
        ),
        (
            tool_event(
                tool_name="WebFetch", tool_response={"code": 503, "codeText": "x", "result": "away", "url": "u"}
            ),
            "unavailable",
        ),
    ],
)
def test_a_hooks_call_is_classified_when_it_arrives(applied: Apply, event: dict[str, Any], code: OutcomeCode) -> None:
    (call,) = applied(event)
    assert call["outcome"]["code"] == code


def test_a_rate_limit_that_a_hook_saw_cools_the_tool_down_for_the_fleet(
    applied: Apply, database: Database, layout: Layout
) -> None:
    applied(failed("429 Too Many Requests, retry after 90 seconds"))
    (one,) = ToolHealth(database, layout).in_force()
    assert one.tool == "mcp__ddg__search"
    assert 80 < one.seconds_left <= 90


def test_an_event_that_comes_again_counts_once(applied: Apply) -> None:
    assert len(applied(failed("429 Too Many Requests"), failed("429 Too Many Requests"))) == 1


def test_what_a_host_classified_itself_and_what_it_did_not_stays_as_it_is(tb: Tellback, applied: Apply) -> None:
    prompt = tb.prompt("s1", "p")
    prompt.observe("search", params={"query": "x"}, error="boom", status="unavailable")
    prompt.tool_invoked("search", status="error", error="429 Too Many Requests")
    tb.flush()
    seen, bare = applied()
    assert seen["outcome"]["code"] == "unavailable"
    assert "outcome" not in bare, "classifying every call of every host would cost the workers dear"


def test_stats_show_the_outcomes_of_the_calls_of_hooks(settings: Settings, start_workers: StartWorkers) -> None:
    start_workers(1, queues="events")
    event = failed("Request failed with status code 429")
    assert run_hook(settings, event, "--wait=10", event="post-tool-use-failure") == b""
    done = CliRunner().invoke(app, ["stats", "--json", "--redis-url", settings.redis_url])
    shown = json.loads(done.stdout)
    (tool,) = [each for each in shown["summary"]["tools"] if each["tool"] == "mcp__ddg__search"]
    assert tool["codes"] == {"rate_limited": 1}
