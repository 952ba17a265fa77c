"""The lines of a worker's log: whole where they name a turn and its channel, redacted where they hold a secret."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from tellback_workers.log import configure
from tests.support.hostile import HOSTILE, hidden, marks_in_a_row

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


@pytest.mark.parametrize("name", HOSTILE)
def test_a_line_has_nothing_hidden(written: io.StringIO, name: str) -> None:
    structlog.get_logger("tellback.turns").info("turn", channel=HOSTILE[name])
    line = written.getvalue().removesuffix("\n")
    assert not hidden(line)
    assert marks_in_a_row(line) <= 8
