"""Invariants 9 to 12: no secret, declared keys, scripts in one shard, and nothing unreadable or unsent is lost."""

from __future__ import annotations

import re
from collections import Counter

from tests.chaos.end_state import EndState
from tests.chaos.peers import POISON
from tests.chaos.story import Story
from tests.chaos.verdict import ChaosVerdict
from tests.chaos.watching import Seen

_POISON = re.compile(rf"{POISON}-([\w.]+)-(\d+)\.")


def check_secrets(_: Story, __: EndState, seen: Seen) -> ChaosVerdict:
    """Check that no secret of the load stands in what was read of Redis' log, the disks and all logs."""
    verdict = ChaosVerdict(9, "no secret reaches Redis, a disk or a log")
    verdict.counted = seen.bytes_searched
    verdict.violations += [f"a secret in {path}" for path in seen.secrets]
    verdict.note = "bytes searched"
    return verdict


def check_keys(_: Story, end: EndState) -> ChaosVerdict:
    """Check every key against its declaration."""
    return ChaosVerdict(10, "every key has its declared lifetime and cap", end.keys, list(end.key_problems))


def check_scripts(_: Story, __: EndState, seen: Seen) -> ChaosVerdict:
    """Check the scripts that were watched: one shard each, and no key that was not passed."""
    verdict = ChaosVerdict(11, "a script stays in one shard, with every key passed", seen.scripts, list(seen.strays))
    verdict.note = f"{seen.script_commands} commands in them"
    return verdict


def check_kept(story: Story, end: EndState) -> ChaosVerdict:
    """Check that each unreadable entry is a dead letter once, that nothing else is, and that no spool is left."""
    verdict = ChaosVerdict(12, "what cannot be processed or published is kept")
    found = Counter[str]()
    for letter in end.dead:
        match = _POISON.search(letter)
        verdict.expect(match, f"a dead letter that could have been applied: {letter[:300]}")
        if match:
            found[match[1]] += 1
            verdict.expect(letter.partition(": ")[0], f"a dead letter without a reason: {letter[:300]}")
    for (loop, who), life in story.lives.items():
        if loop == POISON:
            verdict.expect(
                life.certain <= found[who] <= life.possible,
                f"{who}: {found[who]} dead letters, {life.certain} to {life.possible} appended",
            )
    labels = Counter(match[0] for letter in end.dead if (match := _POISON.search(letter)))
    for label, count in labels.items():
        verdict.expect(count == 1, f"{label} is {count} dead letters")
    for what in end.left:
        if what.startswith("on disk"):
            verdict.fail(f"not sent: {what}")
    return verdict
