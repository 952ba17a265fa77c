"""Stretches that were written before the detectors were read, or measured once: all but these are judged right.

`tests/data/README.md` says how they were written, `docs/operations/replay.md` has the figures at first sight.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.dialects import nudges_in

DATA: Final = Path(__file__).parents[2] / "data"
IN_TIME: Final = 3
# Stuck ones that are reported late or not at all, and healthy ones that hear something.
MISJUDGED: Final = {
    "blind_stretches.jsonl": {
        "one sum printed in many ways",
        "subagents that find no retries",
        "an overflow of 14 pixels after each style",
    },
    "blind_stretches_later.jsonl": {
        "questions about the weather of the code",
        "a query plan compared for seven settings",
    },
    "blind_stretches_last.jsonl": {
        "an index added and dropped",
        "an event that no log has",
    },
    "blind_stretches_noisy.jsonl": {
        "thoughts and looks at what was seen",
    },
    "blind_stretches_apart.jsonl": {
        "its own script prints the wrong rows",
        "strict on breaks one test, off the other",
        "probes that say what is known",
    },
}


def is_right(stretch: dict[str, Any]) -> bool:
    found = [call for call, _ in nudges_in([(tool, params, result) for tool, params, result in stretch["calls"]])]
    enough = stretch.get("enough")
    return not found if enough is None else bool(found) and -1 <= found[0] - enough <= IN_TIME


SLOW = {"blind_stretches_apart.jsonl", "blind_stretches_noisy.jsonl"}
"""Of the three large files, the two that were written later."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in MISJUDGED]
)
def test_a_reader_who_does_not_know_the_rules_is_followed(name: str) -> None:
    stretches = [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]
    assert {each["name"] for each in stretches if not is_right(each)} == MISJUDGED[name]
