"""The guidance loop: evaluations, tool calls, and the feedback that they earn.

Sources: feedback-providers, actionable-feedback.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from tellback.contracts.feedback_text import feedback_text, one_line, shown_name
from tellback.contracts.message import Message
from tellback.errors import InvalidInput
from tellback.names import Family

Severity = Literal["info", "caution", "warning"]
Delivery = Literal["first", "all"]
Form = Literal["text", "xml"]
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
MOST_TOKENS: Final = 10**12  # in one report
MOST_COST: Final = Decimal(10**9)  # in one report, of any currency
COST_PLACES: Final = 12  # digits after the point; what is finer is refused, so that every sum is exact
CHANGE_NAME_MAX: Final = 512
CHANGE_DETAIL_MAX: Final = 1_000
FILE_MAX: Final = 1_024

_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

SessionName = Annotated[str, Meta(min_length=1, max_length=512)]
Name = Annotated[str, Meta(max_length=256)]
FileName = Annotated[str, Meta(min_length=1, max_length=FILE_MAX)]
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

    def render(self, form: Form = "text") -> str:
        """What an agent reads. As text: `[Feedback - Deadline]`, a blank line, the summary, then lists.

        What a provider took from a tool's output cannot begin a section of its own: labels, values and suggestions
        are one line each, and a line of the summary that looks like a heading is quoted. `form="xml"` gives one
        `<feedback>` element, in which everything that was said is escaped.

        Raises:
            InvalidInput: `form` is neither.
        """
        if form == "xml":
            return _xml(self)
        if form != "text":
            raise InvalidInput(f"form is {form!r}; use 'text' or 'xml'")
        observations = ((seen.label, seen.value) for seen in self.observations)
        return feedback_text(self.provider_name, self.summary, observations, self.suggestions)


def _xml(feedback: Feedback) -> str:
    provider = _escaped(shown_name(feedback.provider_name))
    lines = [f'<feedback provider="{provider}" severity="{_escaped(feedback.severity)}">']
    lines.append(f"  <summary>{_escaped(feedback.summary)}</summary>")
    lines += [
        f'  <observation label="{_escaped(one_line(seen.label))}">{_escaped(seen.value)}</observation>'
        for seen in feedback.observations
    ]
    lines += [f"  <suggestion>{_escaped(suggestion)}</suggestion>" for suggestion in feedback.suggestions]
    return "\n".join([*lines, "</feedback>"])


def _escaped(text: str) -> str:
    """The text as the content of an element or attribute; characters that XML does not have become U+FFFD."""
    text = _NO_XML.sub("\ufffd", text)
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&apos;")):
        text = text.replace(sign, entity)
    return text


class FeedbackTrigger(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a provider runs: conditions are OR'd, and an empty trigger never fires.

    `file_created` fires once in an evaluation, with the first tool call at which a file of that name exists. The agent
    host looks, where `tb.prompt` was given the trigger: workers do not see its files. A relative name counts from the
    working directory of that process.
    """

    every_n_calls: int | None = None
    every_n_seconds: float | None = None
    file_created: FileName | None = None

    def __post_init__(self) -> None:
        """Refuse what would always fire, or could never."""
        calls: Any = self.every_n_calls
        seconds: Any = self.every_n_seconds
        file: Any = self.file_created
        if calls is not None and not (type(calls) is int and calls >= 1):
            raise InvalidInput(f"FeedbackTrigger.every_n_calls is {calls!r}; use a whole number of 1 or more")
        if seconds is not None and not (type(seconds) in (int, float) and 0 < seconds < math.inf):
            raise InvalidInput(f"FeedbackTrigger.every_n_seconds is {seconds!r}; use a number of seconds above 0")
        if file is not None and not (isinstance(file, str) and 0 < len(file) <= FILE_MAX):
            raise InvalidInput(
                f"FeedbackTrigger.file_created is no name of a file: a text of 1 to {FILE_MAX} characters"
            )


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

    `doubtful`: what was unavailable may have been this call's own target, and not the tool: it ran out of time, or a
    connection failed, and no service said that it is away.

    Source: actionable-feedback, "Design Principle".
    """

    status: Status
    code: Code
    retryable: bool = False
    retry_after: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] | None = None
    offered: Annotated[tuple[Offer, ...], Meta(max_length=MAX_OFFERS)] = ()
    doubtful: bool = False


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


class BudgetSpent(Message, frozen=True, kw_only=True):
    """A host tells what an evaluation has used since it told so last; reports add up, exactly.

    `cost` is in the host's own currency, a decimal number as text.
    """

    family: ClassVar[Family] = Family.EVENTS

    session: SessionName
    evaluation: Name
    prompt: Name = ""
    tokens: int = 0
    cost: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        """Refuse what cannot be added up."""
        if not 0 <= self.tokens <= MOST_TOKENS:
            raise InvalidInput(f"tokens is {self.tokens}; use 0 to {MOST_TOKENS:,}")
        if not self.cost.is_finite() or not 0 <= self.cost <= MOST_COST:
            raise InvalidInput(f"cost is {self.cost}; use 0 to {MOST_COST:,}")
        exponent = self.cost.as_tuple().exponent
        if isinstance(exponent, int) and exponent < -COST_PLACES:
            raise InvalidInput(f"cost is {self.cost}; use at most {COST_PLACES} digits after the point")

    @property
    def routing(self) -> str:
        """The session."""
        return self.session


class ContextChanged(Message, frozen=True, kw_only=True):
    """Something changed that an agent may not have noticed: a file, a branch, its instructions.

    With an `evaluation` it is told to that one, without to every evaluation of the session but the one that `by` names:
    whoever made the change.
    """

    family: ClassVar[Family] = Family.EVENTS

    session: SessionName
    kind: Annotated[str, Meta(min_length=1, max_length=64)]
    name: Annotated[str, Meta(min_length=1, max_length=CHANGE_NAME_MAX)]
    evaluation: Name = ""
    prompt: Name = ""
    detail: Annotated[str, Meta(max_length=CHANGE_DETAIL_MAX)] | None = None
    by: Name = ""

    @property
    def routing(self) -> str:
        """The session."""
        return self.session


class FileSeen(Message, frozen=True, kw_only=True):
    """A file that a trigger of this evaluation waits for exists on the agent's host."""

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
    """A change as an evaluation knows it. `index` counts them from 1; `at` is milliseconds, server time."""

    index: int
    at: int
    kind: str
    name: str
    detail: str | None = None
    by: str = ""


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
