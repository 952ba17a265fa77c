"""The cost of redaction on hostile text against prose: 50 MB each, the worst of several kinds of almost-matches."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.measure import RowResult, spread
from benchmarks.system import BenchmarkSystem
from tellback.redaction.stream import StreamRedactor

SIZE = 50_000_000
CHUNK = 256 << 10
RUNS = 3
PROSE = (
    "The runner keeps what a command printed, and an agent reads it with its next turn.\n"
    "At 10:42 the build was done: 214 tests passed, 3 were skipped, and nobody's password was asked for.\n"
    "She said that the bearer of bad news is seldom thanked; he answered, with a smile, that he knew.\n"
)
HOSTILE = (
    "AKIA0000 AKIA00000000000 ",
    "authorization:        ",
    "api_key api-key password passwor ",
    "-----BEGIN RSA PRIVATE KE\n",
    "eyJhbGciOiJIUzI1NiJ9 ",
    "xoxz-1234 ghp_short sk-short ",
    "token: secret: password: ",
    "secret=",
    "://a:b://a:b",
)


def measure(_: BenchmarkSystem) -> RowResult:
    ratios: list[float] = []
    prose: list[float] = []
    hostile: list[float] = []
    for _run in range(RUNS):
        usual = _seconds(PROSE)
        slowest = max(_seconds(almost, SIZE // len(HOSTILE)) for almost in HOSTILE) * len(HOSTILE)
        prose.append(SIZE / usual / 1e6)
        hostile.append(SIZE / slowest / 1e6)
        ratios.append(slowest / usual)
    return RowResult(
        name="redaction",
        what=f"{SIZE // 1_000_000} MB of almost-matches against as much prose, processor time",
        ratios=ratios,
        budget=2.5,
        sense="at most",
        details=[
            f"MB/s of prose: {spread(prose)};  of the worst of {len(HOSTILE)} hostile texts: {spread(hostile)}",
            f"nanoseconds a byte of prose: {1000 / median(prose):.0f}",
        ],
    )


def _seconds(text: str, size: int = SIZE) -> float:
    chunk = text * (CHUNK // len(text))
    start = time.process_time()
    for _shown in StreamRedactor().feed(chunk for _ in range(size // len(chunk))):
        pass
    return time.process_time() - start
