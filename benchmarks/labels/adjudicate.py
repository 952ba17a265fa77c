"""`python -m benchmarks.labels.adjudicate FILE`: the disputes of two readers of the measure half, to be decided.

It prints a packet for each dispute: the calls of the transcript in FILE, and the two readings as X and Y in an order
drawn by hash, without their reasons and without the outcome. With `--decisions`, lines in the form of the labels that
cover the disputed calls, it writes `measure_adjudicated.jsonl`: the labels where both readers agree, else the decision.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.labels.agreement import ADJUDICATED, both_readings
from benchmarks.labels.disputes import Span, disputes, settle_all
from benchmarks.labels.stretches import FOLDER, Stretch, faults_of
from benchmarks.transcripts import Half, Transcript, read_coding
from tellback.replay.transcript import content_text

HALF: Final[Half] = "measure"

BEFORE: Final = 15
AFTER: Final = 10

# A longer text is cut in its middle; all packets together have 1.2 million characters then.
INSIDE_CHARACTERS: Final = 1_200
AROUND_CHARACTERS: Final = 240

CallText = tuple[str, str, str]
"""The text before a call, the call, and its result."""


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.labels.adjudicate", description=__doc__)
    parser.add_argument("file", type=Path, help="the coding transcripts, .jsonl or .jsonl.xz")
    parser.add_argument("--decisions", type=Path, help="write the adjudicated labels with these decisions")
    arguments = parser.parse_args(words)
    labels, again = both_readings(HALF)
    if arguments.decisions:
        _write(settle_all(labels, again, _read_decisions(arguments.decisions)))
        return
    texts = _texts_of(arguments.file, labels.keys())
    for name, ones in labels.items():
        for span in disputes(ones, again[name]):
            print("\n".join(packet(texts[name], span, ones, again[name])))


def packet(texts: Sequence[CallText], span: Span, ones: Sequence[Stretch], twos: Sequence[Stretch]) -> Iterator[str]:
    """Yield the lines of a dispute: who says what, and the calls in and around it; `>>` marks the disputed ones."""
    first, last = span
    yield f"\n######## {ones[0].transcript}, calls {first} to {last} of {len(texts)}"
    for letter, reading in zip("XY", in_drawn_order(span, ones, twos), strict=True):
        for each in reading:
            if each.first <= last and first <= each.last:
                stuck = f", since {each.since}, {each.kind}" if each.since else ""
                yield f"{letter}: {each.first} to {each.last} {each.label}{stuck}"
    for number in range(max(1, first - BEFORE), min(len(texts), last + AFTER) + 1):
        inside = first <= number <= last
        yield f"{'>>' if inside else ''}==== {number}"
        yield from _call_lines(texts, number, INSIDE_CHARACTERS if inside else AROUND_CHARACTERS)


def in_drawn_order(span: Span, ones: Sequence[Stretch], twos: Sequence[Stretch]) -> list[Sequence[Stretch]]:
    """Return the two readings, either of them first: the hash of the dispute decides, not the reader."""
    digest = hashlib.sha256(f"adjudicate:{ones[0].transcript}:{span[0]}".encode()).digest()
    return [twos, ones] if digest[0] & 1 else [ones, twos]


def shortened(text: str, most: int) -> str:
    """Return the beginning and the end of a long text, and how much is left out."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"


def _call_lines(texts: Sequence[CallText], number: int, most: int) -> Iterator[str]:
    said, call, result = texts[number - 1]
    if said:
        yield shortened(said, most)
    yield f"---- {shortened(call, most)}"
    same = next((n for n in range(1, number) if texts[n - 1][2] == result and len(result) > 80), None)
    yield f"---- the result is that of call {same}" if same else f"---- {shortened(result, most)}"


def _texts_of(path: Path, names: Iterable[str]) -> dict[str, list[CallText]]:
    wanted = set(names)
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        messages = {fields["id"]: fields["messages"] for fields in map(json.loads, file) if fields["id"] in wanted}
    return {each.id: list(_call_texts(each, messages[each.id])) for each in read_coding(path) if each.id in wanted}


def _call_texts(transcript: Transcript, messages: Sequence[dict[str, Any]]) -> Iterator[CallText]:
    before = 0
    for call in transcript.calls:
        said = [
            f"{message['role']}: {text}"
            for message in messages[before : call.position]
            if message["role"] in ("user", "assistant") and (text := content_text(message.get("content")).strip())
        ]
        before = call.position + 1
        shown = "\n".join(f"{name}: {value}" for name, value in call.params.items())
        yield "\n".join(said), f"{call.tool}\n{shown}", call.result


def _read_decisions(path: Path) -> list[Stretch]:
    decode = msgspec.json.Decoder(Stretch).decode
    return [decode(line) for line in path.read_bytes().splitlines() if line.strip()]


def _write(settled: Mapping[str, Sequence[Stretch]]) -> None:
    if faults := list(faults_of(HALF, settled)):
        raise ValueError("; ".join(faults))
    lines = [msgspec.json.encode(_as_row(each)) for stretches in settled.values() for each in stretches]
    (FOLDER / ADJUDICATED[HALF]).write_bytes(b"\n".join(lines) + b"\n")


def _as_row(stretch: Stretch) -> dict[str, Any]:
    row = {name: getattr(stretch, name) for name in stretch.__struct_fields__}
    return {name: value for name, value in row.items() if value is not None and value is not False}


if __name__ == "__main__":
    main()
