"""`python -m benchmarks.labels.agreement`: how far a second reader, who did not see the labels, agrees with them.

`second.jsonl` has what the second reader said of 60 stretches of the tune half. Of a stretch of more than 25 calls the
second reader judged 25 in a row, so each line names the calls that were judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from benchmarks.labels.stretches import FOLDER, Stretch, read_labels

SECOND: Final = FOLDER / "second.jsonl"


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


def read_pairs() -> Iterator[tuple[Stretch, SecondReading]]:
    """Yield each stretch that was read twice, with its second reading."""
    labels = read_labels("tune")
    decode = msgspec.json.Decoder(SecondReading).decode
    for line in SECOND.read_bytes().splitlines():
        second = decode(line)
        yield next(each for each in labels[second.transcript] if each.first <= second.first <= each.last), second


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
