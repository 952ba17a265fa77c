"""Run the system under chaos for a while and check what it did. `make chaos SEED=7 SECONDS=3600` calls this."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec

from tests.chaos.plan import draw
from tests.chaos.report import table
from tests.chaos.runs import run


def main() -> int:
    """Run what the arguments ask for; return 1 if an invariant is violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the number from which all faults are drawn (default 0)")
    parser.add_argument("--seconds", type=float, default=3600, help="how long faults are applied (default 3600)")
    parser.add_argument("--plan", action="store_true", help="print the faults of the seed and do nothing else")
    parser.add_argument("--without", default="", help="kinds of faults to leave out, separated by commas")
    parser.add_argument("--keep", action="store_true", help="keep history, logs and data of a run that passes, too")
    given = parser.parse_args()
    faults = draw(given.seed, given.seconds, without=frozenset(filter(None, given.without.split(","))))
    print(*faults, sep="\n")
    if given.plan:
        return 0
    folder = Path(tempfile.mkdtemp(prefix="tellback-chaos-"))
    outcome = run(folder, faults, given.seconds, report=_progress)
    _progress("")
    print(table(outcome.story, outcome.applied, outcome.verdicts, outcome.own_deaths))
    if outcome.left_out:
        print(f"\nfaults that had no target: {dict(outcome.left_out)}")
    if outcome.holds and not given.keep:
        shutil.rmtree(folder)
        return 0
    (folder / "verdicts.json").write_bytes(msgspec.json.encode(outcome.verdicts))
    print(f"\nhistory, logs, data of Redis and all violations: {folder}")
    return 0 if outcome.holds else 1


def _progress(state: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{state}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
