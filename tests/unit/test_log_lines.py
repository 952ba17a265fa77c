"""Lines of logs: the library uses logging, those of a worker are whole and redacted, and repeated ones rare (A-646)."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from tellback import Settings, clock
from tellback.broker_transport import rejected
from tellback.errors import Unavailable
from tellback.guidance.provider import ProviderFailure
from tellback.log import get_logger
from tellback.state.intake import StreamRef
from tellback_workers import scheduler
from tellback_workers.dispatcher import Dispatcher
from tellback_workers.isolation import call_within
from tellback_workers.log import configure
from tellback_workers.repeated_lines import RepeatedLines
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import StandIn, visit_teams
from tests.support.clocks import later
from tests.support.hostile import HOSTILE, hidden, marks_in_a_row
from tests.support.processes import run_program

TURN = "t2-9b732e27fbcbe5e16d20321b"
LINE = "[FeedbackGuarantee] Producing fallback OutgoingResponse ..."


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """The lines that a worker's log would hold."""
    root, out = logging.getLogger(), io.StringIO()
    handlers, level, httpx = root.handlers[:], root.level, logging.getLogger("httpx").level
    monkeypatch.setattr("sys.stderr", out)
    configure(logging.INFO)
    yield out
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("httpx").setLevel(httpx)
    for name in ("celery.worker.consumer.consumer", "py.warnings"):
        logging.getLogger(name).filters.clear()


@pytest.mark.parametrize("channel", ["telegram", "discord", "twilio", "openai", "secret", "password", "chat"])
def test_a_fallbacks_line_is_whole_whatever_its_channel_is_called(written: io.StringIO, channel: str) -> None:
    """A channel is often called as a platform is, whose name before an id would be taken for a token's."""
    structlog.get_logger("tellback.turns").info(LINE, turn=TURN, channel=channel)
    logging.getLogger("tellback.turns").info("%s turn=%r channel=%r", LINE, TURN, channel)
    lines = written.getvalue().splitlines()
    assert len(lines) == 2
    for line in lines:
        assert LINE in line
        assert TURN in line
        assert channel in line


def test_a_secret_in_a_line_is_redacted(written: io.StringIO) -> None:
    structlog.get_logger("tellback.turns").warning("thing.failed", reason="password=hunter2hunter2")
    assert "hunter2" not in written.getvalue()
    assert "redacted" in written.getvalue()


def test_what_celery_says_of_a_broker_that_is_away_is_whole(written: io.StringIO) -> None:
    """Kombu masks a password, also one that is not there, by two stars."""
    said = "consumer: Cannot connect to redis://:**@127.0.0.1:6379/0: Error 111 connecting to 127.0.0.1:6379."
    logging.getLogger("celery.worker.consumer").error(said)
    assert said in written.getvalue()


def test_a_broker_that_refuses_again_and_again_is_logged_once_a_minute(
    written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Celery reconnects six times a second to a Redis that is full: 20,000 lines in two minutes, most of tracebacks."""
    celery, warnings = logging.getLogger("celery.worker.consumer.consumer"), logging.getLogger("py.warnings")

    def lose(error: Exception) -> None:
        celery.warning("consumer: Connection to broker lost.", exc_info=error)
        warnings.warning("%s", "consumer.py:397: CPendingDeprecationWarning: In Celery 5.1 we introduced")

    for _ in range(5):
        lose(OSError("full"))
    lose(ConnectionError("away"))
    celery.error("another line")
    celery.error("another line")
    counts = [written.getvalue().count(text) for text in ("OSError: full", "ConnectionError: away", "In Celery 5.1")]
    assert (counts, written.getvalue().count("another line")) == ([1, 1, 1], 2)
    later(monkeypatch, 61)
    lose(OSError("full"))
    assert [written.getvalue().count(text) for text in ("OSError: full", "In Celery 5.1")] == [2, 2]


def test_warnings_that_all_differ_are_all_logged_and_not_kept(written: io.StringIO) -> None:
    """Celery warns of each message that it does not know with the message's body."""
    celery = logging.getLogger("celery.worker.consumer.consumer")
    for number in range(1_000):
        celery.warning("unknown message %s.", number)
    assert written.getvalue().count("unknown message") == 1_000
    [known] = celery.filters
    assert len(vars(known)["_again"]) <= 100


def _fail() -> None:
    raise ValueError("token=hunter2hunter2")


def _objects(written: io.StringIO) -> list[dict[str, Any]]:
    configure(logging.INFO, as_json=True)
    log = structlog.get_logger("tellback.turns")
    log.info("turn.swept", turn=TURN, count=3, channel="telegram\x1b[31m\u202e")
    log.warning("thing.failed", reason="password=hunter2hunter2", turn=TURN)
    log.warning("thing.failed", password="hunter2hunter2")
    logging.getLogger("celery.worker").info("Task %s[%s] received", "tellback.consume", "id-1")
    try:
        _fail()
    except ValueError:
        log.exception("loop.failed", turn=TURN)
    text = written.getvalue()
    assert "hunter2" not in text
    assert not hidden(text.replace("\n", ""))
    return [json.loads(line) for line in text.splitlines()]


def test_each_line_is_an_object_of_json_where_that_is_set(
    written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Celery's lines and tracebacks are objects too; a secret costs its field, and nothing acts on a terminal."""
    monkeypatch.setattr("sys.stderr", written)  # pytest has set its own since
    swept, failed, named, celery, raised = _objects(written)
    assert (swept["event"], swept["turn"], swept["count"]) == ("turn.swept", TURN, 3)
    assert swept["channel"] == "telegram\x1b[31m\u202e", "the value is the same"
    assert {"level", "logger", "timestamp"} <= set(swept)
    assert (failed["event"], failed["turn"]) == ("thing.failed", TURN)
    assert (named["level"], named["logger"]) == ("warning", "tellback.turns")
    assert celery["event"] == "Task tellback.consume[id-1] received"
    assert celery["logger"] == "celery.worker"
    assert (raised["event"], raised["turn"]) == ("loop.failed", TURN)
    assert "in _fail" in raised["exception"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_line_has_nothing_hidden(written: io.StringIO, name: str) -> None:
    structlog.get_logger("tellback.turns").info("turn", channel=HOSTILE[name])
    line = written.getvalue().removesuffix("\n")
    assert not hidden(line)
    assert marks_in_a_row(line) <= 8


TOKEN = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"  # invented


def test_a_rejected_message_is_redacted_before_it_is_cut(written: io.StringIO) -> None:
    """Its first 200 characters were cut out first, and three quarters of a token at their end match no rule."""
    rejected("events", "the body is not base64", {"body": f"{'x' * 160} {TOKEN}"})
    assert "broker.rejected" in written.getvalue()
    assert TOKEN[:20] not in written.getvalue()


@pytest.mark.usefixtures("written")
def test_an_error_of_custom_code_is_redacted_before_it_is_cut() -> None:
    def fail() -> None:
        raise ValueError(f"{'x' * 1_980} {TOKEN}")

    with pytest.raises(ProviderFailure) as failed:
        call_within(5, fail)
    assert "ValueError" in str(failed.value)
    assert TOKEN[:10] not in str(failed.value)


TRIES = 3


def failing(reason: str) -> tuple[Callable[..., Any], threading.Event]:
    """A call that Redis refuses, and the event that it has been tried often enough."""
    enough, tries = threading.Event(), list[None]()

    def fail(*_: object) -> None:
        tries.append(None)
        if len(tries) == TRIES:
            enough.set()
        raise Unavailable(reason)

    return fail, enough


def nobody_woken(_: Sequence[StreamRef]) -> None:
    """No wake-up is due."""


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    runtime = Runtime(Settings())
    monkeypatch.setattr(scheduler, "current_runtime", lambda: runtime)
    monkeypatch.setattr("tellback_workers.repeating_thread.BACKOFF", 0.0)
    return runtime


def test_the_threads_of_a_worker_say_once_why_they_wait(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two said it twice a second, and 57 and 67 times in 35 s in which Redis had no disk."""
    for thread, event in (
        (Dispatcher(runtime, ()), "dispatcher.retry"),
        (StandIn(runtime, nobody_woken), "scheduler.postponed"),
    ):
        call, enough = failing("away")
        monkeypatch.setattr(thread, "repeat", call)
        with capture_logs() as logs:
            thread.start()
            assert enough.wait(10)
            thread.stop()
        assert [(line["event"], line["reason"]) for line in logs] == [(event, "away")]


def test_a_tick_says_once_why_it_visits_nobody(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler.TeamScheduler, "run", failing("away")[0])
    monkeypatch.setattr(scheduler.TeamScheduler, "visit_listed", failing("away")[0])
    with capture_logs() as logs:
        for _ in range(TRIES):
            visit_teams()
    assert [line["event"] for line in logs] == ["scheduler.postponed"]


def test_another_reason_and_a_minute_later_the_same_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    lines = RepeatedLines()
    assert [lines.is_due("retry", about) for about in ("away", "away", "full", "away")] == [True, False, True, False]
    now = 60.0
    assert lines.is_due("retry", "away")


def test_a_line_is_the_event_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("tellback.test").warning("thing.happened", count=3, reason="100% odd")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("tellback.test", logging.WARNING)
    assert record.getMessage() == "thing.happened count=3 reason='100% odd'"


def test_an_exception_brings_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        int("broken")
    except ValueError:
        get_logger("tellback.test").exception("thing.failed")
    assert "ValueError: invalid literal" in caplog.text


@pytest.mark.programs
def test_a_host_that_configures_nothing_keeps_its_standard_output() -> None:
    script = (
        "from tellback.log import get_logger; get_logger('x').warning('thing.happened'); get_logger('x').info('no')"
    )
    done = run_program([sys.executable, "-c", script], check=True)
    assert (done.stdout, done.stderr) == ("", "thing.happened\n")
