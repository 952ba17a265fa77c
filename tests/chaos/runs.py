"""One run: start the system, apply the faults, wait until it has settled, check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tellback import clock, connect
from tests.chaos.end_state import read_end_state
from tests.chaos.history import read
from tests.chaos.injector import Injector
from tests.chaos.plan import Fault
from tests.chaos.report import judge
from tests.chaos.settling import LONGEST, settle
from tests.chaos.story import Story, add_up
from tests.chaos.system import System
from tests.chaos.verdict import ChaosVerdict
from tests.chaos.watching import Watch

Progress = Callable[[str], None]


@dataclass(frozen=True)
class RunOutcome:
    """The story and the verdicts of one run."""

    story: Story
    verdicts: list[ChaosVerdict]
    applied: Counter[str]
    left_out: Counter[str]
    own_deaths: list[str]
    """The ends of processes of the system that nobody killed."""

    @property
    def holds(self) -> bool:
        """True if no invariant is violated."""
        return not any(verdict.violations for verdict in self.verdicts)


def run(
    folder: Path,
    faults: list[Fault],
    seconds: float,
    *,
    report: Progress,
    app: str = "tellback_workers.app",
    longest: float = LONGEST,
) -> RunOutcome:
    """Run the system below `folder` for so many seconds under these faults, and check what it did."""
    with System(folder, app=app) as system:
        report("starting")
        system.start()
        injector, watch = Injector(system, list(faults)), Watch(system)
        began = clock.monotonic()
        while (elapsed := clock.monotonic() - began) < seconds:
            injector.advance(elapsed)
            watch.advance(elapsed)
            report(f"{elapsed:.0f} of {seconds:.0f} s, {injector.applied.total()} faults")
            clock.sleep(0.05)
        injector.end_all()
        with connect(settings=msgspec.structs.replace(system.settings, data_dir=str(folder / "observer"))) as tb:
            left = settle(system, tb, report, longest)
            for member in system.members.values():  # what is read from here on stands still
                system.kill(member)
            report("checking")
            watch.search()
            story = add_up(read(folder / "history"))
            sessions = {submitted.session for submitted in story.submissions.values()}
            slack = 1_000 * (system.farthest[1] - system.farthest[0])
            end = read_end_state(tb, folder, list(story.turns), sessions, slack, left)
        verdicts = judge(story, end, watch.seen, injector.victims)
        deaths = [death for member in system.members.values() for death in member.own_deaths]
        return RunOutcome(story, verdicts, injector.applied, injector.left_out, deaths)
