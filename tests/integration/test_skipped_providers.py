"""Custom providers for which no time was left in a batch; on a real Redis, consumed in this process."""

from __future__ import annotations

import time

import msgspec
import pytest

from tellback import FeedbackProviderConfig, FeedbackTrigger, Tellback, connect
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.evaluations import shards_with_due_timers
from tellback.state.keys import Layout, Shard
from tellback_workers.due_timers import DueTimers
from tellback_workers.loops import consumer_of
from tellback_workers.loops.guidance import GuidanceLoop
from tellback_workers.runtime import Runtime
from tests.support import providers

EACH_CALL = FeedbackTrigger(every_n_calls=1)
FAILURE = "provider_failure"
LEASE = 4.0  # seconds, of which custom providers get a quarter; one of 1 s ran out on a busy machine


@pytest.fixture
def runtime(settings: Settings, layout: Layout) -> Runtime:
    """Return a runtime in which one provider that hangs uses up the time of a batch."""
    return Runtime(
        msgspec.structs.replace(settings, providers=providers.SETTING, consumer_lease=LEASE, provider_timeout=LEASE)
    )


def fire_timers(runtime: Runtime, shard: Shard) -> int:
    return DueTimers(runtime, shard, GuidanceLoop(runtime)).fire(time.monotonic() + 5)


def test_a_provider_for_which_no_time_was_left_is_called_without_another_event(
    tb: Tellback, runtime: Runtime, database: Database, layout: Layout
) -> None:
    """It was called at its evaluation's next event only; one that hangs uses up the time of a batch here."""
    shard = layout.of("s")
    configs = [FeedbackProviderConfig(provider, EACH_CALL) for provider in (providers.Hangs(), providers.Monitor())]
    prompt = tb.prompt("s", "p", feedback_providers=configs)
    prompt.tool_invoked("t")
    tb.flush()
    consumer_of(runtime, "default", Family.EVENTS).consume(shard, Family.EVENTS)
    assert shards_with_due_timers(database, layout) == [shard]
    fire_timers(runtime, shard)
    assert [feedback.summary for feedback in prompt.feedback()] == ["1 of 20, last t"]
    assert not database.command("EXISTS", shard.key("timers")), "no timer is left"


def test_an_event_may_call_a_provider_before_the_timer_for_which_it_was_skipped(
    tb: Tellback, runtime: Runtime, database: Database, layout: Layout
) -> None:
    shard, hanging = layout.of("s"), FeedbackProviderConfig(providers.Hangs(), FeedbackTrigger(every_n_calls=2))
    healthy = FeedbackProviderConfig(providers.Monitor(), FeedbackTrigger(every_n_calls=2))
    prompt = tb.prompt("s", "p", feedback_providers=[hanging, healthy])
    for calls in (2, 1):
        for _ in range(calls):
            prompt.tool_invoked("t")
        tb.flush()
        consumer_of(runtime, "default", Family.EVENTS).consume(shard, Family.EVENTS)
    assert [feedback.summary for feedback in prompt.feedback()] == ["3 of 20, last t"]
    fire_timers(runtime, shard)
    assert prompt.feedback() == []
    assert not database.command("EXISTS", shard.key("timers")), "no timer is left"


def test_a_provider_that_hangs_longer_than_a_lease_does_not_cost_its_consumer_the_stream(
    tb: Tellback, settings: Settings, layout: Layout
) -> None:
    """The lease ended during the call, so nothing was committed, and the next consumer took the call for a crash."""
    runtime = Runtime(
        msgspec.structs.replace(settings, providers=providers.SETTING, consumer_lease=LEASE, provider_timeout=3 * LEASE)
    )
    prompt = tb.prompt("s", "p", feedback_providers=[FeedbackProviderConfig(providers.Hangs(), EACH_CALL)])
    prompt.tool_invoked("t")
    tb.flush()
    consumer_of(runtime, "default", Family.EVENTS).consume(layout.of("s"), Family.EVENTS)
    failures = [entry["reason"] for entry in tb.history("s") if entry["kind"] == FAILURE]
    assert failures == ["did not return within 1.0 s"]


def test_streams_behind_others_with_hanging_providers_keep_their_leases(settings: Settings) -> None:
    """One wake-up names several streams; the leases of the last ones ended while those before were applied."""
    runtime = Runtime(
        msgspec.structs.replace(settings, providers=providers.SETTING, consumer_lease=2.0, provider_timeout=2.0)
    )
    with connect(settings=msgspec.structs.replace(settings, shards=6)) as tb:
        by_shard = {tb.context.layout.of(name): name for name in map(str, range(200))}
        hanging = [FeedbackProviderConfig(providers.Hangs(), EACH_CALL)]
        for session in by_shard.values():
            tb.prompt(session, "p", feedback_providers=hanging).tool_invoked("t")
        tb.flush()
        consumer_of(runtime, "default", Family.EVENTS).consume_together(list(by_shard), Family.EVENTS)
        failed = [
            entry["reason"] for name in by_shard.values() for entry in tb.history(name) if entry["kind"] == FAILURE
        ]
    assert failed == ["did not return within 0.5 s"] * 6
