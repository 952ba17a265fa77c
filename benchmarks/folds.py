"""`python -m benchmarks folds FILE`: how the measure of progress does on tasks that its thresholds were not chosen on.

The tasks of the tune half are divided into five folds by their SHA-256. For each fold, every threshold is chosen again
on the other four: the value with which the nudges are worth most, a false one outweighing three right ones. Each is
tried with the others as they are, then all chosen values together are measured on the fold that was left out. The
pooled figures show how much the choice of thresholds flatters. The detectors themselves were written with all folds in
view, so expect less elsewhere. A second table has the precision of each kind by fold, and all figures without it.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import msgspec

from benchmarks.labels.stretches import Stretch, read_labels
from benchmarks.scoring import LabelScore
from benchmarks.transcripts import Transcript, read_coding
from tellback.guidance import measures
from tellback.guidance.progress import detectors, endings, fruitless, judge, reports, undone
from tellback.guidance.progress.features import CallFeatures
from tellback.guidance.progress.trail import ProgressTrail
from tellback.guidance.repeats import AttemptMarks
from tellback.guidance.stuck_feedback import KINDS
from tellback.replay.accounts import GuidanceAnalyzer
from tellback.replay.reading import TranscriptTools

FOLDS: Final = 5
FALSE_COSTS: Final = 3  # right nudges that a false one outweighs: with a precision of 0.75 a detector is worth nothing

Labels = Mapping[str, Sequence[Stretch]]
Found = Mapping[str, Sequence[tuple[int, str]]]
"""By transcript, the calls at which something was found, and its kind."""
Setting = tuple[Any, str, float]

# The thresholds that decide most, with the values that are compared.
GRID: Final[tuple[tuple[Any, str, tuple[float, ...]], ...]] = (
    (detectors, "REPEATS", (2, 3, 4)),
    (detectors, "WEAK_REPEATS", (3, 4, 5)),
    (detectors, "SAME_FAILING_CALL", (2, 3)),
    (detectors, "FORGOTTEN_REFUSAL", (0, 4, 8)),
    (fruitless, "EMPTY_SEARCHES", (4, 5, 6, 8)),
    (detectors, "FAILING_SHELL", (5, 8, 11)),
    (detectors, "WORSE_RUNS", (2, 3)),
    (detectors, "FAMILIAR_OF_EIGHT", (6, 7, 8)),
    (detectors, "FAMILIAR_SHARE", (0.75, 0.85, 0.95)),
    (detectors, "RETRY_SHARE", (0.3, 0.6, 0.8)),
    (detectors, "ATTEMPT", (5, 8, 11)),
    (detectors, "BLOCKED_ATTEMPT", (8, 16, 24)),
    (detectors, "SOON", (8, 12, 18)),
    (undone, "RESTORES", (2, 3)),
    (reports, "QUIET", (12, 25, 40)),
    (reports, "QUIET_WHILE_IN_VAIN", (4, 8, 12)),
)


class JudgedCall(NamedTuple):
    """A call as the judge was given it."""

    features: CallFeatures
    marks: AttemptMarks
    at: int
    is_near: Callable[[int], bool]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks folds", description=__doc__)
    parser.add_argument("file", type=Path, help="transcripts, .jsonl or .jsonl.xz")
    arguments = parser.parse_args(words)
    labels = read_labels("tune")
    transcripts = list(read_coding(arguments.file))
    chosen = [each for each in transcripts if each.half == "tune" and each.id in labels]
    calls = dict(_calls_of(chosen, transcripts))
    folds = [[each.id for each in chosen if fold_of(each.task) == fold] for fold in range(FOLDS)]
    print("\n".join([*_left_out(calls, labels, folds), "", *_by_kind(play(calls), labels, folds)]))


def fold_of(task: str) -> int:
    """Return the fold of a task, which all its transcripts share."""
    return hashlib.sha256(f"fold:{task}".encode()).digest()[0] % FOLDS


def play(calls: Mapping[str, Sequence[JudgedCall]], settings: Sequence[Setting] = ()) -> Found:
    """Judge all calls again, with these thresholds."""
    with ExitStack() as stack:
        for module, name, value in settings:
            # A module that imported the name has a copy of its own.
            for holder in (detectors, endings, fruitless, undone, judge, reports):
                if holder is module or hasattr(holder, name):
                    stack.enter_context(patch.object(holder, name, value))
        return {name: list(_found_in(each)) for name, each in calls.items()}


def worth(score: LabelScore) -> int:
    """Return what the nudges are worth: a false one outweighs several right ones."""
    return score.right - FALSE_COSTS * score.false


def score_of(found: Found, labels: Labels, names: Sequence[str], without: str = "") -> LabelScore:
    """Return the score of the nudges in these transcripts, without those of one kind."""
    score = LabelScore()
    for name in names:
        score.add(labels[name], [call for call, kind in found[name] if kind != without])
    return score


def _found_in(calls: Sequence[JudgedCall]) -> Iterator[tuple[int, str]]:
    trail = ProgressTrail()
    for features, marks, at, is_near in calls:
        verdict = judge.judge(trail, msgspec.structs.replace(features), marks, at, is_near)
        if verdict.finding is not None:
            yield at, verdict.finding.kind


@contextmanager
def _recorded() -> Generator[list[JudgedCall]]:
    """Record what the judge is given while providers are played."""
    calls: list[JudgedCall] = []
    judged, judged_call = judge.judge, judge.judge_call

    def record(trail: ProgressTrail, *given: Any) -> judge.Judgement:
        calls.append(JudgedCall(msgspec.structs.replace(given[0]), *given[1:]))
        return judged(trail, *given)

    def with_copy(trail: ProgressTrail, event: Any, at: int, recent: Sequence[Any], *rest: Any) -> judge.Judgement:
        return judged_call(trail, event, at, list(recent), *rest)  # `is_near` reads it later

    with patch.object(judge, "judge", record), patch.object(measures, "judge_call", with_copy):
        yield calls


def _calls_of(
    chosen: Sequence[Transcript], transcripts: Sequence[Transcript]
) -> Iterator[tuple[str, Sequence[JudgedCall]]]:
    toolbox = TranscriptTools()
    for each in transcripts:
        toolbox.add_conversation(each.conversation)
    analyzer = GuidanceAnalyzer()
    for each in chosen:
        with _recorded() as calls:
            analyzer.analyze(each.conversation, toolbox.tools_for(each.conversation))
        yield each.id, calls


def _left_out(
    calls: Mapping[str, Sequence[JudgedCall]], labels: Labels, folds: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Yield the table of the folds, each with the thresholds that the others choose."""
    tried = {
        (number, value): play(calls, [(module, name, value)])
        for number, (module, name, values) in enumerate(GRID)
        for value in values
    }
    yield "| left out | precision | recall | thresholds chosen otherwise |\n|---|--:|--:|---|"
    pooled, as_they_are, kept = LabelScore(), play(calls), LabelScore()
    for fold, names in enumerate(folds):
        others = [name for each in folds if each is not names for name in each]
        settings = list(_chosen(tried, as_they_are, labels, others))
        found = play({name: calls[name] for name in names}, settings)
        score = score_of(found, labels, names)
        for name in names:
            pooled.add(labels[name], [call for call, _ in found[name]])
            kept.add(labels[name], [call for call, _ in as_they_are[name]])
        changed = ", ".join(f"{name} {value:g}" for _, name, value in settings) or "none"
        yield f"| fold {fold}: {len(names)} transcripts | {score.precision} | {score.recall} | {changed} |"
    yield f"| **all folds, each left out once** | {pooled.precision} | {pooled.recall} | |"
    yield f"| all folds, with the thresholds as they are | {kept.precision} | {kept.recall} | |"


def _chosen(
    tried: Mapping[tuple[int, float], Found], as_they_are: Found, labels: Labels, names: Sequence[str]
) -> Iterator[Setting]:
    """Yield the thresholds that these transcripts choose; of equal values, the one that stands in the code."""
    base = worth(score_of(as_they_are, labels, names))
    for number, (module, name, values) in enumerate(GRID):
        by_worth = {value: worth(score_of(tried[number, value], labels, names)) for value in values}
        best = max(values, key=by_worth.__getitem__)
        if by_worth[best] > base:
            yield module, name, best


def _by_kind(found: Found, labels: Labels, folds: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the table of the kinds: right nudges of all clear ones by fold, and the figures without the kind."""
    every = [name for names in folds for name in names]
    yield f"| kind | {' | '.join(f'fold {fold}' for fold in range(FOLDS))} | all | without it: precision, recall |"
    yield f"|---|{'--:|' * (FOLDS + 1)}---|"
    for kind in KINDS:
        cells: list[str] = []
        total: Counter[str] = Counter()
        for names in folds:
            score = LabelScore()
            for name in names:
                score.add(labels[name], [call for call, each in found[name] if each == kind])
            cells.append(f"{score.right} of {score.right + score.false}")
            total.update(right=score.right, false=score.false)
        without = score_of(found, labels, every, kind)
        yield (
            f"| `{kind}` | {' | '.join(cells)} | {total['right']} of {total.total()} | "
            f"{without.precision}, {without.recall} |"
        )


__all__ = ["fold_of", "main", "play", "score_of", "worth"]
