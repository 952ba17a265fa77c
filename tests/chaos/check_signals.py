"""Invariants 7 and 8: signals apply once and batches entirely, and a decay changes no score that a reader sees."""

from __future__ import annotations

from typing import Final

from tellback.signals.ranking import decay_score, score_delta
from tests.chaos.end_state import EndState, FactEnd
from tests.chaos.loads import bank_of, kind_of
from tests.chaos.story import Life, Story
from tests.chaos.verdict import ChaosVerdict
from tests.support.scores import apply_signal

COSINE_MARGIN: Final = 1e-5  # of single precision
DRIFT: Final = 0.004
"""The decay of some hours, all steps of the clock among them; one signal moves a score by 0.05."""
EXACT: Final = 1e-9


def check_signals(story: Story, end: EndState) -> ChaosVerdict:
    """Check each life's two facts: as many signals as it sent, in order, both alike, and one cluster a question."""
    verdict = ChaosVerdict(7, "a signal is applied once, a batch entirely; no two clusters match")
    shared = dict.fromkeys({bank for bank, _ in end.facts}, 0)
    for (loop, who), life in story.lives.items():
        if loop != "signals":
            continue
        bank = bank_of(who)
        one, other = (end.facts.get((bank, f"{who}.{name}"), FactEnd(0.5, 0, 0, 0)) for name in "ab")
        verdict.expect(one.signals == other.signals, f"{who}: {one.signals} and {other.signals} of one batch each")
        verdict.expect(
            life.certain <= one.signals <= life.possible,
            f"{who}: {one.signals} signals applied, {life.certain} durable, {life.possible} possible",
        )
        verdict.counted += one.signals
        if bank in shared:
            shared[bank] += one.signals
        if not _is_doubtful(life):
            expected = _score(life.numbers[: one.signals])
            verdict.expect(abs(one.score - expected) < DRIFT, f"{who}: score {one.score}, expected {expected}")
    for bank, expected_signals in shared.items():
        found = end.facts.get((bank, "shared"), FactEnd(0.5, 0, 0, 0)).signals
        verdict.expect(
            found == expected_signals, f"{bank}: {found} signals of the shared fact, {expected_signals} sent"
        )
    for bank, (clusters, highest, threshold) in end.nearest.items():
        verdict.expect(
            highest < threshold + COSINE_MARGIN, f"{bank}: two of {clusters} clusters match, {highest} of {threshold}"
        )
    return verdict


def _is_doubtful(life: Life) -> bool:
    """Tell if an operation before the last may not have taken place: then the order of kinds is not known."""
    return life.doubtful > (0 if life.ended else 1)


def _score(numbers: list[int]) -> float:
    score = 0.5
    for n in numbers:
        kind = kind_of(n)
        score = apply_signal(score, 0, score_delta(kind, 0.5 if kind == "used" else 1.0))
    return score


def check_decay(_: Story, end: EndState) -> ChaosVerdict:
    """Check that one more decay wrote what readers saw before, and touched neither counts nor times of signals."""
    verdict = ChaosVerdict(8, "decay changes no score that a reader sees")
    for name, before in end.facts.items():
        after = end.decayed.get(name)
        if after is None:
            verdict.fail(f"{name} is gone after a decay")
            continue
        expected = decay_score(before.score, after.at - before.at)
        verdict.expect(abs(after.score - expected) < EXACT, f"{name}: {after.score} after a decay, {expected} before")
        same = (after.last_signal_at, after.signals) == (before.last_signal_at, before.signals)
        verdict.expect(same, f"{name}: a decay changed {before} to {after}")
    return verdict
