"""`python -m benchmarks results FILE`: how many labelled results of coding agents the classifier names rightly.

The labels and their rules are in `benchmarks/labels`; FILE has the transcripts, `.jsonl` or `.jsonl.xz`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.scoring import Share
from benchmarks.transcripts import read_coding
from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.evidence import verdict_of
from tellback.guidance.observations.evidence_builder import build_evidence
from tellback.replay.accounts import observe_arguments
from tellback.replay.transcript import ToolResult

LABELS: Final = Path(__file__).parent / "labels" / "results.jsonl"


@dataclass(frozen=True, slots=True)
class Label:
    """The label that a reader gave to a result."""

    id: str
    call: int
    label: str
    sample: int


@dataclass(frozen=True, slots=True)
class Judged:
    """A label, and what the classifier made of the result."""

    label: Label
    verdict: str

    @property
    def right(self) -> bool:
        return self.verdict == self.label.label


def read_labels(path: Path = LABELS) -> list[Label]:
    return [Label(**json.loads(line)) for line in path.read_text().splitlines()]


def judge(labels: Sequence[Label], transcripts: Path) -> Iterator[Judged]:
    wanted: dict[str, list[Label]] = {}
    for label in labels:
        wanted.setdefault(label.id, []).append(label)
    for transcript in read_coding(transcripts):
        if transcript.id not in wanted:
            continue
        results = [step for step in transcript.conversation.steps if isinstance(step, ToolResult)]
        for label in wanted[transcript.id]:
            result = results[label.call]
            evidence = build_evidence(result.tool, **observe_arguments(result))
            yield Judged(label, verdict_of(classify(evidence, {}).code))


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks results", description=__doc__)
    parser.add_argument("file", type=Path, help="the coding transcripts")
    judged = list(judge(read_labels(), parser.parse_args(words).file))
    print("| sample | results | right | share | 95 % | false errors | missed errors | other |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for sample in sorted({each.label.sample for each in judged}):
        found = [each for each in judged if each.label.sample == sample]
        wrong = [each for each in found if not each.right]
        right = len(found) - len(wrong)
        low, high = Share(right, len(found)).interval
        false = sum(each.verdict == "failure" for each in wrong)
        missed = sum(each.label.label == "failure" for each in wrong)
        print(
            f"| {sample} | {len(found)} | {right} | {right / len(found):.1%} | {low:.1%} to {high:.1%} "
            f"| {false} | {missed} | {len(wrong) - false - missed} |"
        )
    for each in judged:
        if not each.right:
            print(f"\n{each.label.id}, call {each.label.call}: {each.label.label}, named {each.verdict}")


if __name__ == "__main__":
    main()
