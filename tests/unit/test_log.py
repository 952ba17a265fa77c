"""The library's log lines go through logging, never to the host's standard output."""

from __future__ import annotations

import logging
import sys

import pytest

from tellback.log import get_logger
from tests.support.processes import run_program


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
