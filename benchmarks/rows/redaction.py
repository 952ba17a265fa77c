"""The cost of redaction on hostile text against prose: the worst of many kinds of almost-matches."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.almost_secrets import ALMOST
from benchmarks.measure import RowResult, spread
from benchmarks.system import BenchmarkSystem
from tellback.redaction.stream import StreamRedactor

SIZE = 40_000_000
SIZE_OF_A_KIND = 1_000_000
CHUNK = 256 << 10
RUNS = 3
PROSE = (
    "The runner keeps what a command printed, and an agent reads it with its next turn.\n"
    "At 10:42 the build was done: 214 tests passed, 3 were skipped, and nobody's password was asked for.\n"
    "She said that the bearer of bad news is seldom thanked; he answered, with a smile, that he knew.\n"
)


def measure(_: BenchmarkSystem) -> RowResult:
    ratios: list[float] = []
    prose: list[float] = []
    kinds: dict[str, list[float]] = {name: [] for name in ALMOST}
    for _run in range(RUNS):
        usual = _seconds(PROSE, SIZE) / SIZE
        prose.append(1e-6 / usual)
        for name, text in ALMOST.items():
            kinds[name].append(_seconds(text, SIZE_OF_A_KIND) / SIZE_OF_A_KIND / usual)
        ratios.append(max(found[-1] for found in kinds.values()))
    slowest = sorted(kinds, key=lambda name: median(kinds[name]), reverse=True)
    return RowResult(
        name="redaction",
        what=f"the slowest of {len(ALMOST)} kinds of almost-matches against as much prose, processor time",
        ratios=ratios,
        budget=2.5,
        sense="at most",
        details=[
            f"MB/s of prose: {spread(prose)};  nanoseconds a byte: {1000 / median(prose):.0f}",
            f"MB/s of the slowest: {median(prose) / median(ratios):.1f}",
            f"slowest: {', '.join(f'{name} {median(kinds[name]):.1f}' for name in slowest[:6])}",
            f"of all kinds, the median: {median(median(found) for found in kinds.values()):.1f}",
        ],
    )


def _seconds(text: str, size: int) -> float:
    """Return the processor time of some `size` bytes, scaled from those that whole chunks have."""
    chunk = text * (CHUNK // len(text))
    chunks = max(1, size // len(chunk))
    start = time.process_time()
    for _shown in StreamRedactor().feed(chunk for _ in range(chunks)):
        pass
    return (time.process_time() - start) * size / (chunks * len(chunk))
