"""`python -m benchmarks nudges FILE`: how often providers and peers speak, and how often a reader calls it right.

FILE holds transcripts as `tellback replay` takes them, `.jsonl` or `.jsonl.xz`. Nudges a call are counted over all
transcripts of a half, precision and recall over those with labels (`benchmarks/labels/RULES.md`). The measure half has
a second table: the same nudges, judged by an adjudicator's labels where two readers differ.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.labels.agreement import Readings, adjudicated_labels
from benchmarks.labels.stretches import Stretch, read_labels
from benchmarks.peers import openclaw, tellback_0_1_0, zeroclaw
from benchmarks.readers import other_reading, reader_score, reported_of_both, right_for_one
from benchmarks.scoring import LabelScore, Share
from benchmarks.transcripts import HALVES, Half, Transcript, read_coding
from tellback.replay.accounts import GuidanceAnalyzer
from tellback.replay.analysis import GROUPS
from tellback.replay.reading import TranscriptTools

Nudged = Callable[[Transcript], Sequence[int]]

HEAD: Final = (
    "| reported by | solved | not solved | unknown | precision | recall | calls until then: least, median | unclear |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|"
)


@dataclass(slots=True)
class RowFigures:
    """The figures of one row on one half; `sampled` leaves out the transcripts that were chosen to be stuck."""

    calls: Counter[str] = field(default_factory=Counter[str])
    nudges: Counter[str] = field(default_factory=Counter[str])
    labelled: LabelScore = field(default_factory=LabelScore)
    sampled: LabelScore = field(default_factory=LabelScore)
    spoken: dict[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])

    def add(self, transcript: Transcript, spoken: Sequence[int], stretches: Sequence[Stretch]) -> None:
        self.calls[transcript.outcome] += len(transcript.calls)
        self.nudges[transcript.outcome] += len(spoken)
        if stretches:
            self._judge(transcript.id, spoken, stretches)

    def judged_by(self, labels: Readings) -> RowFigures:
        """Return the figures of the same nudges by other labels of the same transcripts."""
        figures = RowFigures(self.calls, self.nudges)
        for name, spoken in self.spoken.items():
            if name in labels:
                figures._judge(name, spoken, labels[name])
        return figures

    def _judge(self, name: str, spoken: Sequence[int], stretches: Sequence[Stretch]) -> None:
        self.spoken[name] = spoken
        self.labelled.add(stretches, spoken)
        if not stretches[0].enriched:
            self.sampled.add(stretches, spoken)

    def per_call(self, outcome: str) -> float | None:
        calls = self.calls[outcome]
        return self.nudges[outcome] / calls if calls else None


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks nudges", description=__doc__)
    parser.add_argument("file", type=Path, help="transcripts, .jsonl or .jsonl.xz")
    parser.add_argument("--half", choices=HALVES, help="one half of the tasks, default both")
    parser.add_argument(
        "--json", action="store_true", help="print JSON, with each stuck stretch and the reporting call"
    )
    arguments = parser.parse_args(words)
    halves: Sequence[Half] = [arguments.half] if arguments.half else HALVES
    labels: dict[Half, dict[str, list[Stretch]]] = {half: read_labels(half) for half in halves}
    transcripts = list(read_coding(arguments.file))
    found = dict(measure(transcripts, labels))
    if arguments.json:
        print(json.dumps({half: _as_json(half, rows) for half, rows in found.items()}, indent=1))
        return
    here = {each.id for each in transcripts}
    for half, rows in found.items():
        print("\n".join(_by_labels(half, rows, labels[half])))
        if adjudicated := adjudicated_labels(half):
            print("\n".join(["", *_by_adjudicated(half, rows, labels[half], adjudicated)]))
        if missing := labels[half].keys() - here:
            print(f"{len(missing)} labelled transcripts are not in {arguments.file}.")
        print()


def measure(
    transcripts: Sequence[Transcript], labels: Mapping[Half, Mapping[str, Sequence[Stretch]]]
) -> Iterator[tuple[Half, dict[str, RowFigures]]]:
    """Yield the figures of all rows on each half that has an entry in `labels`."""
    rows = candidates(transcripts)
    for half, stretches in labels.items():
        chosen = [each for each in transcripts if each.half == half]
        figures = {name: RowFigures() for name in rows}
        for done, transcript in enumerate(chosen, start=1):
            _show_progress(f"{half}: {done} of {len(chosen)} transcripts")
            for name, nudged in rows.items():
                figures[name].add(transcript, nudged(transcript), stretches.get(transcript.id, ()))
        _show_progress("")
        yield half, figures


def candidates(transcripts: Sequence[Transcript]) -> dict[str, Nudged]:
    """Return who may speak: the providers of today, those of 0.1.0, and the rules that peers describe."""
    toolbox = TranscriptTools()
    for each in transcripts:
        toolbox.add_conversation(each.conversation)
    analyzer = GuidanceAnalyzer()

    def recommended(transcript: Transcript) -> list[int]:
        account = analyzer.analyze(transcript.conversation, toolbox.tools_for(transcript.conversation))
        return [nudge.call_index for nudge in account.feedback]

    return {
        "`recommended_providers()`": recommended,
        "Tellback 0.1.0": lambda transcript: tellback_0_1_0.nudged_calls(transcript.calls),
        "zeroclaw, first": lambda transcript: zeroclaw.nudged_by_first(transcript.calls),
        "zeroclaw": lambda transcript: zeroclaw.nudged_calls(transcript.calls),
        "openclaw": lambda transcript: openclaw.nudged_calls(transcript.calls),
    }


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _by_labels(half: Half, rows: Mapping[str, RowFigures], labels: Readings) -> Iterator[str]:
    again = other_reading(half)
    yield from _table(half, rows, labels)
    yield f"| another reader | | | | {' | '.join(_cells(reader_score(labels, again)))} |\n"
    for name, figures in rows.items():
        reported = reported_of_both(labels, again, figures.spoken)
        right = right_for_one(labels, again, figures.spoken)
        yield f"{name}: of the stretches that both readers call stuck {reported}; nudges right for either {right}"


def _by_adjudicated(
    half: Half, rows: Mapping[str, RowFigures], labels: Readings, adjudicated: Readings
) -> Iterator[str]:
    again = {name: figures.judged_by(adjudicated) for name, figures in rows.items()}
    yield from _table(f"{half}, by the adjudicated labels", again, adjudicated)
    for name, reading in (("the labels", labels), ("another reader", other_reading(half))):
        yield f"| {name} | | | | {' | '.join(_cells(reader_score(adjudicated, reading)))} |"


def _table(title: str, rows: Mapping[str, RowFigures], labels: Readings) -> Iterator[str]:
    sampled = sum(not stretches[0].enriched for stretches in labels.values())
    kinds = Counter(each.label for stretches in labels.values() for each in stretches)
    yield (
        f"**{title}**: {len(labels)} labelled transcripts ({sampled} sampled, {len(labels) - sampled} enriched), "
        f"{kinds['stuck']} stretches stuck, {kinds['getting_on']} getting on, {kinds['unclear']} unclear\n"
    )
    yield HEAD
    for name, figures in rows.items():
        rates = [_rate(figures.per_call(group)) for group in GROUPS]
        yield f"| {name} | {' | '.join([*rates, *_cells(figures.labelled)])} |"
        yield f"| {name}, sampled alone | | | | {' | '.join(_cells(figures.sampled))} |"


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _cells(score: LabelScore) -> list[str]:
    delays = score.delays
    return [
        str(score.precision),
        str(score.recall),
        f"{delays[0]}, {delays[1]:g}" if delays else "–",
        str(score.unclear),
    ]


def _as_json(half: Half, rows: Mapping[str, RowFigures]) -> dict[str, Any]:
    adjudicated = adjudicated_labels(half)
    return {
        name.strip("`"): {
            "nudges_per_call": {group: figures.per_call(group) for group in GROUPS},
            **_scores_as_json(figures),
            **({"adjudicated": _scores_as_json(figures.judged_by(adjudicated))} if adjudicated else {}),
        }
        for name, figures in rows.items()
    }


def _scores_as_json(figures: RowFigures) -> dict[str, Any]:
    return {"labelled": _score_as_json(figures.labelled), "sampled": _score_as_json(figures.sampled)}


def _score_as_json(score: LabelScore) -> dict[str, Any]:
    return {
        "precision": _share_as_json(score.precision),
        "recall": _share_as_json(score.recall),
        "unclear": score.unclear,
        "false": dict(score.false_kinds),
        "stuck": [
            {
                "transcript": each.stretch.transcript,
                "kind": each.stretch.kind,
                "since": each.stretch.since,
                "reported": each.call,
            }
            for each in score.stretches
        ],
    }


def _share_as_json(share: Share) -> dict[str, Any]:
    return {"part": share.part, "whole": share.whole, "value": share.value, "interval": share.interval}
