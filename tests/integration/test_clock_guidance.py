"""Redis' wall clock is set back by an hour: guidance by time continues, though ids of streams stand still."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from tellback import FeedbackProviderConfig, FeedbackTrigger, Prompt, StaticFeedback, Tellback, clock, connect
from tellback.hook.connection import open_redis
from tellback.hook.event import HookEvent
from tellback.hook.exchange import HookExchange, HookRequest
from tellback.hook.options import read_options
from tellback.messaging.team_cache import TeamCache
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations, shards_with_due_timers
from tellback.state.keys import Layout
from tellback.state.steady import observe
from tellback.state.tool_health import ToolHealth
from tellback_workers.due_timers import DueTimers
from tellback_workers.loops import consumer_of
from tellback_workers.loops.guidance import GuidanceLoop
from tellback_workers.runtime import Runtime
from tests.support.clocks import ServerClock, SteppedServer, faketime_library
from tests.support.measures import counted
from tests.support.waiting import wait_until

HOUR = 3_600


def begun(tb: Tellback, seconds: float) -> Prompt:
    """An evaluation whose provider speaks every so many seconds."""
    spoken = FeedbackProviderConfig(StaticFeedback("Mind the time."), FeedbackTrigger(every_n_seconds=seconds))
    return tb.prompt("s", "p", feedback_providers=[spoken])


def call_tool(tb: Tellback, runtime: Runtime, prompt: Prompt) -> None:
    prompt.tool_invoked("t")
    tb.flush()
    for shard in runtime.layout("default").all:
        consumer_of(runtime, "default", Family.EVENTS).consume(shard, Family.EVENTS)


def fires(tb: Tellback, runtime: Runtime, prompt: Prompt) -> int:
    """Fire what is due in every shard, and count what time alone has earned so far."""
    database, layout = runtime.database, runtime.layout("default")
    for shard in shards_with_due_timers(database, layout):
        DueTimers(runtime, shard, GuidanceLoop(runtime)).fire(time.monotonic() + 5)
    id_ = EvaluationId(prompt.session, prompt.name, prompt.evaluation)
    return Evaluations(database, tb.context.layout.of("s")).counts(id_).fires


def begun_before_a_step_back(
    tb: Tellback, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> tuple[ServerClock, Prompt]:
    """Begin a prompt with a call and a period of 60 s, then set the server's clock back."""
    clock, shards = ServerClock(monkeypatch), tb.context.layout.all
    prompt = begun(tb, 60)
    call_tool(tb, runtime, prompt)
    observe(runtime.database, shards)
    clock.step(-1_000 * HOUR)
    observe(runtime.database, shards)
    return clock, prompt


def test_what_time_makes_due_comes_in_its_time(tb: Tellback, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, prompt = begun_before_a_step_back(tb, runtime, monkeypatch)
    clock.passes(50)
    assert fires(tb, runtime, prompt) == 0
    clock.passes(15)
    assert fires(tb, runtime, prompt) == 1


def test_feedback_taken_after_a_step_back_comes_again_a_whole_period_later(
    tb: Tellback, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next timer was set by the server's own clock, an hour behind those of guidance, and so fired at once."""
    clock, prompt = begun_before_a_step_back(tb, runtime, monkeypatch)
    clock.passes(65)
    assert fires(tb, runtime, prompt) == 1
    clock.passes(100)
    assert len(prompt.feedback()) == 1
    clock.passes(50)
    assert fires(tb, runtime, prompt) == 1
    clock.passes(15)
    assert fires(tb, runtime, prompt) == 2


def test_a_refusal_after_a_step_back_cools_its_tool_down_for_its_time(
    tb: Tellback, runtime: Runtime, database: Database, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents heard of an hour: the time of calls keeps growing, and the end of a cool-down was compared with TIME."""
    clock, health, prompt = ServerClock(monkeypatch), ToolHealth(database, layout), tb.prompt("s", "p")
    observe(database, layout.all)
    for hours in (1, -1):  # so that TIME, which no test moves, is an hour behind
        clock.step(1_000 * HOUR * hours)
        observe(database, layout.all)
    prompt.observe("search", params={"query": "x"}, error="429 Too Many Requests, retry after 60 seconds")
    tb.flush()
    for shard in layout.all:
        consumer_of(runtime, "default", Family.EVENTS).consume(shard, Family.EVENTS)
    [cool] = health.in_force()
    assert 30 < cool.seconds_left <= 60
    assert 30 < health.cooling(["search"])["search"] <= 60


@pytest.mark.skipif(faketime_library() is None, reason="needs the library of the package `faketime`")
def test_calls_are_in_order_and_timed_while_ids_stand_still(tmp_path: Path) -> None:
    """With ids alone each call of that hour comes at the same moment, and no provider is ever due again."""
    with SteppedServer.start(tmp_path) as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"))
        runtime = Runtime(settings)
        with connect(settings=settings) as tb:
            layout = runtime.layout("default")
            prompt = begun(tb, 2)  # longer than a consumer keeps its answer whether ids stand still
            call_tool(tb, runtime, prompt)
            observe(runtime.database, layout.all)
            server.step_to(-HOUR)
            observe(runtime.database, layout.all)

            wait_until(lambda: fires(tb, runtime, prompt) >= 1, "time makes it due")
            call_tool(tb, runtime, prompt)
            calls = [entry["at"] for entry in tb.history("s") if entry["kind"] == "tool_call"]
            assert len(calls) == 2
            assert calls[0] < calls[1]
        runtime.database.close()


def taken_by_a_hook(tb: Tellback, settings: Settings, prompt: Prompt) -> int:
    """Return how many pieces of feedback a hook takes."""
    options = read_options([f"--redis-url={settings.redis_url}"], {"TELLBACK_DATA_DIR": settings.data_dir})
    event = HookEvent("UserPromptSubmit", prompt.session, prompt.evaluation, None, {})
    memory, end = TeamCache(options.data, options.team, options.redis_url), time.monotonic() + 30
    exchange = HookExchange(options, HookRequest(event, prompt.name, lambda: b"", None, ["op"]), memory, end)
    connection = open_redis(options.redis_url, end)
    with closing(connection._socket):
        exchange._run_commands(connection, tb.context.layout.of(prompt.session), [])
    return len(exchange.texts)


@pytest.mark.parametrize("days", [-2, 2])
@pytest.mark.parametrize("by_hook", [False, True], ids=["client", "hook"])
def test_a_delivery_counts_on_the_servers_day_whatever_the_hosts_clock(
    tb: Tellback, settings: Settings, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, days: int, *, by_hook: bool
) -> None:
    """Counters of a day after tomorrow are read by nobody. Requirement G-270."""
    spoken = FeedbackProviderConfig(StaticFeedback("Mind the time."), FeedbackTrigger(every_n_calls=1))
    prompt = tb.prompt("s", "p", feedback_providers=[spoken])
    call_tool(tb, runtime, prompt)
    before = clock.wall
    monkeypatch.setattr(clock, "wall", lambda: before() + 24 * HOUR * days)
    assert (taken_by_a_hook(tb, settings, prompt) if by_hook else len(prompt.feedback())) == 1
    found = counted(runtime.database, tb.context.layout)
    assert (found["tool:t:calls"], found["delivery:same_call"]) == (1, 1)
