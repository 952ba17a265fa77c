"""The guidance loop: evaluations, tool calls, and the feedback that they earn.

Sources: feedback-providers, actionable-feedback.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from tellback.contracts.message import Message
from tellback.errors import InvalidInput
from tellback.names import Family

Severity = Literal["info", "caution", "warning"]
Delivery = Literal["first", "all"]


class Observation(msgspec.Struct, frozen=True):
    """A piece of supporting evidence."""

    label: str
    value: str


class Feedback(msgspec.Struct, frozen=True):
    """Soft guidance from a provider to an agent; the agent decides what to do with it.

    `call_index`, `prompt_name` and `at` (milliseconds since the epoch, server time) are set by the evaluation.
    """

    provider_name: str
    summary: str
    observations: tuple[Observation, ...] = ()
    suggestions: tuple[str, ...] = ()
    severity: Severity = "info"
    call_index: int = 0
    prompt_name: str = ""
    at: int = 0

    def render(self) -> str:
        """The text form that an agent reads: `[Feedback - Deadline]`, a blank line, the summary, then lists."""
        lines = [f"[Feedback - {self.provider_name.removesuffix('Feedback') or self.provider_name}]", "", self.summary]
        if self.observations:
            lines += ["", *(f"- {o.label}: {o.value}" for o in self.observations)]
        if self.suggestions:
            lines += ["", *(f"→ {suggestion}" for suggestion in self.suggestions)]
        return "\n".join(lines)


class FeedbackTrigger(msgspec.Struct, frozen=True):
    """When a provider runs: conditions are OR'd, and an empty trigger never fires."""

    every_n_calls: int | None = None
    every_n_seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse what would always fire."""
        if self.every_n_calls is not None and self.every_n_calls < 1:
            raise InvalidInput(f"FeedbackTrigger.every_n_calls is {self.every_n_calls}; use 1 or more")
        if self.every_n_seconds is not None and not self.every_n_seconds > 0:
            raise InvalidInput(f"FeedbackTrigger.every_n_seconds is {self.every_n_seconds}; use more than 0")


class ProviderSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as it travels: the name it is registered under, its fields, and its trigger. Never code."""

    name: str
    trigger: FeedbackTrigger
    fields: dict[str, Any] = {}


class EvaluationBegun(Message, frozen=True, kw_only=True):
    """A prompt's evaluation begins, or another process joins it; the first one's configuration counts.

    `deadline_in` is seconds from the entry's arrival, so that a host's clock does not matter.
    """

    family: ClassVar[Family] = Family.EVENTS

    session: str
    evaluation: str
    prompt: str
    providers: list[ProviderSpec] = []
    delivery: Delivery = "first"
    deadline_in: float | None = None
    tools: list[str] = []
    question: str | None = None

    @property
    def routing(self) -> str:
        """The session."""
        return self.session


class ToolInvoked(Message, frozen=True, kw_only=True):
    """A tool call has completed, whatever its outcome: denied and failed calls count as calls."""

    family: ClassVar[Family] = Family.EVENTS

    session: str
    evaluation: str
    tool: str
    prompt: str = ""
    params: dict[str, Any] = {}
    status: str = "success"
    result: str | None = None
    error: str | None = None
    duration_ms: int | None = None
    call_id: str | None = None

    @property
    def routing(self) -> str:
        """The session."""
        return self.session
