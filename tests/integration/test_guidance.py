"""Guidance end to end: agent hosts, real worker processes, a real Redis."""

from __future__ import annotations

import subprocess
import sys
import time
import weakref
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tellback import (
    DeadlineFeedback,
    FeedbackProvider,
    FeedbackProviderConfig,
    FeedbackTrigger,
    Prompt,
    StaticFeedback,
    Tellback,
    Unavailable,
    clock,
    connect,
)
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import EvaluationCounts
from tests.support import providers
from tests.support.processes import run_program
from tests.support.redis_server import RedisServer
from tests.support.tool_calls import counts
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, environment

HOST = """
import sys
from tellback import FeedbackProviderConfig, FeedbackTrigger, StaticFeedback, connect
with connect() as tb:
    reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=10))
    prompt = tb.prompt("fleet", "p", evaluation="shared", feedback_providers=[reminder])
    for n in range(int(sys.argv[1])):
        prompt.tool_invoked("search", params={"n": n}, result="found", duration_ms=3)
"""


def every(n: int, provider: FeedbackProvider) -> FeedbackProviderConfig:
    return FeedbackProviderConfig(provider=provider, trigger=FeedbackTrigger(every_n_calls=n))


def reminder(n: int) -> FeedbackProviderConfig:
    return every(n, StaticFeedback("Mind the goal."))


def test_a_wait_for_feedback_logs_once_why_none_comes(
    own_redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With a wrong password, a wait of three seconds logged the same line seven times."""
    settings = Settings(redis_url=own_redis.url.replace("//", "//nobody:wrong@"), data_dir=str(tmp_path))
    with connect(settings=settings) as tb:
        prompt = tb.prompt("s", "p")
        assert [prompt.feedback(wait=1.2), prompt.feedback(wait=0.6)] == [[], []]
    assert sum("feedback.postponed" in record.message for record in caplog.records) == 1


def wait_for_calls(tb: Tellback, prompt: Prompt, n: int) -> EvaluationCounts:
    wait_until(lambda: counts(tb, prompt).calls >= n, f"{n} calls are counted")
    return counts(tb, prompt)


def test_a_tool_call_earns_deadline_feedback(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(1, queues="events")
    prompt = tb.prompt("s1", "ns:prompt", feedback_providers=[every(2, DeadlineFeedback())], deadline=90)
    prompt.tool_invoked("wikipedia", params={"q": "Ruby"}, result="found")
    assert prompt.feedback(wait=0.3) == []
    prompt.tool_invoked("wikipedia", params={"q": "Ruby creator"}, error="503", status="error")
    (feedback,) = prompt.feedback(wait=10)
    assert feedback.severity == "warning"
    assert feedback.render() == (
        "[Feedback - Deadline]\n\n"
        "The work so far took 0 seconds. You have 1 minute remaining to complete the task.\n\n"
        "→ Prioritize critical remaining work.\n"
        "→ Summarize progress and what remains."
    )
    assert prompt.feedback() == []
    entries = [(entry["kind"], entry.get("tool") or entry["provider_name"]) for entry in tb.history("s1")]
    assert entries == [("tool_call", "wikipedia"), ("tool_call", "wikipedia"), ("feedback", "DeadlineFeedback")]


@pytest.mark.slow
def test_eight_processes_on_one_prompt_fire_exactly(
    tb: Tellback, settings: Settings, start_workers: StartWorkers
) -> None:
    """8 × 500 calls at one feedback every 10 give exactly 400, with two workers of two processes each."""
    start_workers(2, queues="events")
    hosts = [
        subprocess.Popen([sys.executable, "-c", HOST, "500"], env=environment(settings), stdin=subprocess.DEVNULL)
        for _ in range(8)
    ]
    assert [host.wait(60) for host in hosts] == [0] * 8
    joined = tb.prompt("fleet", "p", evaluation="shared")
    assert wait_for_calls(tb, joined, 4_000).fires == 400
    time.sleep(0.5)
    assert (counts(tb, joined).calls, counts(tb, joined).fires) == (4_000, 400)


@pytest.mark.faults
def test_a_worker_that_dies_between_evaluation_and_commit_changes_no_count(
    tb: Tellback, start_workers: StartWorkers, tmp_path: Path
) -> None:
    """The provider kills its process when everything of the batch is evaluated and nothing is committed."""
    start_workers(1, queues="events", env={"TELLBACK_PROVIDERS": providers.SETTING, "TELLBACK_CONSUMER_LEASE": "1"})
    marker = tmp_path / "killed"
    prompt = tb.prompt(
        "s1",
        "p",
        delivery="all",
        feedback_providers=[every(10, StaticFeedback("x")), every(35, providers.KillsOnce(str(marker)))],
    )
    for _ in range(60):
        prompt.tool_invoked("t")
    after = wait_for_calls(tb, prompt, 60)
    assert marker.exists()
    fired = Counter(entry["provider_name"] for entry in tb.history("s1") if entry["kind"] == "feedback")
    assert after.calls == 60
    assert fired["StaticFeedback"] == 6


BAD = {
    providers.Raises(): "raised RuntimeError: broken on purpose",
    providers.Hangs(): "did not return within 0.5 s",
    providers.Stubborn(): "did not return within 0.5 s",
    providers.Nonsense(): "returned dict, not Feedback",
    providers.Exits(): "raised SystemExit: 3",
}


def test_a_custom_provider_runs_on_the_worker_and_a_bad_one_costs_its_own_feedback_only(
    tb: Tellback, start_workers: StartWorkers
) -> None:
    env = {"TELLBACK_PROVIDERS": providers.SETTING, "TELLBACK_PROVIDER_TIMEOUT": "0.5"}
    # Of the lease those that hang use up no time of the others. The marker of one that lingers would live as long.
    env |= {"TELLBACK_CONSUMER_LEASE": "120", "TELLBACK_LINGER": "0"}
    start_workers(1, queues="events", env=env)
    prompts = {
        reason_of: tb.prompt("s1", type(reason_of).__name__, feedback_providers=[every(1, reason_of), reminder(2)])
        for reason_of in BAD
    }
    for prompt in prompts.values():
        for _ in range(20):
            prompt.tool_invoked("t")
    good = tb.prompt("s1", "good", feedback_providers=[every(1, providers.Monitor(max_calls_without_progress=7))])
    good.tool_invoked("search")
    (feedback,) = good.feedback(wait=30)
    assert (feedback.summary, feedback.severity) == ("1 of 7, last search", "caution")
    for provider, prompt in prompts.items():
        assert wait_for_calls(tb, prompt, 20).fires == 10
        reasons = [
            entry["reason"]
            for entry in tb.history("s1")
            if entry["kind"] == "provider_failure" and entry["prompt"] == prompt.name
        ]
        assert reasons == [BAD[provider]] * 3


DEADLINE = 3.0  # far above what a call takes on a busy machine


@pytest.mark.faults
def test_feedback_never_blocks_past_wait_when_redis_is_slow_stopped_or_gone(
    own_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(redis_url=own_redis.url, data_dir=str(tmp_path / "data"), feedback_deadline=DEADLINE)

    def asked(prompt: Prompt, wait: float) -> float:
        start = time.monotonic()
        prompt.tool_invoked("t", result="x")
        assert prompt.feedback(wait=wait) == []
        return time.monotonic() - start

    with connect(settings=settings) as tb:
        prompt = tb.prompt("s1", "p")
        asked(prompt, 0)
        own_redis.suspend()  # who waited for it would do so for ever
        try:
            before = clock.monotonic()
            asked(prompt, 0)
            with monkeypatch.context() as at_once:
                at_once.setattr(clock, "monotonic", lambda: before)
                assert asked(prompt, 0) < DEADLINE, "the wait is not paid again at once"
            asked(prompt, 1.2)
            fresh = Prompt(tb.context, EvaluationId("s2", "p", "e"))
            asked(fresh, 0)
        finally:
            own_redis.resume()
        own_redis.kill()
        assert asked(prompt, 0) < DEADLINE
        asked(prompt, 0.7)
        own_redis.launch()


def test_who_finds_that_redis_is_away_spares_all_others_of_its_client_the_wait(
    tb: Tellback, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)  # it asks again after a second

    def no_answer(*_: object) -> None:
        asked.append("asked")
        raise Unavailable("no answer")

    for name in ("run", "command", "pipeline", "run_all", "blocking"):
        monkeypatch.setattr(tb.context.quick_database, name, no_answer)
    prompts = [tb.prompt(f"s{n}", "p", tools=["a", "b"]) for n in range(20)]
    assert [prompt.feedback() for prompt in prompts] == [[]] * 20
    assert all(prompt.observe("a", error="503 Service Unavailable").status == "error" for prompt in prompts)
    assert len(asked) == 1


@pytest.mark.faults
def test_what_a_stopped_redis_had_taken_is_delivered_when_it_answers_again(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    """The stopped server gets the question, and answers to nobody; the same operation asks again."""
    settings = Settings(redis_url=own_redis.url, data_dir=str(tmp_path / "data"), feedback_deadline=1.0)
    with connect(settings=settings) as tb:
        prompt = tb.prompt("s1", "p", evaluation="e")
        assert prompt.feedback() == []  # in time also on a busy machine: who got no reply does not ask again at once
        mailbox = tb.context.layout.of("s1").key("mailbox", "s1", "p", "e")
        database = Database(own_redis.url)
        database.command("RPUSH", mailbox, b'{"provider_name":"X","summary":"kept"}')
        own_redis.suspend()
        try:
            assert prompt.feedback() == []
        finally:
            own_redis.resume()
        wait_until(lambda: not database.command("EXISTS", mailbox), "the server has run what it was asked")
        assert [feedback.summary for feedback in prompt.feedback(wait=60)] == ["kept"]
        database.close()


def last_words(settings: Settings, **env: str) -> str:
    """Return the output of a worker that does not start."""
    ended = run_program(
        [sys.executable, "-m", "celery", "-A", "tellback_workers.app", "worker"], env=environment(settings, env)
    )
    assert ended.returncode != 0
    return ended.stderr.strip().splitlines()[-1]


def test_a_worker_whose_setting_names_a_missing_provider_does_not_start(settings: Settings) -> None:
    said = last_words(settings, TELLBACK_PROVIDERS="tests.support.providers:Missing")
    assert said.startswith("tellback: TELLBACK_PROVIDERS: tests.support.providers:Missing cannot be imported")


def test_a_worker_with_two_packages_whose_providers_have_one_name_does_not_start(
    settings: Settings, tmp_path: Path
) -> None:
    for name in ("one_twin", "other_twin"):
        (tmp_path / f"{name}.py").write_text("class Twin: pass\n")
        metadata = tmp_path / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[tellback.providers]\n{name} = {name}:Twin\n")
    said = last_words(settings, PYTHONPATH=str(tmp_path))
    assert said.startswith("tellback: two feedback providers are named Twin: ")
    assert {"one_twin", "other_twin"} <= set(said.replace(",", "").split())


def test_an_odd_status_or_duration_costs_no_tool_call(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(1, queues="events")
    prompt = tb.prompt("s1", "p")
    gone: Any = weakref.proxy(type("Gone", (), {})())  # asked for its class, it raises ReferenceError
    odd: list[Any] = ["12", [], {}, None, object(), float("nan"), timedelta(seconds=1), gone]
    for value in odd:
        prompt.tool_invoked("t", status=value, duration_ms=value)
        prompt.observe("t", status=value, duration_ms=value, result="x")
    prompt.tool_invoked("t", duration_ms=12.6)
    wait_for_calls(tb, prompt, 17)
    reported = [entry for entry in tb.history("s1") if entry["kind"] == "tool_call"]
    assert [entry.get("duration_ms") for entry in reported] == [None] * 16 + [13]


def test_a_call_with_an_error_and_no_status_counts_as_an_error(tb: Tellback, start_workers: StartWorkers) -> None:
    """Requirement G-23."""
    start_workers(1, queues="events")
    prompt = tb.prompt("s1", "p")
    prompt.tool_invoked("t", error="503")
    prompt.tool_invoked("t", result="x")
    prompt.tool_invoked("t", error="old news", status="success")
    wait_for_calls(tb, prompt, 3)
    reported = [entry for entry in tb.history("s1") if entry["kind"] == "tool_call"]
    assert [entry["status"] for entry in reported] == ["error", "success", "success"]


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    return {"session": "s", "name": "p", **given}


def test_arguments_that_are_wrong_are_named(tb: Tellback) -> None:
    from datetime import datetime

    from tellback import InvalidInput

    wrong: list[tuple[dict[str, Any], str]] = [
        ({"session": ""}, "session"),
        ({"session": "x" * 513}, "session"),
        ({"name": ""}, "prompt"),
        ({"evaluation": ""}, "evaluation"),
        ({"delivery": "some"}, "delivery"),
        ({"deadline": datetime.fromisoformat("2030-01-01")}, "time zone"),
        ({"deadline": float("nan")}, "deadline"),
        ({"deadline": "soon"}, "deadline"),
        ({"tools": [""]}, "tools"),
        ({"tools": None}, "tools"),
        ({"session": "\ud800"}, "session is .* not valid Unicode"),
        ({"name": "\ud800"}, "prompt is .* not valid Unicode"),
        ({"evaluation": "\ud800"}, "evaluation is .* not valid Unicode"),
        ({"feedback_providers": None}, "feedback_providers"),
        ({"feedback_providers": reminder(1)}, "feedback_providers .* use a list"),
        ({"feedback_providers": [StaticFeedback("x")]}, "FeedbackProviderConfig"),
        ({"feedback_providers": [every(1, StaticFeedback("x"))] * 33}, "at most 32"),
        ({"feedback_providers": [every(1, StaticFeedback("x" * 70_000))]}, "at most 65536"),
    ]
    for given, named in wrong:
        with pytest.raises(InvalidInput, match=named):
            tb.prompt(**_arguments(given))
    prompt = tb.prompt("s", "p")
    with pytest.raises(InvalidInput, match="tool"):
        prompt.tool_invoked("")
    for wait in (-1, float("nan"), "1"):
        with pytest.raises(InvalidInput, match="wait"):
            prompt.feedback(wait=cast("float", wait))
