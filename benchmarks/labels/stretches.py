"""The labelled stretches of transcripts: how they are read, and the rules of `RULES.md` that a program can check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, Literal

import msgspec

from benchmarks.transcripts import Half, half_of, task_of

Kind = Literal[
    "same_failure",
    "edit_test_same_failure",
    "undone_redone",
    "alternating",
    "same_read",
    "empty_search",
    "worse",
    "tool_fails_always",
    "waiting_for_dead",
    "after_done",
    "no_substance",
]

FOLDER: Final = Path(__file__).parent


class Stretch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calls of a transcript, counted from 1, that a reader judges alike; `since` and `kind` belong to `stuck`."""

    transcript: str
    task: str
    first: int
    last: int
    label: Literal["stuck", "getting_on", "unclear"]
    why: str
    since: int | None = None
    kind: Kind | None = None
    enriched: bool = False


def read_labels(half: Half, folder: Path = FOLDER) -> dict[str, list[Stretch]]:
    """Return the stretches of each labelled transcript of a half, in order; without a file, none.

    Raises:
        ValueError: The labels break a rule.
    """
    return read_stretches(folder / f"{half}.jsonl", half)


def read_stretches(path: Path, half: Half) -> dict[str, list[Stretch]]:
    """Return the stretches that a file has of transcripts of a half, as `read_labels` does."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    decode = msgspec.json.Decoder(Stretch).decode
    stretches = [decode(line) for line in lines if line.strip()]
    labels = {name: list(each) for name, each in groupby(stretches, lambda stretch: stretch.transcript)}
    faults = list(faults_of(half, labels))
    if sum(map(len, labels.values())) != len(stretches):
        faults.append("the stretches of a transcript do not stand together")
    if faults:
        raise ValueError(f"{path}: {'; '.join(faults)}")
    return labels


def faults_of(half: Half, labels: Mapping[str, Sequence[Stretch]]) -> Iterator[str]:
    """Yield what breaks the rules: gaps, a wrong half or task, a stuck stretch without its evidence."""
    for name, stretches in labels.items():
        if half_of(task_of(name)) != half or {each.task for each in stretches} != {task_of(name)}:
            yield f"{name}: its half or task is another"
        if len({each.enriched for each in stretches}) > 1:
            yield f"{name}: enriched in part"
        expected = 1
        for each in stretches:
            if each.first != expected or each.last < each.first:
                yield f"{name}: a stretch is {each.first} to {each.last}, but call {expected} follows"
            expected = each.last + 1
            stuck = each.label == "stuck"
            if stuck != (each.since is not None) or stuck != (each.kind is not None):
                yield f"{name}, call {each.first}: `since` and `kind` belong to stuck stretches"
            if each.since is not None and not each.first <= each.since <= each.last:
                yield f"{name}, call {each.first}: call {each.since} is outside"


def meets(one: Stretch, two: Stretch) -> bool:
    """Return whether two stretches have a call in common."""
    return one.transcript == two.transcript and one.first <= two.last and two.first <= one.last
