"""What a transcript says, as the steps that a host takes: users speak, tools return, the agent answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class UserSays:
    """A user's message; it opens a turn. `position` counts the conversation's messages from 0."""

    position: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool's result, with the call that asked for it where there is one; `position` is that of its message."""

    tool: str
    params: dict[str, Any]
    result: str
    status: Literal["success", "error"]
    call_id: str | None
    position: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class AgentAnswers:
    """The answer to the user's message at `position`."""

    position: int
    text: str


@dataclass(frozen=True, slots=True)
class NobodyAnswers:
    """The user's message at `position` has no answer in the transcript."""

    position: int
    reason: str


Step = UserSays | ToolReturned | AgentAnswers | NobodyAnswers


@dataclass(slots=True)
class Counts:
    """What a transcript holds, or what Redis holds of it.

    `closed` are user messages closed without an answer; `delivered` are answers that the transport has settled.
    """

    tool_calls: int = 0
    errors: int = 0
    opened: int = 0
    answered: int = 0
    closed: int = 0
    delivered: int = 0

    def add(self, other: Counts) -> None:
        """Add another's numbers to these."""
        _add(self, other)


@dataclass(slots=True)
class Oddities:
    """What a transcript had that a whole one has not; none of it ends a replay."""

    calls_without_result: int = 0
    results_without_call: int = 0
    arguments_not_json: int = 0
    messages_skipped: int = 0

    def add(self, other: Oddities) -> None:
        """Add another's numbers to these."""
        _add(self, other)


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation; `label` is unique within its file.

    `reward` is 1.0 where the transcript says that the task was solved. `domain` names whose tools it had, `tools` are
    their definitions, as far as the transcript gives them.
    """

    line: int
    label: str
    steps: tuple[Step, ...]
    oddities: Oddities = field(default_factory=Oddities)
    reward: float | None = None
    domain: str = ""
    tools: tuple[dict[str, Any], ...] = ()

    @property
    def question(self) -> str | None:
        """What the user asked first."""
        return next((step.text for step in self.steps if isinstance(step, UserSays)), None)

    @property
    def solved(self) -> bool | None:
        """Whether the task was solved; None where the transcript does not say."""
        return None if self.reward is None else self.reward >= 1

    @property
    def counts(self) -> Counts:
        """What it holds."""
        return count(self.steps)


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that holds no conversation, and why."""

    line: int
    reason: str


def count(steps: Iterable[Step]) -> Counts:
    """What these steps come to."""
    counts = Counts()
    for step in steps:
        match step:
            case UserSays():
                counts.opened += 1
            case AgentAnswers():
                counts.answered += 1
                counts.delivered += 1
            case NobodyAnswers():
                counts.closed += 1
            case ToolReturned():
                counts.tool_calls += 1
                counts.errors += step.status == "error"
    return counts


def _add(ours: Counts | Oddities, theirs: Counts | Oddities) -> None:
    for each in fields(ours):
        setattr(ours, each.name, getattr(ours, each.name) + getattr(theirs, each.name))
