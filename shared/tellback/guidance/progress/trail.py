"""The bounded memory of an evaluation's calls, which the measure of progress compares a new call with.

A worker stores it with each batch, so its size is a cost of every event: marks have 4 bytes, every table has a cap, and
the entry that was used least recently is evicted.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import MutableMapping
from functools import cached_property, lru_cache
from typing import Final, TypeVar

import msgspec

Value = TypeVar("Value")

# Entries of each table of the trail, by judgement. Detectors look back at most as far: an attempt ends before
# ACTIONS_MAX actions (`detectors.BLOCKED_ATTEMPT`). With all tables full, after 400 varied calls, a trail has 7 KB as
# JSON, which a worker writes with each batch.
ACTIONS_MAX: Final = 24
ASKED_MAX: Final = 40
COPIES_MAX: Final = 6
CONTENTS_MAX: Final = 6
FAILURES_MAX: Final = 20
EDITS_MAX: Final = 24
PATHS_MAX: Final = 16
# The same lines read for the fourth time within 12 calls (`detectors.SOON`) have up to nine other files between. With
# 6, 30 in place of 34 stretches of the tuning half were found when other files were read after each third call; so, 32.
VIEWED_PATHS_MAX: Final = 10
VIEWS_MAX: Final = 10
VIEWED_MAX: Final = 16
SCRIPTS_MAX: Final = 8
TESTS_MAX: Final = 8
TOOLS_MAX: Final = 6
WORKED_MAX: Final = 12
REPORTED_MAX: Final = 24
# Marks of 40 calls, and of those evicted since they were collected: as many as fit a set's table for 80. With 120 they
# were collected again at each twentieth call, which took 2 % of a worker's time.
_NEAR_MAX: Final = 7 * ASKED_MAX
# As many as the newest calls that a provider can read.
INDEXES_MAX: Final = 32

# What a build or another run leaves, by its folder or ending. Without `bin` and `reports`, where sources stand too: of
# 2,187 files read in the tuning half it is one.
_BUILT: Final = re.compile(
    r"(?:^|/)(?:_?build|dist|target|out(?:puts?)?|bazel-\w{1,20}|coverage|htmlcov|logs?|\.next|artifacts)/"
    r"|\.(?:log|out|tfstate)$|(?:^|/)(?:coverage|junit)[\w.-]{0,40}\.(?:xml|json|html|txt)$",
    re.IGNORECASE,
)


class Asked(msgspec.Struct, array_like=True, gc=False):
    """A call that was made: the substance of its last result, and the calls since then that had the same.

    `low` and `high` are marks of its words, by which nearly identical calls are found.
    """

    low: int
    high: int
    news: int
    indexes: list[int]


class Failures(msgspec.Struct, array_like=True, gc=False):
    """An error that came again: how often, and in which calls first and last."""

    count: int
    first: int
    last: int


class Restore(msgspec.Struct, array_like=True, gc=False):
    """A file that was taken back in a call, and the tests that had failed before, 0 for none."""

    path: int
    at: int
    fault: int = 0


class TestRun(msgspec.Struct, array_like=True, gc=False):
    """The last summary of a test run, of call `at`, and how often in a row it got worse, since which call."""

    __test__ = False  # pytest collects classes of this name

    failed: int
    passed: int
    worse: int = 0
    since: int = 0
    at: int = 0


class StuckFinding(msgspec.Struct, array_like=True, frozen=True):
    """Evidence that the calls bring nothing: its kind, how often, since which call, and what did not change.

    `at` is the call that was judged, `level` counts how often this was found before, from 1.
    """

    kind: str
    subject: str
    count: int
    since: int
    at: int
    level: int = 1
    detail: str = ""


class ProgressTrail(msgspec.Struct, omit_defaults=True, dict=True):  # with a dict for `near`, which is not stored
    """The memory of an evaluation's calls.

    `finding` is the newest that may be reported, whether or not it was; `off` has the kinds that no provider reports.
    """

    changed: int = 0
    actions: list[int] = []
    anything: int = 0
    kept: int = 0  # the last call that changed something, but the content of no file
    fixed: int = 0
    swapped: int = 0
    ran: int = 0
    passed: int = 0
    home: str = ""
    heard: int = 0
    moved: int = 0
    rested: int = 0
    arrived: int = 0
    scripts: dict[str, list[str]] = {}
    in_vain: int = 0
    failing: int = 0
    failing_since: int = 0
    paths: dict[str, int] = {}
    asked: dict[str, Asked] = {}
    failures: dict[str, list[int]] = {}
    views: dict[str, list[tuple[int, int, int, int]]] = {}
    viewed: list[str] = []
    edits: dict[str, tuple[int, int]] = {}
    restores: list[Restore] = []
    copies: dict[str, str] = {}
    contents: dict[str, int] = {}
    fault: int = 0
    broke: str = ""
    flaky: str = ""
    tests: dict[str, TestRun] = {}
    tools: dict[str, Failures] = {}
    worked: dict[str, int] = {}
    empties: tuple[int, int] = (0, 0)
    sought: int = 0
    sought_words: list[int] = []
    apart: int = 0
    missing: tuple[int, int] = (0, 0)
    stale: int = 0
    reread: int = 0
    spoken: int = 0
    states: list[int] = []
    done: int = 0
    seen: bytes = b""
    familiar: int = 0
    reads: list[int] = []
    idle: int = 0
    counts: tuple[int, int, int, int] = (0, 0, 0, 0)
    reported: dict[str, tuple[int, int]] = {}
    off: list[str] = []
    finding: StuckFinding | None = None

    @cached_property
    def near(self) -> set[int]:
        """The marks of words of the calls in `asked`, and of some before them; most calls have neither of theirs."""
        return {mark for each in self.asked.values() for mark in (each.low, each.high)}

    def changed_file(self, path: str) -> int:
        """Return the last call that may have changed a file; what a build leaves, a run after a change may."""
        built = min(self.ran, self.anything) if _BUILT.search(path) else 0
        return max(self.changed, self.paths.get(file_mark(path), 0), built)

    def remember_asked(self, attempt: str, call: Asked) -> None:
        """Store a call that was made."""
        remember(self.asked, attempt, call, ASKED_MAX)
        near = self.near
        near.update((call.low, call.high))
        if len(near) > _NEAR_MAX:
            del self.near


def mark(text: str) -> str:
    """Return the key of a text in the trail's tables."""
    return f"{zlib.crc32(text.encode('utf-8', 'replace')):x}"  # not by `mark_of`: each call asks for several


@lru_cache(maxsize=1024)  # most calls have the form of an earlier one
def form_mark(form: str) -> str:
    """Return the key of what a call has in common with others, which is short."""
    return mark(form)


def file_mark(path: str) -> str:
    """Return the key of a file: its name alone, since commands name a path in several ways."""
    return mark(path.rpartition("/")[2])


def hash_of(attempt: str, news: int) -> int:
    """Return the mark of a call with its answer."""
    return (int(attempt[:8], 16) ^ news) & 0xFFFFFFFF


def remember(table: MutableMapping[str, Value], key: str, value: Value, cap: int) -> None:
    """Store a value as the most recently used, and evict the least recently used beyond the cap."""
    table.pop(key, None)  # a dict keeps the order of insertion
    table[key] = value
    if len(table) > cap:
        del table[next(iter(table))]
