"""The log lines of a host whose events wait on disk: each reason once a minute."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from tellback import Settings
from tellback.messaging.publisher import Publisher
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.keys import Layout, stream_of
from tests.support.clocks import later
from tests.support.redis_server import RedisServer
from tests.support.tool_calls import call


def test_a_host_says_once_a_minute_why_events_wait_on_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requirement A-638. Each retry wrote a line for each stream, two a second, and so did each flush."""
    caplog.set_level("WARNING", "tellback.publisher")

    def said() -> list[str]:
        found = [line.getMessage() for line in caplog.records if "publisher.spooled" in line.getMessage()]
        caplog.clear()
        return [re.sub(r".* (events=\d+) .*", r"\1", line) for line in found]

    def publish(publisher: Publisher, times: int) -> None:
        for _ in range(times):
            publisher.publish(call("during"))
            publisher.flush()

    with RedisServer.start(tmp_path) as server, closing(Database(server.url)) as database:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"), publish_delay=60.0)
        publisher = Publisher(database, Layout("default", 1), settings)
        server.kill()
        publish(publisher, 5)
        assert said() == ["events=1"]
        later(monkeypatch, 61.0)
        publish(publisher, 5)
        assert said() == ["events=5"]
        server.launch()
        publish(publisher, 1)
        assert not publisher.spooled
        server.kill()
        publish(publisher, 3)
        assert said() == ["events=1"], "another outage"
        publisher.close()


def test_a_host_says_once_a_minute_that_a_stream_is_full_however_often_it_has_room(
    database: Database,
    layout: Layout,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requirement A-605. Each time that a worker made room counted as the end of an outage: each refusal was a line."""
    caplog.set_level("INFO", "tellback.publisher")
    settings = Settings(redis_url=database.url, data_dir=str(tmp_path / "data"), intake_max=2, publish_delay=60.0)
    stream = stream_of(layout.of("s1"), Family.EVENTS)

    def said(publisher: Publisher, refusals: int) -> list[str]:
        for number in range(refusals):
            while not publisher.spooled:
                publisher.publish(call("full", result="x" * 5_000 * number))  # what a full stream holds is in the line
                publisher.flush()
            database.command("XTRIM", stream, "MAXLEN", 0)
            publisher.flush()
            assert not publisher.spooled
        lines = [line.getMessage() for line in caplog.records]
        caplog.clear()
        return re.findall(r"publisher\.\w+|events=\d+", "\n".join(lines))

    with closing(Publisher(database, layout, settings)) as publisher:
        assert sorted(said(publisher, 4)) == ["events=1", "publisher.recovered", "publisher.spooled"]
        later(monkeypatch, 61.0)
        assert sorted(said(publisher, 4)) == ["events=4", "publisher.recovered", "publisher.spooled"]
