"""Run a soak: `make soak MINUTES=60`. It prints the verdict, and leaves samples and a picture in build/soak."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.soak import AGENTS, CALLS, HOSTS, QUERIES
from tests.soak.plot import draw
from tests.soak.sampler import Sampler, SoakSample
from tests.soak.system import running_system
from tests.soak.verdict import SoakBounds, SoakFinding, judge
from tests.support.pages import ROOT
from tests.support.waiting import wait_until

# A usual fleet: 50 agents with a tool call each three seconds; a turn, a command, signals and a recall each 20 calls.
FLEET_CALLS: Final = 50 / 3  # a second
PRIMED: Final = 300.0  # seconds that a busy machine may need to load the model
PRIMING: Final = 2.0  # times the load, so that threads need connections at once before they are counted, not after
SETTLING: Final = 15.0  # seconds of a rest beyond the lifetime of keys
BOUNDS: Final = {"long": SoakBounds(), "short": SoakBounds(memory_mib=20.0, memory_share=0.06)}


def main() -> int:
    """Run what the arguments ask for; return 1 if anything grew or failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long, without the start (default 60)")
    parser.add_argument("--speed", type=float, default=3.0, help="load, as a multiple of a usual fleet's (default 3)")
    parser.add_argument("--bounds", choices=sorted(BOUNDS), default="long", help="what memory may grow (default long)")
    parser.add_argument("--leak", action="store_true", help="let the worker of the loops leak with each task")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "soak", help="folder of samples and picture")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    seconds = given.minutes * 60
    lifetime = round(min(120.0, max(15.0, seconds / 12)))
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        samples, done = _run(Path(folder), given.out, seconds, lifetime, given.speed, leak=given.leak)
    title = f"{given.minutes:g} minutes, {given.speed:g} × a usual fleet, keys live for {lifetime} s"
    draw(samples, given.out / "soak.png", title)
    return _report(title, done, judge(samples, BOUNDS[given.bounds]))


def _run(
    folder: Path, out: Path, seconds: float, lifetime: int, speed: float, *, leak: bool
) -> tuple[list[SoakSample], Counter[str]]:
    every = AGENTS * HOSTS * CALLS / (FLEET_CALLS * speed)
    rest = lifetime + SETTLING
    load = seconds - 3 * rest
    with running_system(folder / "system", lifetime, leak=leak) as system:
        sampler = Sampler(system.server.url, out / "samples.jsonl", max(1.0, min(5.0, seconds / 200)))
        try:
            # First what a load opens once: connections, pools, supervisors, the model, the bank's queries and facts.
            for phase, lasts in (("prime", rest), ("baseline", rest), ("load", load), ("drain", rest)):
                sampler.phase = phase
                if phase == "prime":
                    system.load(every / PRIMING)
                elif phase == "load":
                    system.load(every)
                else:
                    system.rest()
                time.sleep(lasts)
                if phase == "prime":
                    wait_until(lambda: _primed(sampler.samples), "the model has embedded all queries", timeout=PRIMED)
            done = system.rest()
        finally:
            samples = sampler.end()
    return samples, done


def _primed(samples: Sequence[SoakSample]) -> bool:
    return bool(samples) and samples[-1].values.get("keys.cluster", 0) >= QUERIES


def _report(title: str, done: Counter[str], findings: list[SoakFinding]) -> int:
    print(title)
    for what, number in done.most_common():
        print(f"{number:>8,} {what}")
    for finding in findings:
        print(finding)
    worked = done["sessions"] * CALLS / FLEET_CALLS / 60
    print(f"the work of {worked:.0f} minutes of a usual fleet")
    grown = [finding for finding in findings if not finding.ok]
    failed = done.total() - done["sessions"]
    print(f"{len(findings)} series, {len(grown)} grew; {done['sessions']:,} sessions, {failed:,} failed")
    return 1 if grown or failed > done["sessions"] // 100 or not done["sessions"] else 0


if __name__ == "__main__":
    sys.exit(main())
