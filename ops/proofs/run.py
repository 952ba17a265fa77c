"""Check the Promela models beside this file with spin, and print a table of what was proved and what was rejected.

A model's header lists its runs:

    PROVES   NAME [DEFINE …] | what holds
    REJECTS  DEFINE …        | what the checker must report | what is broken

Every run must search its state space completely: a depth that was reached, a full memory, or a mutation that passes is
a failure, and so is one that is rejected for another reason than the one named. `run.py [MODEL …]` runs some models.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent
DEPTH: Final = 1_000_000  # of one path; the deepest run so far reaches some thousands
MEMORY_MB: Final = 2_048
SECONDS: Final = 600  # of one run, on a machine with much else to do; the whole takes less than a minute of its own
NEEDED: Final = ("spin", "gcc")
ABSENT: Final = "proofs: {} is missing: `apt-get install spin gcc` as root, or another way to spin 6.5"

_RUN: Final = re.compile(r"^(PROVES|REJECTS) +([^|\n]+?) *\|(?: *([^|\n]+?) *\|)? *([^|\n]+)$", re.MULTILINE)
_STATES: Final = re.compile(r"^ *(\d+) states, stored", re.MULTILINE)
_DEPTH: Final = re.compile(r"depth reached (\d+)")
_REPORTED: Final = re.compile(r"^pan:\d+: (?:assertion violated )?(.+?) \(at depth \d+\)", re.MULTILINE)
_INCOMPLETE: Final = ("max search depth too small", "reached -M limit", "out of memory", "Search not completed")


class NotProved(Exception):
    """A run did not end as its model says; the text is for a reader."""


@dataclass(frozen=True, slots=True)
class ModelRun:
    """One search of a model: the definitions it is made with, and how it must end."""

    model: str
    kind: str
    name: str
    defines: tuple[str, ...]
    expected: str
    about: str

    @property
    def live(self) -> bool:
        """True for liveness, which is searched for fair cycles."""
        return "LIVE" in self.defines


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The size of a search, and what it reported."""

    states: int
    depth: int
    reported: str


def runs_of(path: Path) -> Iterator[ModelRun]:
    """The runs that a model's header lists."""
    for kind, words, expected, about in _RUN.findall(path.read_text("utf-8")):
        first, *others = words.split()
        defines = tuple(others if kind == "PROVES" else [first, *others])
        yield ModelRun(path.stem, kind, first, defines, expected, about)


def search(run: ModelRun, folder: Path) -> SearchResult:
    """Search a model's state space in `folder`.

    Raises:
        NotProved: it did not compile, or the search was not complete.
    """
    flags = [f"-D{define}" for define in run.defines]
    # COLLAPSE halves the memory. NFAIR: weak fairness for up to 3 * 8 processes, as pan asks for.
    mode = ["-DNFAIR=3"] if run.live else ["-DSAFETY", "-DNOCLAIM"]
    _call(folder, ["spin", "-a", *flags, str(FOLDER / f"{run.model}.pml")])
    effort = "-O1" if run.kind == "PROVES" else "-O0"  # compiling took most of a rejection's time
    _call(folder, ["gcc", effort, "-w", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MB}", *mode, "-o", "pan", "pan.c"])
    text = _call(folder, ["./pan", f"-m{DEPTH}", *(["-a", "-f"] if run.live else [])])
    states, depth = _STATES.search(text), _DEPTH.search(text)
    found = [mark for mark in _INCOMPLETE if mark in text]
    reported = _REPORTED.search(text)
    if reported is None and (found or "errors: 0" not in text):
        raise NotProved(f"the search is not complete: {found or text[-500:]}")
    if states is None or depth is None:
        raise NotProved(f"pan's report is not as expected: {text[-500:]}")
    return SearchResult(int(states[1]), int(depth[1]), _plain(reported[1]) if reported else "")


def check(run: ModelRun, result: SearchResult) -> None:
    """Compare a result with what the model says.

    Raises:
        NotProved: they differ.
    """
    if run.kind == "PROVES" and result.reported:
        raise NotProved(f"violated: {result.reported}")
    if run.kind != "PROVES" and not result.reported:
        raise NotProved("it passes, and must be rejected")
    if run.kind != "PROVES" and _plain(run.expected) not in result.reported:
        raise NotProved(f"rejected by {result.reported!r}, and not by {run.expected!r}")


def _plain(expression: str) -> str:
    """An expression without spaces, because pan prints it in its own way."""
    return re.sub(r"\s", "", expression)


def _call(folder: Path, command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    if command[0] != "./pan" and done.returncode:
        raise NotProved(f"`{' '.join(command)}` failed: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout + done.stderr


def _line(run: ModelRun) -> tuple[bool, str]:
    began = time.monotonic()
    title = f"{run.model:<8}{run.kind:<9}{run.name:<22}"
    try:
        with tempfile.TemporaryDirectory(prefix="proof-") as folder:
            result = search(run, Path(folder))
        check(run, result)
    except (NotProved, subprocess.TimeoutExpired) as error:
        return False, f"FAILED  {title}{error}"
    seconds = time.monotonic() - began
    return True, f"ok      {title}{result.states:>9,} {result.depth:>7,} {seconds:>6.1f} s  {run.about}"


def main(names: list[str]) -> int:
    """Run the models of these names, or all; return 0 if every run ended as its model says."""
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    if missing:
        print(ABSENT.format(" and ".join(missing)), file=sys.stderr)
        return 1
    paths = sorted(FOLDER.glob("*.pml"))
    unknown = sorted({*names} - {path.stem for path in paths})
    if unknown:
        print(f"proofs: no model {', '.join(unknown)} in {FOLDER.name}", file=sys.stderr)
        return 1
    runs = [run for path in paths if not names or path.stem in names for run in runs_of(path)]
    print("        model   kind     run                      states   depth     time  what holds, or what is broken")
    with ThreadPoolExecutor(2) as pool:
        ends: list[bool] = []
        for ended_well, line in pool.map(_line, runs):
            print(line, flush=True)
            ends.append(ended_well)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{sum(ends)} of {len(ends)} runs as expected, {used.ru_utime + used.ru_stime:.0f} s of CPU")
    return 0 if ends and all(ends) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
