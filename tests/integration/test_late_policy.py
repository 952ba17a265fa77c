"""The time within which late answers are sent, channel by channel."""

from __future__ import annotations

import msgspec
import pytest

from tellback import ConfigurationError, Tellback, connect
from tellback.client.turns import Turn
from tellback.settings import Settings, load
from tellback_workers.loops.turns import TurnsLoop
from tellback_workers.runtime import Runtime
from tests.support.intake_entries import published
from tests.support.turns import HELLO, delivered_now, fallback_was, overdue, swept, view

POLICY = "chat = 0, telegram=86400,"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, late_within=60.0, channel_late_within=POLICY)


def with_fallback(tb: Tellback, channel: str) -> Turn:
    """A turn whose user has had the fallback for ten minutes."""
    turn = overdue(tb, channel=channel)
    assert swept(tb) == 1
    delivered_now(tb, channel)
    fallback_was(tb, turn, seconds_ago=600)
    return turn


@pytest.mark.parametrize(("channel", "said"), [("chat", "stale"), ("telegram", "late"), ("web", "stale")])
def test_a_channel_has_a_time_of_its_own(tb: Tellback, channel: str, said: str) -> None:
    assert with_fallback(tb, channel).respond(HELLO) == said
    assert with_fallback(tb, channel).respond(HELLO, late_within=3_600) == "late", "the call comes before the setting"


def test_so_it_has_in_the_workers(tb: Tellback, settings: Settings) -> None:
    """The host says nothing of it, and the workers' setting counts."""
    workers = msgspec.structs.replace(settings, channel_late_within="chat=86400")
    with connect(settings=workers):
        runtime = Runtime(workers)
    turn = with_fallback(tb, "chat")
    lease, entries = published(tb, runtime, lambda: turn.finish(HELLO))
    TurnsLoop(runtime, "default").apply(lease, entries)
    runtime.database.close()
    assert (view(tb, turn).state, view(tb, turn).late_delivery) == ("fallback", "waiting")


@pytest.mark.parametrize("written", ["chat", "=5", "chat=", "chat=soon", "chat=-1", "chat=nan", "chat=inf", "chat=1e9"])
def test_what_is_written_otherwise_is_refused_at_the_start(written: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^TELLBACK_CHANNEL_LATE_WITHIN: '.*': write CHANNEL=SECONDS"):
        load({"TELLBACK_CHANNEL_LATE_WITHIN": written})
