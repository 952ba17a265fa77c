"""The logs of workers and beat while something is wrong."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest
from celery.beat import SchedulingError
from celery.signals import beat_init
from redis.exceptions import ResponseError
from structlog.testing import capture_logs

from tellback import Settings
from tellback.state.database import Database
from tellback.state.presence import Worker
from tellback.state.unavailable import OLD_REDIS, as_raised
from tellback_beat.app import TickFailures
from tellback_workers.presence import ModelPreload, PresenceHeartbeat
from tellback_workers.runtime import Runtime
from tests.support.commands import running_beat
from tests.support.redis_server import RedisServer, free_port
from tests.support.waiting import wait_until


def test_beat_says_in_one_line_that_the_broker_did_not_take_a_tick(tmp_path: Path) -> None:
    """Celery logged two stacks of a hundred lines at each period. Requirement C-177."""
    with RedisServer.start(tmp_path) as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"), beat_period=0.2)
        database, log = Database(server.url), tmp_path / "beat.log"
        with running_beat(settings, tmp_path):
            wait_until(lambda: database.command("DBSIZE"), "beat has sent a tick")
            database.close()
            server.kill()
            wait_until(lambda: log.read_text().count("The next tick does the same work.") >= 2, "two ticks failed")
            server.restart()
            ticks = Database(server.url)
            ticks.command("FLUSHALL")
            wait_until(lambda: ticks.command("DBSIZE"), "beat has sent another tick")
            ticks.close()
    said = log.read_text()
    assert "Connection refused" in said
    assert "Traceback" not in said
    assert ".py" not in said


def test_beat_shows_the_traceback_of_any_other_failure() -> None:
    error = SchedulingError("Couldn't apply")
    error.__context__ = KeyError("a fault of ours")
    line = logging.LogRecord(
        "celery.beat", logging.ERROR, "", 1, "Message Error: %s", ("x",), (SchedulingError, error, None)
    )
    assert TickFailures().filter(line)
    assert line.exc_info
    assert line.getMessage() == "Message Error: x"


def test_a_filter_that_others_put_on_the_log_of_beat_stays() -> None:
    """However often beat starts in one process, its own is there once."""
    log, other = logging.getLogger("celery.beat"), logging.Filter()
    before = list(log.filters)
    log.addFilter(other)
    try:
        for _ in range(2):
            beat_init.send(sender=None)
        assert log.filters.count(other) == 1
        assert [type(each) for each in log.filters].count(TickFailures) == 1
    finally:
        log.filters[:] = before


def _heartbeat(settings: Settings) -> PresenceHeartbeat:
    worker = Worker(name="w@h", host="h", pid=1, queues=(), version="0")
    return PresenceHeartbeat(Runtime(settings), worker, ModelPreload(settings, wanted=False))


def test_a_worker_that_may_not_load_scripts_says_so_once(settings: Settings, database: Database) -> None:
    """Hosts that bring no scripts of their own then fail, and its log said nothing. Requirement C-178."""
    database.command("SCRIPT", "FLUSH")
    database.command("ACL", "SETUSER", "w", "reset", "on", ">w", "~*", "&*", "+@all", "-script|load")
    try:
        heartbeat = _heartbeat(
            msgspec.structs.replace(settings, redis_url=settings.redis_url.replace("redis://", "redis://w:w@"))
        )
        with capture_logs() as lines:
            for _ in range(3):
                heartbeat._load_scripts()
    finally:
        database.command("ACL", "DELUSER", "w")
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("scripts.not_loaded", "error")
    assert "script|load" in line["reason"]
    assert "access.md" in line["reason"]


def test_a_worker_whose_redis_is_away_leaves_that_to_its_loops(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    heartbeat = _heartbeat(msgspec.structs.replace(settings, redis_url=f"redis://127.0.0.1:{free_port()}"))
    heartbeat._load_scripts()
    assert "scripts.not_loaded" not in capsys.readouterr().out


def test_a_worker_names_the_oldest_redis_that_it_can_use(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is that of Redis 6.2."""
    heartbeat = _heartbeat(settings)

    def refused(_scripts: object) -> None:
        raise as_raised(ResponseError(OLD_REDIS), settings.redis_url)

    monkeypatch.setattr(heartbeat._runtime.database, "load_scripts", refused)
    with capture_logs() as lines:
        heartbeat._load_scripts()
    (line,) = lines
    assert line["log_level"] == "error"
    assert "older than 7.0" in line["reason"]
