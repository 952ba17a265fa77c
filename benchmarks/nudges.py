"""`python -m benchmarks.nudges FILE`: how often providers would speak in solved and in other conversations of a file.

Conversations are halved by task, so that what was chosen on the even ones can be checked on the odd ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tellback import (
    FailureStreakFeedback,
    FeedbackProviderConfig,
    FeedbackTrigger,
    RepeatedCallFeedback,
    ToolUsageMonitor,
    recommended_providers,
)
from tellback.replay.accounts import Analyst
from tellback.replay.analysis import toolbox_of
from tellback.replay.digest import Figures
from tellback.replay.reading import read
from tellback.replay.transcript import BadLine, Conversation

EACH: Final = FeedbackTrigger(every_n_calls=1)
GROUPS: Final = (("even", True), ("even", False), ("odd", True), ("odd", False))


def candidates() -> dict[str, list[FeedbackProviderConfig]]:
    found = {
        f"FailureStreakFeedback(levels={levels})": [FeedbackProviderConfig(FailureStreakFeedback(levels), EACH)]
        for levels in ((2, 4, 8), (3, 5, 8))
    }
    for levels in ((2, 5, 8), (3, 5, 8)):
        found[f"RepeatedCallFeedback(levels={levels})"] = [FeedbackProviderConfig(RepeatedCallFeedback(levels), EACH)]
    for calls in (10, 12, 15, 20):
        every = FeedbackTrigger(every_n_calls=calls + 1)
        found[f"ToolUsageMonitor({calls}), every {calls + 1} calls"] = [
            FeedbackProviderConfig(ToolUsageMonitor(calls), every)
        ]
    return {**found, "recommended_providers()": recommended_providers()}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nudges", description=__doc__)
    parser.add_argument(
        "file", type=Path, help="transcripts with `task_id` and `reward`, as `tellback replay` takes them"
    )
    path: Path = parser.parse_args(words).file
    with path.open("rb") as file:
        toolbox = toolbox_of(file)
        file.seek(0)
        talks = [each for each in read(file) if not isinstance(each, BadLine) and each.solved is not None]
    print("| providers | solved, even tasks | not solved | solved, odd tasks | not solved |\n|---|--:|--:|--:|--:|")
    for name, providers in candidates().items():
        analyst = Analyst(providers)
        groups = {group: Figures() for group in GROUPS}
        for talk in talks:
            account = analyst.account(talk, toolbox.of(talk))
            figures = groups[half_of(talk), talk.solved is True]
            figures.conversations += 1
            figures.calls += len(account.calls)
            figures.nudges += len(account.nudges)
            figures.nudged += bool(account.nudges)
        cells = (f"{f.per_call:.3f} ({f.nudged} of {f.conversations})" for f in groups.values())
        print(f"| `{name}` | {' | '.join(cells)} |")


def half_of(talk: Conversation) -> str:
    task = talk.label.partition("-")[0]
    return "odd" if task.isdigit() and int(task) % 2 else "even"


if __name__ == "__main__":
    main()
