"""The guidance loop: evaluations, tool calls, and the feedback that they earn.

Sources: feedback-providers, actionable-feedback.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from tellback.contracts.message import Message
from tellback.errors import InvalidInput
from tellback.names import Family

Severity = Literal["info", "caution", "warning"]
Delivery = Literal["first", "all"]
Status = Literal["success", "partial", "error"]
Code = Literal[
    "ok",
    "partial",
    "no_results",
    "rate_limited",
    "unavailable",
    "unknown_tool",
    "invalid_arguments",
    "denied",
    "error",
]

MAX_PROVIDERS: Final = 32
MAX_CONFIG_BYTES: Final = 64 << 10
MAX_OFFERS: Final = 8
LONGEST_WAIT: Final = 86_400.0  # seconds of a Retry-After that are believed

SessionName = Annotated[str, Meta(min_length=1, max_length=512)]
Name = Annotated[str, Meta(max_length=256)]
ToolName = Annotated[str, Meta(min_length=1, max_length=256)]


class Observation(msgspec.Struct, frozen=True):
    """A piece of supporting evidence."""

    label: str
    value: str


class Feedback(msgspec.Struct, frozen=True, omit_defaults=True):
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
        """The text form that an agent reads: `[Feedback - Deadline]`, a blank line, the summary, then lists.

        What a provider took from a tool's output cannot begin a section of its own: labels, values and suggestions
        are one line each, and a line of the summary that looks like a heading is quoted.
        """
        name = _one_line(self.provider_name)
        lines = [f"[Feedback - {name.removesuffix('Feedback') or name}]", "", *_quoted(self.summary)]
        if self.observations:
            lines += ["", *(f"- {_one_line(o.label)}: {_one_line(o.value)}" for o in self.observations)]
        if self.suggestions:
            lines += ["", *(f"→ {_one_line(suggestion)}" for suggestion in self.suggestions)]
        return "\n".join(lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quoted(summary: str) -> list[str]:
    return [f"> {line}" if line.lstrip().startswith("[Feedback") else line for line in summary.splitlines()]


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
    """A provider as it travels: the name of its class, its fields, and its trigger. Never code."""

    name: Name
    trigger: FeedbackTrigger
    fields: dict[str, Any] = {}


class EvaluationBegun(Message, frozen=True, kw_only=True):
    """A prompt's evaluation begins, or another process joins it; the first configuration counts.

    `deadline_in` is seconds from the entry's arrival, so that a host's clock does not matter.
    """

    family: ClassVar[Family] = Family.EVENTS

    session: SessionName
    evaluation: Name
    prompt: Name
    providers: list[ProviderSpec] = []
    delivery: Delivery = "first"
    deadline_in: float | None = None
    tools: list[ToolName] = []
    question: str | None = None

    def __post_init__(self) -> None:
        """Bound what the state of an evaluation must carry."""
        if len(self.providers) > MAX_PROVIDERS:
            raise InvalidInput(f"{len(self.providers)} feedback providers; an evaluation has at most {MAX_PROVIDERS}")
        size = len(msgspec.json.encode((self.providers, self.tools, self.question)))
        if size > MAX_CONFIG_BYTES:
            raise InvalidInput(f"providers, tools and question have {size} bytes; together at most {MAX_CONFIG_BYTES}")

    @property
    def routing(self) -> str:
        """The session."""
        return self.session


class Offer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One suggestion as it was offered, for measuring what was taken.

    `kind` says what it asks for: "refine", "alternative", "retry", "answer", ... `arguments` is the fingerprint
    `attempt_of(tool, arguments)` of the call; None where any arguments will do.
    """

    kind: Annotated[str, Meta(max_length=64)]
    tool: ToolName | None = None
    arguments: Annotated[str, Meta(max_length=64)] | None = None


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a tool call came to, as its host classified it. `retry_after` is in seconds.

    Source: actionable-feedback, "Design Principle".
    """

    status: Status
    code: Code
    retryable: bool = False
    retry_after: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] | None = None
    offered: Annotated[tuple[Offer, ...], Meta(max_length=MAX_OFFERS)] = ()


class ToolInvoked(Message, frozen=True, kw_only=True, gc=False):  # gc: of many at once, none part of a cycle
    """A tool call has completed, whatever its outcome: denied and failed calls count as calls.

    `outcome` is there where the host had the call observed.
    """

    family: ClassVar[Family] = Family.EVENTS

    session: SessionName
    evaluation: Name
    tool: ToolName
    prompt: Name = ""
    params: dict[str, Any] = {}
    status: Annotated[str, Meta(max_length=64)] = "success"
    result: str | None = None
    error: str | None = None
    duration_ms: int | None = None
    call_id: str | None = None
    outcome: Outcome | None = None

    @property
    def routing(self) -> str:
        """The session."""
        return self.session


class ToolCall(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="tool_call", omit_defaults=True, gc=False
):
    """A tool call as the history and `recent_tool_calls` show it; long texts are cut.

    `at` is milliseconds since the epoch, server time; `call_index` counts from 1 within the evaluation.
    """

    at: int
    tool: str
    call_index: int
    prompt: str = ""
    evaluation: str = ""
    params: dict[str, Any] = {}
    status: str = "success"
    result: str | None = None
    error: str | None = None
    duration_ms: int | None = None
    call_id: str | None = None
    outcome: Outcome | None = None
