"""The disputes of two readings of a transcript, and how decisions settle them: pure functions of stretches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from benchmarks.labels.stretches import Stretch, meets

SINCE_APART: Final = 3  # a nudge that far from the evidence is still in time

Span = tuple[int, int]
"""The first and the last call."""


def disputes(ones: Sequence[Stretch], twos: Sequence[Stretch]) -> list[Span]:
    """Return the calls that two readings of a transcript judge differently, with the stuck stretches that they touch.

    A stuck stretch of both is disputed too if its evidence is complete at calls that are far apart.
    """
    pairs = list(zip(_labels_by_call(ones), _labels_by_call(twos), strict=True))
    differing = [call for call, (one, two) in enumerate(pairs, start=1) if one != two]
    spans = _joined([*((call, call) for call in differing), *_apart(ones, twos)])
    stuck = [(each.first, each.last) for each in (*ones, *twos) if each.label == "stuck"]
    while (grown := _joined([_covering(span, stuck) for span in spans])) != spans:
        spans = grown
    return spans


def settle(ones: Sequence[Stretch], twos: Sequence[Stretch], decisions: Iterable[Stretch]) -> list[Stretch]:
    """Return a transcript's stretches: those of the first reading, with the decisions in place of disputed calls.

    Raises:
        ValueError: The decisions cover other calls than the disputed ones.
    """
    spans = disputes(ones, twos)
    decided = sorted(decisions, key=lambda each: each.first)
    if _calls((each.first, each.last) for each in decided) != _calls(spans):
        raise ValueError(f"{ones[0].transcript}: the decisions do not cover {spans}")
    parts = [part for each in ones for part in _without(each, spans)]
    parts += [msgspec.structs.replace(each, enriched=ones[0].enriched) for each in decided]
    return _merged(sorted(parts, key=lambda each: each.first))


def settle_all(
    labels: Mapping[str, Sequence[Stretch]], again: Mapping[str, Sequence[Stretch]], decisions: Sequence[Stretch]
) -> dict[str, list[Stretch]]:
    """Return the stretches of all transcripts, as `settle` does for each."""
    if strange := {each.transcript for each in decisions} - labels.keys():
        raise ValueError(f"no labels of {', '.join(sorted(strange))}")
    return {
        name: settle(ones, again[name], [each for each in decisions if each.transcript == name])
        for name, ones in labels.items()
    }


def sided_with(
    span: Span, decided: Sequence[Stretch], ones: Sequence[Stretch], twos: Sequence[Stretch]
) -> Literal["first", "second", "neither"]:
    """Return the reading whose labels and evidence the decision of a dispute repeats, if any."""
    view = _view(decided, span)
    if view == _view(ones, span):
        return "first"
    return "second" if view == _view(twos, span) else "neither"


def _view(stretches: Sequence[Stretch], span: Span) -> tuple[list[str], list[int]]:
    first, last = span
    since = [each.since for each in stretches if each.since is not None and first <= each.since <= last]
    return _labels_by_call(stretches)[first - 1 : last], since


def _labels_by_call(stretches: Iterable[Stretch]) -> list[str]:
    return [each.label for each in stretches for _ in range(each.first, each.last + 1)]


def _apart(ones: Iterable[Stretch], twos: Sequence[Stretch]) -> Iterator[Span]:
    for one in ones:
        for two in twos:
            if one.since and two.since and meets(one, two) and abs(one.since - two.since) > SINCE_APART:
                yield min(one.first, two.first), max(one.last, two.last)


def _covering(span: Span, stuck: Iterable[Span]) -> Span:
    touched = [each for each in stuck if each[0] <= span[1] and span[0] <= each[1]]
    return min(first for first, _ in (span, *touched)), max(last for _, last in (span, *touched))


def _joined(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined


def _calls(spans: Iterable[Span]) -> list[int]:
    return [call for first, last in spans for call in range(first, last + 1)]


def _without(stretch: Stretch, spans: Iterable[Span]) -> Iterator[Stretch]:
    """Yield what is left of a stretch; a stuck one is disputed as a whole or not at all."""
    first = stretch.first
    for start, end in spans:
        if start > stretch.last or end < first:
            continue
        if first < start:
            yield msgspec.structs.replace(stretch, first=first, last=start - 1)
        first = end + 1
    if first <= stretch.last:
        yield msgspec.structs.replace(stretch, first=first)


def _merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    merged: list[Stretch] = []
    for each in stretches:
        if merged and each.label == merged[-1].label != "stuck":
            merged[-1] = msgspec.structs.replace(merged[-1], last=each.last)
        else:
            merged.append(each)
    return merged
