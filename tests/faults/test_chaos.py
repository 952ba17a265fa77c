"""Five minutes of chaos with a fixed seed, and a fixed fault that chaos finds when it is put back.

`make chaos SEED=… SECONDS=…` runs other seeds for longer; docs/operations/chaos.md has the longest run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.chaos.plan import Fault, draw
from tests.chaos.report import table
from tests.chaos.runs import RunOutcome, run
from tests.support.clocks import faketime_library

SEED: Final = 11
SECONDS: Final = 300.0

pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.model,
    pytest.mark.timeout(1_800),  # five minutes of faults, up to five until all is settled, and starts on a busy machine
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # processes that are killed close nothing
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # which the collector then finds
]


def _silent(_: str) -> None:
    """Print no progress."""


def _shown(outcome: RunOutcome) -> str:
    return table(outcome.story, outcome.applied, outcome.verdicts, outcome.own_deaths)


def test_every_invariant_holds_under_five_minutes_of_chaos(tmp_path: Path) -> None:
    """Thousands are counted for each; `make chaos SEED=11 SECONDS=300` runs the same faults by hand."""
    outcome = run(tmp_path / "run", draw(SEED, SECONDS), SECONDS, report=_silent)
    print(_shown(outcome))  # noqa: T201 - shown if it fails, and by -rP
    assert outcome.holds
    assert not [verdict.invariant for verdict in outcome.verdicts if not verdict.counted]


@pytest.mark.skipif(faketime_library() is None, reason="needs the library of the package `faketime`")
@pytest.mark.parametrize("app", ["tellback_workers.app", "tests.chaos.clock_fault"])
def test_a_fixed_fault_is_found_when_it_is_put_back(tmp_path: Path, app: str) -> None:
    """Deadlines that follow the wall clock leave users waiting after a step back; without the fault all holds."""
    faults = [Fault(6.0, "step clock", 0, 0.0, -3600)]
    outcome = run(tmp_path / "run", faults, 15.0, report=_silent, app=app, longest=180.0 if "workers" in app else 30.0)
    print(_shown(outcome))  # noqa: T201 - as above
    violated = {verdict.invariant for verdict in outcome.verdicts if verdict.violations}
    assert violated >= {6, 13} if app.startswith("tests") else not violated
