"""The history of a run: what each process asked for and what became of it, a JSON line each, in a file a process.

A line is in the kernel's hands when `note` returns, so the death of the process loses none. An operation that was
invoked and has neither returned nor been refused is unknown: it may have had its effect or not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, Self

import msgspec

from tellback import clock

Phase = Literal["invoked", "returned", "refused", "unknown"]
ENDED: Final = "ended"
"""The operation that the last line of a life which ended by itself names."""


class HistoryLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. `n` numbers the operations of a life in a loop; `detail` is what the checker needs of this one."""

    who: str
    loop: str
    op: str
    n: int
    phase: Phase
    at: float = 0.0
    detail: dict[str, Any] = {}


class History:
    """The history of one life of one process; safe across threads."""

    def __init__(self, folder: Path, who: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.who = who
        self._file = os.open(folder / f"{who}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.Lock()

    def note(self, loop: str, op: str, n: int, phase: Phase, **detail: Any) -> None:
        """Write one line."""
        line = HistoryLine(
            who=self.who, loop=loop, op=op, n=n, phase=phase, at=round(clock.since_boot(), 3), detail=detail
        )
        with self._lock:
            os.write(self._file, msgspec.json.encode(line) + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def read(folder: Path) -> Iterator[HistoryLine]:
    """Yield the lines of all processes, those of one in its order; a torn last line is left out."""
    decoder = msgspec.json.Decoder(HistoryLine)
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            for raw in file:
                if raw.endswith(b"\n"):
                    yield decoder.decode(raw)
