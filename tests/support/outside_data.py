"""Recorded data that is larger than a repository should be; each test of it has a sibling on what the repository holds.

`TELLBACK_TEST_DATA` names the folder. Where it is missing, the tests of it are skipped, and in continuous integration
they fail: a measure that nobody takes any more must not look like one that holds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "TELLBACK_TEST_DATA"
SOURCES: Final = {
    "agent_conversations.jsonl": "tasks 0 to 34 of the gpt-4o airline trajectories of sierra-research/tau-bench "
    "(MIT), one JSON object a line, without system prompts",
    "coding_transcripts.jsonl.xz": "445 transcripts of coding agents (MIT), one JSON object a line, whose README "
    "names each one's source",
    "stsb_pairs.csv": "the English development part of the STS benchmark (CC BY-SA 4.0): sentence1, sentence2, 0 to 5",
}
_FOLDER: Final = os.environ.get(VARIABLE)  # at import: no test sees a setting of the machine


def recorded(name: str) -> Path:
    """Return the path of a file of recorded data, or end the test."""
    path = Path(_FOLDER or os.devnull) / name
    if path.is_file():
        return path
    said = f"{VARIABLE} must name a folder with {name}: {SOURCES[name]}"
    if os.environ.get("CI"):
        pytest.fail(said)
    pytest.skip(said)
