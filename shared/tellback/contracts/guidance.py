"""Messages and values of the guidance loop: evaluations, tool calls, and the feedback for them.

Requirements G-1, G-6, G-7 and G-36.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from tellback.contracts.feedback_text import display_name, feedback_text
from tellback.contracts.limits import (
    MAX_CHANGE_DETAIL_CHARS,
    MAX_CHANGE_NAME_CHARS,
    MAX_CONFIG_BYTES,
    MAX_FILE_CHARS,
    MAX_KIND_CHARS,
    MAX_NAME_CHARS,
    MAX_OFFERS,
    MAX_PROVIDERS,
    MAX_SESSION_CHARS,
    MAX_STATUS_CHARS,
)
from tellback.contracts.message import Message, plain_builtin
from tellback.errors import InvalidInput
from tellback.names import Family
from tellback.quoting import quote_summary, quote_value
from tellback.sanitize import xml_text

Severity = Literal["info", "caution", "warning"]
DeliveryMode = Literal["first", "all"]
Form = Literal["text", "xml"]
CallStatus = Literal["success", "partial", "error"]
OutcomeCode = Literal[
    "ok",
    "partial",
    "no_results",
    "rate_limited",
    "unavailable",
    "unknown_tool",
    "invalid_arguments",
    "denied",
    "cancelled",
    "error",
]


def outcome_word(code: str | None, status: str) -> str:
    """Return what came of a call in one word, as listings show it: its outcome's code, else what the host said."""
    return code or ("ok" if status == "success" else status)


MAX_RETRY_AFTER: Final = 86_400.0  # seconds; a longer Retry-After is not believed
MAX_TOKENS: Final = 10**12  # in one report
MAX_COST: Final = Decimal(10**9)  # in one report, of any currency
COST_PLACES: Final = 12  # digits after the point; finer costs are refused, which keeps every sum exact

SessionName = Annotated[str, Meta(min_length=1, max_length=MAX_SESSION_CHARS)]
Name = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
FileName = Annotated[str, Meta(min_length=1, max_length=MAX_FILE_CHARS)]
ToolName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
ToolEffects = Annotated[str, Meta(pattern="^[rw-]*$")]


class Observation(msgspec.Struct, frozen=True):
    """A statement about a tool call that supports feedback."""

    label: str
    value: str


class Feedback(msgspec.Struct, frozen=True, omit_defaults=True):
    """Guidance from a provider to an agent; the agent decides whether to follow it.

    The evaluation sets `call_index`, `prompt_name` and `at` (milliseconds since the epoch, server time), and
    `traceparent`, the context of the event that earned it, if that was traced.
    """

    provider_name: str
    summary: str
    observations: tuple[Observation, ...] = ()
    suggestions: tuple[str, ...] = ()
    severity: Severity = "info"
    call_index: int = 0
    prompt_name: str = ""
    at: int = 0
    traceparent: str = ""

    def render(self, form: Form = "text") -> str:
        """Return the form that an agent reads: `[Feedback - Deadline]`, a blank line, the summary, then lists.

        Text that a provider copied from a tool's output cannot fake a section of its own: labels, values and
        suggestions are one line each, and what looks like a heading or a list of ours is quoted with `> `. `form="xml"`
        gives one `<feedback>` element with all content escaped.

        Raises:
            InvalidInput: `form` is neither.
        """
        if form == "xml":
            return _render_xml(self)
        if form != "text":
            raise InvalidInput(f"form is {form!r}; use 'text' or 'xml'")
        observations = ((seen.label, seen.value) for seen in self.observations)
        return feedback_text(self.provider_name, self.summary, observations, self.suggestions)


def _render_xml(feedback: Feedback) -> str:
    provider = xml_text(display_name(feedback.provider_name))
    lines = [f'<feedback provider="{provider}" severity="{xml_text(feedback.severity)}">']
    summary = "\n".join(quote_summary(feedback.summary))
    lines.append(f"  <summary>{xml_text(summary)}</summary>")
    lines += [
        f'  <observation label="{xml_text(quote_value(seen.label))}">{xml_text(quote_value(seen.value))}</observation>'
        for seen in feedback.observations
    ]
    lines += [f"  <suggestion>{xml_text(quote_value(suggestion))}</suggestion>" for suggestion in feedback.suggestions]
    return "\n".join([*lines, "</feedback>"])


class FeedbackTrigger(msgspec.Struct, frozen=True, omit_defaults=True):
    """The condition under which a provider runs. Conditions are OR'd; an empty trigger never fires.

    `file_created` fires once per evaluation, at the first tool call after a file of that name exists. The process that
    called `tb.prompt` checks for the file, since workers cannot see the files of its host. A relative name is relative
    to the working directory of that process.
    """

    every_n_calls: int | None = None
    every_n_seconds: float | None = None
    file_created: FileName | None = None

    def __post_init__(self) -> None:
        """Refuse conditions that would always or never hold."""
        calls: Any = self.every_n_calls
        seconds: Any = self.every_n_seconds
        file: Any = self.file_created
        # type() and not isinstance: True is an int, and would mean "at every call".
        if calls is not None and not (type(calls) is int and calls >= 1):
            raise InvalidInput(f"FeedbackTrigger.every_n_calls is {calls!r}; use a whole number of 1 or more")
        if seconds is not None and not (type(seconds) in (int, float) and 0 < seconds < math.inf):
            raise InvalidInput(f"FeedbackTrigger.every_n_seconds is {seconds!r}; use a number of seconds above 0")
        if file is not None and not (isinstance(file, str) and 0 < len(file) <= MAX_FILE_CHARS):
            raise InvalidInput(
                f"FeedbackTrigger.file_created is not a file name: use a text of 1 to {MAX_FILE_CHARS} characters"
            )


class ProviderSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The serialized form of a provider: its class name, fields and trigger. Never code."""

    name: Name
    trigger: FeedbackTrigger
    fields: dict[str, Any] = {}


class EvaluationBegun(Message, frozen=True, kw_only=True):
    """An evaluation began, or another process joined it; the first configuration counts.

    `deadline_in` is in seconds from the arrival of the entry, so the host's clock does not matter. `effects` has a
    letter for each of `tools`, in their order, as far as a host declares what they do: `r` reads, `w` writes, `-`
    unknown. It is left out where nothing is declared, so that earlier workers still read the message. `host` is where
    the agent runs, for listings of sessions.
    """

    family: ClassVar[Family] = Family.EVENTS

    session: SessionName
    evaluation: Name
    prompt: Name
    providers: list[ProviderSpec] = []
    delivery: DeliveryMode = "first"
    deadline_in: float | None = None
    tools: list[ToolName] = []
    question: str | None = None
    effects: ToolEffects | msgspec.UnsetType = msgspec.UNSET
    host: Name | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Limit the size of the configuration, which the evaluation's state carries."""
        if len(self.providers) > MAX_PROVIDERS:
            raise InvalidInput(f"{len(self.providers)} feedback providers; an evaluation has at most {MAX_PROVIDERS}")
        effects = self.effects or ""
        if len(effects) > len(self.tools):
            raise InvalidInput(f"effects has {len(effects)} letters for {len(self.tools)} tools; give each tool one")
        configuration = (self.providers, self.tools, self.question)
        size = len(msgspec.json.encode(configuration, enc_hook=plain_builtin)) + len(effects)
        if size > MAX_CONFIG_BYTES:
            raise InvalidInput(f"providers, tools and question have {size} bytes; together at most {MAX_CONFIG_BYTES}")

    @property
    def routing(self) -> str:
        """The session."""
        return self.session


class Offer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A suggestion that was offered, recorded to measure whether the agent followed it.

    `kind` says what it suggests: "refine", "alternative", "retry", "answer", ... `arguments` is the fingerprint
    `attempt_fingerprint(tool, arguments)` of the suggested call; None if any arguments will do.
    """

    kind: Annotated[str, Meta(max_length=MAX_KIND_CHARS)]
    tool: ToolName | None = None
    arguments: Annotated[str, Meta(max_length=MAX_KIND_CHARS)] | None = None


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The outcome of a tool call as its host classified it. `retry_after` is in seconds.

    `doubtful` means that the call timed out or a connection failed, and no service reported an outage: the target of
    this one call may be unavailable, not the tool.

    Requirement G-54.
    """

    status: CallStatus
    code: OutcomeCode
    retryable: bool = False
    retry_after: Annotated[float, Meta(ge=0, le=MAX_RETRY_AFTER)] | None = None
    offered: Annotated[tuple[Offer, ...], Meta(max_length=MAX_OFFERS)] = ()
    doubtful: bool = False


# Without its defaults, a fifth of a small call's bytes. No gc: many at once, and none is part of a cycle.
class ToolInvoked(Message, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A tool call completed, whatever its outcome: denied and failed calls count as calls.

    `outcome` is set if the host had the call observed.
    """

    family: ClassVar[Family] = Family.EVENTS

    session: SessionName
    evaluation: Name
    tool: ToolName
    prompt: Name = ""
    params: dict[str, Any] = {}
    status: Annotated[str, Meta(max_length=MAX_STATUS_CHARS)] = "success"
    result: str | None = None
    error: str | None = None
    duration_ms: int | None = None
    call_id: Name | None = None
    outcome: Outcome | None = None

    @property
    def routing(self) -> str:
        """The session."""
        return self.session


class BudgetSpent(Message, frozen=True, kw_only=True):
    """A host reports the tokens and cost that an evaluation used since the last report; reports add up exactly.

    `cost` is in the host's own currency, a decimal number as text.
    """

    family: ClassVar[Family] = Family.EVENTS

    session: SessionName
    evaluation: Name
    prompt: Name = ""
    tokens: int = 0
    cost: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        """Refuse amounts that cannot be summed exactly."""
        if not 0 <= self.tokens <= MAX_TOKENS:
            raise InvalidInput(f"tokens is {self.tokens}; use 0 to {MAX_TOKENS:,}")
        if not self.cost.is_finite() or not 0 <= self.cost <= MAX_COST:
            raise InvalidInput(f"cost is {self.cost}; use 0 to {MAX_COST:,}")
        exponent = self.cost.as_tuple().exponent
        if isinstance(exponent, int) and exponent < -COST_PLACES:
            raise InvalidInput(f"cost is {self.cost}; use at most {COST_PLACES} digits after the point")

    @property
    def routing(self) -> str:
        """The session."""
        return self.session


class ContextChanged(Message, frozen=True, kw_only=True):
    """Something changed that an agent may not have noticed: a file, a branch, its instructions.

    With `evaluation` the change is reported to that evaluation. Without it, to every evaluation of the session except
    `by`, the one that made the change.
    """

    family: ClassVar[Family] = Family.EVENTS

    session: SessionName
    kind: Annotated[str, Meta(min_length=1, max_length=MAX_KIND_CHARS)]
    name: Annotated[str, Meta(min_length=1, max_length=MAX_CHANGE_NAME_CHARS)]
    evaluation: Name = ""
    prompt: Name = ""
    detail: Annotated[str, Meta(max_length=MAX_CHANGE_DETAIL_CHARS)] | None = None
    by: Name = ""

    @property
    def routing(self) -> str:
        """The session."""
        return self.session


class FileSeen(Message, frozen=True, kw_only=True):
    """A file now exists on the agent's host for which a trigger of this evaluation waits."""

    family: ClassVar[Family] = Family.EVENTS

    session: SessionName
    evaluation: Name
    name: FileName
    prompt: Name = ""

    @property
    def routing(self) -> str:
        """The session."""
        return self.session


class ContextChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change as an evaluation stores it. `index` counts from 1; `at` is milliseconds since the epoch, server time."""

    index: int
    at: int
    kind: str
    name: str
    detail: str | None = None
    by: str = ""


class ToolCall(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="tool_call", omit_defaults=True, gc=False
):
    """A tool call in the history and in `recent_tool_calls`; long texts are truncated.

    `at` is milliseconds since the epoch, server time; `call_index` counts from 1 within the evaluation. `repeats` is
    how often this call was made with nothing new in between, itself included, and `stuck` the kind of finding that it
    gave the measure of progress, if any.
    """

    at: int
    tool: str
    call_index: int
    prompt: str = ""
    evaluation: str = ""
    params: dict[str, Any] = {}
    status: str = msgspec.field(default_factory=lambda: "success")  # of a function: each entry of a history has it
    result: str | None = None
    error: str | None = None
    duration_ms: int | None = None
    call_id: str | None = None
    outcome: Outcome | None = None
    repeats: int = 1
    stuck: str = ""
