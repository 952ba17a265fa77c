"""Counters of guidance, and `tellback stats`: exact, merged over shards and days, bounded, and readable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tellback import FeedbackProviderConfig, FeedbackTrigger, Tellback
from tellback.guidance.summary import count_history
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.guidance_stats import read_stats
from tellback.state.keys import FAMILIES, Layout, guidestats_of
from tests.support import providers
from tests.support.cli import run
from tests.support.hooks import context_of, run_hook, tool_event
from tests.support.measures import CALLS, call, counted, play, script, times
from tests.support.workers import StartWorkers

pytestmark = pytest.mark.usefixtures("one_day")

DAY_MS = 86_400_000


@pytest.fixture
def worker_settings(settings: Settings) -> Settings:
    """Workers that have the misbehaving providers."""
    return Settings(redis_url=settings.redis_url, providers=providers.SETTING, provider_timeout=0.2)


def answer(settings: Settings, *arguments: str) -> dict[str, Any]:
    done = run(settings, "stats", *arguments, "--json")
    assert done.exit_code == 0, done.output
    (line,) = done.stdout.splitlines()
    return dict(json.loads(line))


def test_counters_of_many_sessions_add_up_over_the_shards(
    tb: Tellback, database: Database, layout: Layout, consume: Callable[[], None]
) -> None:
    for n in range(12):
        play(tb, f"s{n}")
    consume()
    assert counted(database, layout) == times(12)
    keys = [guidestats_of(shard, database.now_ms()) for shard in layout.all]
    assert sum(database.command("EXISTS", key) for key in keys) == len(layout.all), "every shard has its part"


def test_an_event_that_comes_again_counts_nothing(
    tb: Tellback, database: Database, layout: Layout, consume: Callable[[], None]
) -> None:
    prompt = play(tb, "s")
    consume()
    events = script(prompt)
    for _ in range(3):
        for event in events:
            tb.context.publisher.publish(event)
        consume()
    once = counted(database, layout)
    assert once["tool:search:calls"] == 4
    assert once["tool:fetch:calls"] == 6
    assert once["suggestion:alternative:offered"] == 4


def test_how_feedback_was_delivered_is_counted_once(
    tb: Tellback, database: Database, layout: Layout, consume: Callable[[], None]
) -> None:
    """Three pieces of feedback, at calls 2, 4 and 6: taken at call 7, the first is too old; then one in its call."""
    prompt = play(tb, "s")
    consume()
    assert len(prompt.feedback()) == 2
    assert prompt.feedback() == []
    tb.context.publisher.publish(call(prompt, "t", {}, None))
    consume()
    assert len(prompt.feedback()) == 1
    fates = {name: count for name, count in counted(database, layout).items() if name.startswith("delivery:")}
    assert fates == {"delivery:expired": 1, "delivery:late": 2, "delivery:same_call": 1}


def test_what_a_hook_delivers_is_counted_as_any_other_delivery(
    settings: Settings, database: Database, layout: Layout, start_workers: StartWorkers, tmp_path: Path
) -> None:
    config = tmp_path / "hooks.toml"
    config.write_text('[[providers]]\nname = "StaticFeedback"\nevery_n_calls = 2\nfields = { summary = "Mind." }\n')
    start_workers(1, queues="events")
    events = [tool_event(f"toolu_{n}", tool_input={"command": f"make {n}"}) for n in range(2)]
    silent, answer = (run_hook(settings, event, f"--config={config}", "--wait=10") for event in events)
    assert silent == b""
    assert context_of(answer) == "[Feedback - Static]\n\nMind."
    found = counted(database, layout)
    assert found["tool:Bash:calls"] == 2
    assert found["provider:StaticFeedback:fires"] == 1
    assert {name: count for name, count in found.items() if name.startswith("delivery:")} == {"delivery:same_call": 1}


def test_the_page_as_json(tb: Tellback, settings: Settings, database: Database, consume: Callable[[], None]) -> None:
    before = database.now_ms()
    for n in range(3):
        play(tb, f"s{n}").feedback()
    consume()
    found = answer(settings)
    assert before <= found["since"] <= found["until"]
    summary = found["summary"]
    assert summary["totals"] == {
        "calls": 3 * CALLS,
        "errors": 6,
        "error_rate": 0.2857,
        "offered": 12,
        "taken": 6,
        "taken_rate": 0.5,
        "loops": {"3": 3, "5": 0, "8": 0},
        "repeated_failures": 3,
        "fires": 9,
        "stuck": {"same_call": 3},
    }
    tools = {tool["tool"]: tool for tool in summary["tools"]}
    assert list(tools) == ["fetch", "search", "bare", "wiki"], "the most used first"
    assert tools["search"] == {
        "tool": "search",
        "calls": 6,
        "errors": 6,
        "error_rate": 1.0,
        "codes": {"rate_limited": 3, "unavailable": 3},
        "offered": 9,
        "taken": 3,
        "taken_rate": 0.3333,
        "loops": 0,
        "repeated_failures": 3,
    }
    assert tools["fetch"]["loops"] == 3
    assert tools["bare"]["taken_rate"] is None, "no rate of nothing"
    kinds = {kind["kind"]: (kind["offered"], kind["taken"], kind["taken_rate"]) for kind in summary["suggestions"]}
    assert kinds == {"alternative": (6, 3, 0.5), "retry": (3, 0, 0.0), "detail": (3, 3, 1.0)}
    (provider,) = summary["providers"]
    assert (provider["provider"], provider["fires"], provider["failures"]) == ("StaticFeedback", 9, 0)
    assert [(cool["tool"], cool["refusals"]) for cool in found["cooling"]] == [("search", 1)]
    (day,) = found["by_day"]
    assert day["day"] == datetime.fromtimestamp(before / 1000, UTC).date().isoformat()
    assert day["totals"] == summary["totals"]


def test_a_provider_that_fails_is_shown_with_its_failures(
    tb: Tellback, settings: Settings, consume: Callable[[], None]
) -> None:
    bad = [providers.Raises(), providers.Hangs(), providers.Nonsense()]
    configs = [FeedbackProviderConfig(provider, FeedbackTrigger(every_n_calls=1)) for provider in bad]
    prompt = tb.prompt("s", "p", feedback_providers=configs)
    for _ in range(5):
        prompt.tool_invoked("t")
    consume()
    expected = {
        "Hangs": (0, 3, 3, 1),
        "Nonsense": (0, 3, 0, 1),
        "Raises": (0, 3, 0, 1),
    }
    for arguments in ((), ("--session", "s")):
        found = answer(settings, *arguments)["summary"]["providers"]
        counts = {
            each["provider"]: (each["fires"], each["failures"], each["timeouts"], each["disabled"]) for each in found
        }
        assert counts == expected
    page = run(settings, "stats").stdout
    assert "Feedback providers" in page
    assert "Hangs" in page


def test_days_are_kept_apart_added_up_and_left_out(
    tb: Tellback, settings: Settings, database: Database, layout: Layout, consume: Callable[[], None]
) -> None:
    play(tb, "s")
    consume()
    now, shard = database.now_ms(), layout.of("s")
    for ago, calls in ((1, 10), (20, 5), (34, 1), (35, 1_000)):
        key = guidestats_of(shard, now - ago * DAY_MS)
        database.command("HSET", key, "tool:old:calls", calls, "since", now - ago * DAY_MS)
        database.command("EXPIRE", key, 3_600)
    found = answer(settings)
    assert [day["totals"]["calls"] for day in found["by_day"]] == [1, 5, 10, CALLS]
    assert found["summary"]["totals"]["calls"] == 16 + CALLS
    assert found["since"] == now - 34 * DAY_MS
    assert answer(settings, "--days", "2")["summary"]["totals"]["calls"] == 10 + CALLS
    assert [day["totals"]["calls"] for day in answer(settings, "--days", "1")["by_day"]] == [CALLS]
    assert "Tool calls by day" in run(settings, "stats").stdout
    assert "Tool calls by day" not in run(settings, "stats", "--days", "1").stdout


def test_a_bucket_lives_35_days_from_its_first_count_and_no_longer(
    tb: Tellback, database: Database, layout: Layout, consume: Callable[[], None]
) -> None:
    play(tb, "s")
    consume()
    key = guidestats_of(layout.of("s"), database.now_ms())
    first = int(database.command("PEXPIRETIME", key))
    assert 0 < int(database.command("PTTL", key)) <= 35 * DAY_MS
    play(tb, "s")
    consume()
    assert int(database.command("PEXPIRETIME", key)) == first


def test_a_flood_of_names_is_capped_and_what_is_left_over_is_one(
    tb: Tellback, settings: Settings, database: Database, layout: Layout, consume: Callable[[], None]
) -> None:
    """10,000 tools and as many kinds of suggestions: no call is lost, and a known tool keeps its own counters."""
    from tellback.contracts.guidance import Offer

    play(tb, "s")
    consume()
    prompt = tb.prompt("s", "p")
    for n in range(10_000):
        tb.context.publisher.publish(call(prompt, f"tool-{n}", {}, "ok", offers=(Offer(f"kind-{n}"),)))
    for event in script(prompt):
        tb.context.publisher.publish(event)
    consume()
    for shard in layout.all:
        assert database.command("HLEN", guidestats_of(shard, database.now_ms())) <= (FAMILIES["guidestats"].cap or 0)
    found = answer(settings)["summary"]
    assert found["totals"]["calls"] == 10_000 + 2 * CALLS
    assert found["totals"]["offered"] == 10_000 + 8
    tools = {tool["tool"]: tool["calls"] for tool in found["tools"]}
    assert tools["other"] > 9_000
    assert tools["search"] == 4
    assert len(tools) <= 250
    assert len(found["suggestions"]) <= 250


def test_a_flood_of_names_costs_the_server_one_read_of_each(
    tb: Tellback, database: Database, consume: Callable[[], None]
) -> None:
    """500 new names when there is no room for any: what is left over is added up before it is written."""
    prompt = tb.prompt("s", "p")
    for n in range(300):
        tb.context.publisher.publish(call(prompt, f"tool-{n}", {}, "ok"))
    consume()
    for n in range(500):
        tb.context.publisher.publish(call(prompt, f"more-{n}", {}, "ok"))
    tb.flush()
    database.command("CONFIG", "RESETSTAT")
    consume()
    reported = database.command("INFO", "commandstats").decode()
    calls = {name: int(count) for name, count in re.findall(r"cmdstat_([\w|]+):calls=(\d+)", reported)}
    batches = calls["xgroup|setid"]
    assert calls["hincrby"] <= 4 * batches  # two of them for the listing of sessions
    assert calls["hmget"] < 100  # each script reads a clock, and a slow machine looks once more if anything is left


def test_names_come_back_as_they_were_and_reach_no_terminal_as_commands(
    tb: Tellback, settings: Settings, consume: Callable[[], None]
) -> None:
    prompt = tb.prompt("s", "p")
    names = ["a:b", "übersetzen", "[bold]x[/]", "esc\x1b[31m", "$x^2$", "a%3Ab"]
    for name in names:
        prompt.tool_invoked(name)
    consume()
    assert {tool["tool"] for tool in answer(settings)["summary"]["tools"]} == set(names)
    page = run(settings, "stats").stdout
    assert "\x1b" not in page
    assert "[bold]x[/]" in page
    assert "übersetzen" in page


def test_a_session_is_counted_from_its_history_as_it_was_counted_when_it_came(
    tb: Tellback, settings: Settings, database: Database, layout: Layout, consume: Callable[[], None]
) -> None:
    play(tb, "s")
    play(tb, "s")
    consume()
    assert count_history(tb.history("s")) == times(2) == counted(database, layout)
    play(tb, "another")
    consume()
    found = answer(settings, "--session", "s")
    assert (found["session"], found["summary"]["totals"]["calls"]) == ("s", 2 * CALLS)
    assert "history" in run(settings, "stats", "--session", "s").stdout
    nothing = run(settings, "stats", "--session", "nobody")
    assert (nothing.exit_code, nothing.stdout) == (0, "Session nobody: no tool calls in its history.\n")


@pytest.mark.parametrize("arguments", [(), ("--plot", "-")])
def test_before_anything_is_counted_it_says_so(settings: Settings, layout: Layout, arguments: tuple[str, ...]) -> None:
    assert layout.shards
    done = run(settings, "stats", *arguments)
    assert done.exit_code == 0
    assert done.stdout.startswith("Team default: no tool calls yet.")
    found = answer(settings)
    assert (found["since"], found["summary"]["tools"], found["by_day"]) == (None, [], [])


def test_the_page_shows_every_measure(tb: Tellback, settings: Settings, consume: Callable[[], None]) -> None:
    play(tb, "s").feedback()
    consume()
    tb.prompt("s", "p")
    page = run(settings, "stats").stdout
    for words in ("search", "rate_limited 1", "50%", "alternative", "StaticFeedback", "Cooling down", "1 at 3"):
        assert words in page
    narrow = run(settings, "stats", columns=60)
    assert narrow.exit_code == 0


def test_bars_in_the_terminal(tb: Tellback, settings: Settings, consume: Callable[[], None]) -> None:
    play(tb, "s")
    consume()
    page = run(settings, "stats", "--plot", "-").stdout
    for title in ("Tool calls by day", "Tool calls by tool", "Suggestions"):
        assert title in page
    (search,) = [line for line in page.splitlines() if line.startswith("search")]
    assert "▒" in search
    assert "█" not in search, "every call of it was an error"


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.PDF", b"%PDF")])
def test_a_picture(
    tb: Tellback, settings: Settings, consume: Callable[[], None], tmp_path: Path, name: str, begins: bytes
) -> None:
    prompt = play(tb, "s")
    tb.context.publisher.publish(call(prompt, "検索 $x_1$ \x1b", {}, None))
    consume()
    for arguments in ((), ("--session", "s"), ("--session", "nobody")):
        path = tmp_path / name
        done = run(settings, "stats", *arguments, "--plot", str(path))
        assert (done.exit_code, done.stdout) == (0, ""), done.output
        assert path.read_bytes().startswith(begins)
        path.unlink()


@pytest.mark.parametrize("name", ["a.gif", "a", "png"])
def test_a_picture_of_another_kind_is_refused(settings: Settings, layout: Layout, name: str) -> None:
    assert layout.shards
    done = run(settings, "stats", "--plot", name)
    assert done.exit_code == 2
    assert ".png, .svg, .pdf" in done.stderr


def test_a_picture_without_matplotlib_names_what_is_missing(
    settings: Settings, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    assert layout.shards
    monkeypatch.setitem(sys.modules, "tellback.cli.plots", None)
    done = run(settings, "stats", "--plot", str(tmp_path / "a.png"))
    assert done.exit_code == 2
    assert "pip install 'tellback[plot]'" in done.stderr


def test_a_picture_where_nothing_may_be_written_is_one_line(settings: Settings, layout: Layout, tmp_path: Path) -> None:
    assert layout.shards
    (tmp_path / "file").write_text("")
    done = run(settings, "stats", "--plot", str(tmp_path / "file" / "a.png"))
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1


def test_reading_asks_redis_twice_whatever_was_counted(
    tb: Tellback, database: Database, layout: Layout, consume: Callable[[], None]
) -> None:
    play(tb, "s")
    consume()
    asked = 0

    class Counting(Database):
        def pipeline(self, *arguments: Any, **more: Any) -> list[Any]:
            nonlocal asked
            asked += 1
            return super().pipeline(*arguments, **more)

    counting = Counting(database.url)
    assert read_stats(counting, layout)
    counting.close()
    assert asked == 1


def test_counts_of_before_a_step_of_the_servers_clock_back_over_midnight_are_read(
    database: Database, layout: Layout
) -> None:
    """A stream's ids stay at the later day, so its counts do too."""
    tomorrow = database.now_ms() + 86_400_000
    key = guidestats_of(layout.all[0], tomorrow)
    database.pipeline([("HSET", key, "since", tomorrow, "tool:t:calls", 3), ("EXPIRE", key, 60)])
    assert [day.counters for day in read_stats(database, layout, 1)] == [{"tool:t:calls": 3}]
