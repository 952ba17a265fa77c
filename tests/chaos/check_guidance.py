"""Invariants 3, 4 and 5: events count once, triggers fire once each time they are due, and no tool call waits."""

from __future__ import annotations

from tests.chaos.end_state import EndState
from tests.chaos.loads import EVALUATIONS, FIRE_EVERY
from tests.chaos.story import Story
from tests.chaos.verdict import ChaosVerdict


def check_counts(story: Story, end: EndState) -> ChaosVerdict:
    """Check each life's tool calls, which carry its name, and the sums of the shared evaluations."""
    verdict = ChaosVerdict(3, "an event delivered twice counts once, none is lost")
    certain = 0
    for (loop, who), life in story.lives.items():
        if loop in {"guidance", "hooks"}:
            counted = end.tool_calls.get(f"t-{who}", 0)
            certain += life.certain
            verdict.expect(
                life.certain <= counted <= life.possible,
                f"{who}: {counted} calls counted, {life.certain} durable, {life.possible} possible",
            )
            verdict.counted += counted
    for number in range(EVALUATIONS) if story.lives else ():
        lives = [life for (loop, _), life in story.lives.items() if loop == "guidance"]
        least, most = (sum(life.by_evaluation[what, number] for life in lives) for what in ("certain", "possible"))
        calls = end.evaluations.get(number, (0, 0))[0]
        verdict.expect(least <= calls <= most, f"evaluation {number}: {calls} calls, from {least} to {most} published")
    verdict.note = f"{certain} durable calls"
    return verdict


def check_fires(story: Story, end: EndState) -> ChaosVerdict:
    """Check that each shared evaluation fired at every tenth call, and that no feedback was given twice."""
    verdict = ChaosVerdict(4, f"a trigger of every {FIRE_EVERY} calls fires once each time")
    for number, (calls, fires) in end.evaluations.items():
        verdict.expect(fires == calls // FIRE_EVERY, f"evaluation {number}: {calls} calls, {fires} fires")
        verdict.expect(story.taken[number] <= fires, f"evaluation {number}: {story.taken[number]} taken of {fires}")
        verdict.counted += fires
    return verdict


def check_never_gated(story: Story, _: EndState) -> ChaosVerdict:
    """Check that every call of a host returned or was refused, but for the one in which its process was killed."""
    verdict = ChaosVerdict(5, "publishing never waits for evaluation, nor raises")
    for (loop, who), life in story.lives.items():
        if loop in {"guidance", "signals"}:
            most = 0 if life.ended else 1
            verdict.expect(life.open_ops <= most, f"{who} {loop}: {life.open_ops} calls never returned")
            verdict.counted += life.possible
    for crash in story.crashes:
        verdict.fail(f"a call raised: {crash}")
    return verdict
