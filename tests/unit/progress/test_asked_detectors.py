"""The judge asks a detector only about calls that concern it."""

from __future__ import annotations

import random
from typing import Any, Final, get_args

import msgspec
import pytest

from tellback.guidance.observations.testruns import TestCounts
from tellback.guidance.progress import detectors, endings, fruitless, judge
from tellback.guidance.progress.effects import Effect
from tellback.guidance.progress.features import END, CallFeatures, Edit, View
from tellback.guidance.progress.trail import Asked, Failures, ProgressTrail, StuckFinding, mark
from tellback.guidance.progress.undone import edit_made_over, undone_edit

AT: Final = 40
EDIT: Final = Edit("app.py", 1, 2)
# What a call may have; most calls of the draw have little of it, as real ones do.
FEATURES: Final[dict[str, tuple[Any, ...]]] = {
    "failed": (True,),
    "error": ("ValueError: no", "Connection refused"),
    "error_mark": (5,),
    "complaint": (7,),
    "writes": (("app.py",),),
    "edit": (EDIT,),
    "restores": ("app.py",),
    "unstashes": (True,),
    "copies": ((("app.py", "app.bak"),),),
    "wrong": ("undefined name",),
    "answers": (True,),
    "fault": ("it failed",),
    "faulty": (True,),
    "scripted": (True,),
    "last": ("1 error",),
    "state": ("status: error",),
    "views": ((View("app.py", 1, 20),), (View("app.py", 1, END),)),
    "tests": (TestCounts(3, 1), TestCounts(4)),
    "findings": (4,),
    "empty": (True,),
    "absent": (True,),
    "fetches": (True,),
    "sought": ("x",),
    "probes": (True,),
    "waits": (True,),
    "dead": (True,),
    "programs": (("pytest",), ("echo",)),
    "form": ("search query",),
    "retry_asked": (True,),
    "presses": (True,),
    "known": (0.9, 1.0),
    "fixes": (True,),
}
NOW_AND_THEN: Final = tuple(range(AT - 8, AT))


def drawn_features(draw: random.Random) -> CallFeatures:
    chosen = draw.sample(sorted(FEATURES), draw.randrange(9))
    tool = draw.choice(["search", "bash", "think"])
    effect = draw.choice(get_args(Effect))
    fields = {name: draw.choice(FEATURES[name]) for name in chosen}
    lines = tuple(range(draw.choice([0, 1, 6])))
    return CallFeatures(tool, effect, "app", draw.choice(["all tests pass", "app.py"]), news=9, lines=lines, **fields)


def drawn_trail(draw: random.Random, features: CallFeatures) -> ProgressTrail:
    """A memory in which much of what could be found is close to its threshold."""
    keys = [
        mark(f"> {features.news} {features.shown}"),
        mark(f"? {features.edit} {features.wrong}"),
        mark("~ done"),
        mark("| 1 error"),
    ]
    tool = mark(f"{features.tool} {features.effect}")
    trail: dict[str, Any] = {
        "failures": {key: list(NOW_AND_THEN[-4:]) for key in keys},
        "restores": [(int(mark("app.py"), 16), AT - 2)],
        "edits": {mark("app.py 1 2"): (AT - 3, 2), mark("app.py 2 1"): (AT - 2, 1)},
        "tests": {mark("app"): (1, 9, 1, AT - 4)},
        "tools": {tool: Failures(4, AT - 5, AT - 1), mark(features.tool): Failures(9, AT - 5, AT - 1)},
        "empties": (6, AT - 7),
        "missing": (6, AT - 7),
        "stale": 0b1110111,
        "reread": 0b111,
        "familiar": 0b11111111,
        "idle": 9,
        "done": AT - 4,
        "states": [1, 2, 1],
        "counts": (1, 3, 5, AT - 6),
        "views": {mark("app.py"): [(1, 20, at, 9) for at in NOW_AND_THEN[-4:]]},
        "asked": {"a": Asked(1, 2, 9, list(NOW_AND_THEN[-3:]))},
        "fault": 3,
        "anything": AT - 1,
        "fixed": AT - 1,
        "swapped": AT - 1,
        "paths": {mark("app.py"): AT - 1},
    }
    kept = draw.sample(sorted(trail), draw.randrange(8))
    return msgspec.convert({name: trail[name] for name in kept}, ProgressTrail)


@pytest.mark.parametrize("seed", range(10))
def test_a_detector_that_is_not_asked_would_find_and_remember_nothing(seed: int) -> None:
    """Asking all of them, as was done before, gives the same findings and leaves the same memory. Requirement A-460."""
    draw = random.Random(seed)
    for _ in range(500):
        features = drawn_features(draw)
        trail = drawn_trail(draw, features)
        other = msgspec.json.decode(msgspec.json.encode(trail), type=ProgressTrail)
        repeats = [*NOW_AND_THEN[-draw.randrange(4) :], AT] if draw.random() < 0.3 else [AT]
        known = draw.choice([None, Asked(1, 2, 9, [AT - 3])])
        found = judge.findings(trail, features, AT, repeats, known, 2)
        assert list(found) == all_findings(other, features, repeats, known)
        assert msgspec.structs.asdict(trail) == msgspec.structs.asdict(other)


def all_findings(
    trail: ProgressTrail, features: CallFeatures, repeats: list[int], known: Asked | None
) -> list[StuckFinding | None]:
    failed, tests, counted = features.failed, features.tests, features.counted
    waits = features.waits or features.effect == "wait"
    is_long = len(features.lines) >= fruitless.LONG_ANSWER
    return [
        detectors.same_failure(trail, features, AT) if failed else None,
        undone_edit(trail, features, AT),
        edit_made_over(trail, features, features.edit, AT) if features.wrong and features.edit else None,
        detectors.same_output(trail, features, AT, repeats) if features.answers or features.scripted else None,
        fruitless.same_state(trail, features, AT, known) if known else None,
        detectors.same_call(features, AT, repeats),
        detectors.same_lines(trail, features, AT),
        detectors.two_states(trail, features, AT, 2),
        detectors.worse_tests(trail, features, counted, AT) if counted else None,
        detectors.failing_tool(trail, features, AT),
        fruitless.same_complaint(trail, features, AT) if failed else None,
        fruitless.in_vain(trail, features, AT),
        detectors.same_counts(trail, tests, AT) if tests and features.effect == "write" else None,
        detectors.no_new_output(trail, features, AT) if features.probes else None,
        endings.dead_wait(trail, features, AT, repeats) if waits else None,
        endings.after_done(trail, features, AT),
        detectors.no_news(trail, features, AT, is_stale=judge.is_stale(trail, features, repeats)),
        detectors.no_new_lines(trail, features, AT),
        detectors.idle_calls(trail, features, AT),
        fruitless.same_answer(trail, features, AT, repeats) if features.known >= 1 and is_long else None,
    ]
