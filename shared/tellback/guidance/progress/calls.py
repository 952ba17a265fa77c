"""Judge a published call by the measure of progress, and record it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tellback.contracts.guidance import ToolCall, ToolInvoked
from tellback.guidance.observations.evidence import Verdict
from tellback.guidance.progress.effects import DeclaredEffect
from tellback.guidance.progress.judge import Judgement, judge
from tellback.guidance.progress.reading import call_features
from tellback.guidance.progress.trail import ProgressTrail
from tellback.guidance.repeats import attempt_marks, decode_call, is_near_duplicate, normalized_arguments_json


def judge_call(  # noqa: PLR0917 - all that a judgement depends on
    trail: ProgressTrail,
    event: ToolInvoked,
    at: int,
    recent: Sequence[msgspec.Raw | ToolCall],
    outcome: Verdict,
    declared: DeclaredEffect | None = None,
) -> Judgement:
    """Return the verdict of the measure of progress on call `at`, and record it.

    `recent` has the calls before it, `outcome` is what observation says the call counts as, and `declared` what its
    host says of the tool.
    """
    text = normalized_arguments_json(event.params)

    def is_near(index: int) -> bool:
        place = index - at + len(recent)
        if place < 0:
            return False
        call = decode_call(recent[place])
        return call.tool == event.tool and is_near_duplicate(text, normalized_arguments_json(call.params))

    return judge(trail, call_features(event, outcome, declared), attempt_marks(event.tool, text), at, is_near)
