"""The halves of the coding transcripts: guidance is tuned on the tasks of one and measured on the other's."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tellback.errors import InvalidInput
from tellback.replay.reading import parse_line
from tellback.replay.transcript import BadLine, Conversation, ToolResult

Half = Literal["tune", "measure"]

HALVES: Final[tuple[Half, ...]] = ("tune", "measure")

# `msa-deepseek_chat_dev-pylint-dev__astroid-1978` and `moat-pylint-dev__astroid-1978` are one SWE-bench instance. The
# owner is left out, since its hyphens cannot be distinguished from those of the agent's prefix.
_INSTANCE: Final = re.compile(r"__([\w.-]+?-\d+)")


def task_of(transcript: str) -> str:
    """Return the task of a transcript's id: the SWE-bench instance that it names, else the id itself."""
    found = _INSTANCE.search(transcript)
    return found[1] if found else transcript


def half_of(task: str) -> Half:
    """Return the half of a task, by its SHA-256, so that all transcripts of one task stand in the same."""
    return "measure" if hashlib.sha256(task.encode()).digest()[0] & 1 else "tune"


@dataclass(frozen=True, slots=True)
class Transcript:
    """A coding transcript, with what a replay does not know of it."""

    id: str
    agent: str
    outcome: str
    conversation: Conversation

    @property
    def task(self) -> str:
        """The task that other transcripts may share."""
        return task_of(self.id)

    @property
    def calls(self) -> list[ToolResult]:
        """The calls in the order in which labels count them."""
        return [step for step in self.conversation.steps if isinstance(step, ToolResult)]

    @property
    def half(self) -> Half:
        """The half that it stands in."""
        return half_of(self.task)


def read_coding(path: Path) -> Iterator[Transcript]:
    """Yield the transcripts of a file, `.jsonl` or `.jsonl.xz`; the agent is named without its model.

    Raises:
        InvalidInput: A line holds no conversation.
    """
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            conversation = parse_line(number, line)
            if isinstance(conversation, BadLine):
                raise InvalidInput(f"{path}, line {number}: {conversation.reason}")
            fields: dict[str, object] = json.loads(line)
            agent = str(fields.get("agent", "")).partition("/")[0]
            solved = conversation.solved
            outcome = "unknown" if solved is None else "solved" if solved else "not solved"
            yield Transcript(str(fields.get("id", conversation.label)), agent, outcome, conversation)
