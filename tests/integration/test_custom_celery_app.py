"""Custom code that makes a Celery app of its own within a worker."""

from __future__ import annotations

from tellback import FeedbackProviderConfig, FeedbackTrigger, Tellback
from tellback.broker import KEY_PREFIX
from tellback.state.database import Database
from tellback.state.job_keys import queue_of
from tests.support import providers
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

PROVIDER = "tests.support.providers:OwnTasks"


def test_wakeups_are_published_by_the_workers_app(
    tb: Tellback, database: Database, start_workers: StartWorkers
) -> None:
    """A new app is the current one of its thread, so wake-ups went to the broker of the provider's project."""
    workers = start_workers(1, concurrency=1, env={"TELLBACK_PROVIDERS": PROVIDER})
    each_call = FeedbackTrigger(every_n_calls=1)
    prompt = tb.prompt("s", "p", feedback_providers=[FeedbackProviderConfig(providers.OwnTasks(), each_call)])
    prompt.tool_invoked("t")
    assert prompt.feedback(wait=30)
    tb.submit(["true"], session="s", host="elsewhere")
    wakeups = f"{KEY_PREFIX}{queue_of('elsewhere')}"
    wait_until(lambda: database.command("LLEN", wakeups), "the other host's workers are woken")
    assert "wakeup_failed" not in workers.log()
