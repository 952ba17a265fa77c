"""Three commands, three records, read as an agent reads them. Run it again, and the loop accumulates.

    python examples/feedback_loop.py

It needs no Redis: `tellback run` appends to feedback_record.jsonl in the present directory.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tellback

TELLBACK = str(Path(sys.executable).with_name("tellback"))


def step(note: str, *argv: str, parent: str | None = None) -> tellback.CommandRecord:
    """Run one command, then read what it did: the last record, never the expectation."""
    link = ["--parent", parent] if parent else []
    subprocess.run(
        [TELLBACK, "run", "--json", "--note", note, *link, "--", *argv], stdout=subprocess.DEVNULL, check=False
    )
    record = tellback.load_records()[-1]
    print(f"expected {note}; exit {record.exit_code}, {record.stdout_tail.splitlines()[-1]!r}")
    return record


def main() -> None:
    """A look around, a failure, and its retry."""
    step("a version", sys.executable, "--version")
    check = (sys.executable, "-c", "import os, sys; ok = os.path.exists('built'); print(ok); sys.exit(not ok)")
    Path("built").unlink(missing_ok=True)
    failed = step("success", *check)
    Path("built").touch()
    step("success now", *check, parent=failed.command_id)
    print(f"{len(tellback.load_records())} records")


if __name__ == "__main__":
    main()
