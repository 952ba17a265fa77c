"""docs/loops/tuning-signals.md: the complete loop prints what the page shows, and its figures are those of the code."""

from __future__ import annotations

import re
import shlex
import sys

import pytest
from typer.testing import CliRunner

from tellback.cli.app import app
from tellback.settings import Settings
from tellback.signals import detection
from tellback.signals.calibration import MIN_PAIRS
from tests.support.pages import ROOT, console
from tests.support.processes import run_program
from tests.support.workers import StartWorkers, environment

PAGE = "docs/loops/tuning-signals.md"
LOOP = "python examples/complete_feedback_loop.py"


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(240)
def test_the_complete_loop_prints_what_the_page_shows(
    settings: Settings, database: object, start_workers: StartWorkers
) -> None:
    """Requirements S-38 and S-65, through a real worker with the real model."""
    del database  # emptied
    start_workers(queues="signals,recalls", pool="threads", concurrency=2)
    done = run_program(
        [sys.executable, *LOOP.split()[1:]], cwd=ROOT, env=environment(settings), timeout=180, check=True
    )
    assert done.stdout == console(PAGE)[LOOP]


def test_the_loop_says_what_is_missing(settings: Settings, database: object) -> None:
    """Without a worker the script ends with the reason, and does not hang."""
    del database
    code = (ROOT / LOOP.split()[1]).read_text("utf-8").replace("wait=60", "wait=0.1")
    done = run_program([sys.executable, "-c", code], env=environment(settings))
    assert done.returncode != 0
    assert "worker" in done.stderr.splitlines()[-1]


def test_every_command_of_the_page_is_one() -> None:
    lines = [line for line in console(PAGE) if line.startswith("tellback")]
    assert len(lines) == 2
    for line in lines:
        _, name, *arguments = shlex.split(line)
        helped = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).stdout
        assert not [option for option in arguments if option.startswith("--") and option not in helped]


def test_the_pages_figures_are_those_of_the_code() -> None:
    text = (ROOT / PAGE).read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    assert rows["reference"] == f"{detection.REFERENCE}"
    assert rows["overlap"] == f"{detection.OVERLAP} × Jaccard"
    assert rows["meaning"] == f"{detection.MEANING} × cosine"
    assert rows["values"] == "{}, or {} for two and more".format(*detection.VALUES)
    assert rows["file"] == f"{detection.FILE}"
    assert rows["topic"] == f"{detection.TOPIC} × share"
    assert f"use − {detection.IGNORED} × against: above {detection.DECIDED}" in text
    assert (
        f"{detection.MAX_FACTS:,} facts, {detection.MAX_FACT:,} characters of each, {detection.MAX_RESPONSE:,}" in text
    )
    assert f"below {MIN_PAIRS} of either kind" in text
