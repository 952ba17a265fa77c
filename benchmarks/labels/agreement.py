"""`python -m benchmarks.labels.agreement`: how far other readers, who did not see the labels, agree with them.

`second.jsonl` has what the second reader said of 60 stretches of the tune half. Of a stretch of more than 25 calls the
second reader judged 25 in a row, so each line names the calls that were judged. `third.jsonl` has the stretches into
which the third reader divided 39 transcripts of that half, `windows.jsonl` the windows of it that were read at random
places. `measure_second.jsonl` has the stretches into which another reader divided the transcripts of the measure half;
`measure_adjudicated.jsonl` says where an adjudicator sided with whom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from benchmarks.labels.disputes import disputes, sided_with
from benchmarks.labels.stretches import FOLDER, Stretch, meets, read_labels, read_stretches
from benchmarks.transcripts import HALVES, Half

SECOND: Final = FOLDER / "second.jsonl"
WINDOWS: Final = FOLDER / "windows.jsonl"
WHOLE: Final[dict[Half, str]] = {"tune": "third.jsonl", "measure": "measure_second.jsonl"}
ADJUDICATED: Final[dict[Half, str]] = {"measure": "measure_adjudicated.jsonl"}


Readings = Mapping[str, Sequence[Stretch]]
"""The stretches of each transcript."""


class SecondReading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The label that the second reader gave to calls of one stretch."""

    transcript: str
    first: int
    last: int
    label: Literal["stuck", "getting_on", "unclear"]
    since: int | None = None


def main() -> None:
    pairs = list(read_pairs())
    labels = [(one.label, two.label) for one, two in pairs]
    stuck = [(one == "stuck", two == "stuck") for one, two in labels]
    print(f"{sum(one == two for one, two in labels)} of {len(labels)} labels agree, kappa {cohens_kappa(labels):.2f}")
    print(f"stuck or not: {sum(one == two for one, two in stuck)} agree, kappa {cohens_kappa(stuck):.2f}")
    both = [(one.since, two.since) for one, two in pairs if one.label == two.label == "stuck"]
    print(f"of {len(both)} that both call stuck, {sum(one == two for one, two in both)} have the same call as evidence")
    windows = list(read_windows())
    print(f"{sum(one == two for one, two in windows)} of {len(windows)} windows agree on whether they hold evidence")
    for half in HALVES:
        _print_whole(half)
    for half in ADJUDICATED:
        _print_adjudicated(half)


def _print_whole(half: Half) -> None:
    labels, again = both_readings(half)
    calls = list(read_call_pairs(half))
    print(f"{half} half, {len(again)} transcripts read whole:")
    print(f"  {sum(one == two for one, two in calls)} of {len(calls)} calls agree, kappa {cohens_kappa(calls):.2f}")
    ones, twos = stuck_of(labels), stuck_of(again)
    met = sum(any(meets(one, two) for two in twos) for one in ones)
    back = sum(any(meets(one, two) for one in ones) for two in twos)
    print(f"  stuck: {len(ones)} stretches by the labels, {met} of them meet one of the reader's")
    print(f"         {len(twos)} by the reader, {back} of them meet one of the labels'")
    same = {(each.transcript, each.since) for each in ones} & {(each.transcript, each.since) for each in twos}
    print(f"         {len(same)} with the same call as evidence")
    for side, own, other in (("labels", ones, again), ("reader", twos, labels)):
        apart = Counter(
            (each.kind or "", "unclear" if overlaps(each, other, "unclear") else "getting_on")
            for each in own
            if not overlaps(each, other, "stuck")
        )
        kinds = ", ".join(f"{n} {kind} ({what})" for (kind, what), n in sorted(apart.items()))
        print(f"  stuck by the {side} alone, and what it is to the other: {kinds or 'none'}")


def _print_adjudicated(half: Half) -> None:
    labels, again = both_readings(half)
    settled = adjudicated_labels(half)
    spans = [(name, span) for name, ones in labels.items() for span in disputes(ones, again[name])]
    sides = Counter(sided_with(span, settled[name], labels[name], again[name]) for name, span in spans)
    calls = sum(last - first + 1 for _, (first, last) in spans)
    print(f"{half} half, adjudicated: {len(spans)} disputes over {calls} calls")
    print(f"  decided as the labels {sides['first']}, as the reader {sides['second']}, otherwise {sides['neither']}")
    kinds = Counter(each.label for stretches in settled.values() for each in stretches)
    print(f"  {kinds['stuck']} stretches stuck, {kinds['getting_on']} getting on, {kinds['unclear']} unclear")
    for side, own, other in (("labels", labels, again), ("reader", again, labels)):
        alone = [each for each in stuck_of(own) if not overlaps(each, other, "stuck")]
        upheld = sum(overlaps(each, settled, "stuck") for each in alone)
        print(f"  stuck by the {side} alone: {len(alone)}, upheld {upheld}")
        pairs = list(_pairs_by_call(settled, own))
        alike = sum(one == two for one, two in pairs)
        print(f"  {alike} of {len(pairs)} calls as the {side}, kappa {cohens_kappa(pairs):.2f}")
    new = [each for each in stuck_of(settled) if not any(overlaps(each, read, "stuck") for read in (labels, again))]
    print(f"  stuck by neither, but adjudicated so: {len(new)}")


def read_pairs() -> Iterator[tuple[Stretch, SecondReading]]:
    """Yield each stretch that was read twice, with its second reading."""
    labels = read_labels("tune")
    decode = msgspec.json.Decoder(SecondReading).decode
    for line in SECOND.read_bytes().splitlines():
        second = decode(line)
        yield next(each for each in labels[second.transcript] if each.first <= second.first <= each.last), second


def read_windows() -> Iterator[tuple[bool, bool]]:
    """Yield for each window whether the labels, and another reader, see the evidence of a stuck stretch in it."""
    labels = read_labels("tune")
    decode = msgspec.json.Decoder(SecondReading).decode
    for line in WINDOWS.read_bytes().splitlines():
        window = decode(line)
        seen = (each.since for each in labels[window.transcript] if each.since is not None)
        yield any(window.first <= since <= window.last for since in seen), window.since is not None


def both_readings(half: Half) -> tuple[dict[str, list[Stretch]], dict[str, list[Stretch]]]:
    """Return the labels of the transcripts of a half that another reader read whole, and that reading."""
    labels, again = read_labels(half), read_stretches(FOLDER / WHOLE[half], half)
    return {name: labels[name] for name in again}, again


def read_call_pairs(half: Half) -> Iterator[tuple[bool, bool]]:
    """Yield for each call of these transcripts whether the label, and the reader, call it stuck."""
    yield from _pairs_by_call(*both_readings(half))


def adjudicated_labels(half: Half) -> dict[str, list[Stretch]]:
    """Return the labels of a half where both readers agree, and an adjudicator's where they differ; of `tune`, none."""
    return read_stretches(FOLDER / ADJUDICATED[half], half) if half in ADJUDICATED else {}


def stuck_of(read: Mapping[str, Iterable[Stretch]]) -> list[Stretch]:
    """Return the stuck stretches of a reading."""
    return [each for stretches in read.values() for each in stretches if each.label == "stuck"]


def overlaps(stretch: Stretch, read: Mapping[str, Iterable[Stretch]], label: str) -> bool:
    """Return whether a stretch has a call in common with one that a reading labels so."""
    return any(meets(stretch, each) for each in read[stretch.transcript] if each.label == label)


def _pairs_by_call(ones: Readings, twos: Readings) -> Iterator[tuple[bool, bool]]:
    for name, stretches in twos.items():
        yield from zip(_stuck_calls(ones[name]), _stuck_calls(stretches), strict=True)


def _stuck_calls(stretches: Iterable[Stretch]) -> Iterator[bool]:
    for each in stretches:
        yield from (each.label == "stuck" for _ in range(each.first, each.last + 1))


def cohens_kappa(pairs: Iterable[tuple[object, object]]) -> float:
    """Return the agreement of two readers beyond that of chance: 1 is complete, 0 is what chance gives."""
    counted = Counter(pairs)
    total = counted.total()
    ones, twos = Counter[object](), Counter[object]()
    for (one, two), number in counted.items():
        ones[one] += number
        twos[two] += number
    agreed = sum(number for (one, two), number in counted.items() if one == two) / total
    by_chance = sum(ones[each] * twos[each] for each in ones) / total**2
    return 1.0 if by_chance == 1.0 else (agreed - by_chance) / (1.0 - by_chance)


if __name__ == "__main__":
    main()
