"""The guidance that a conversation would have been given, worked out in this process, without Redis.

The observer and the evaluation are those of agent hosts and workers; one tool call takes one second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypedDict

from tellback.client.observing import invocation
from tellback.contracts.guidance import Code, EvaluationBegun, Feedback, ProviderSpec
from tellback.errors import TellbackError
from tellback.guidance.context import FeedbackContext
from tellback.guidance.evaluation import Effects, EvaluationState, begin, step
from tellback.guidance.observations.feedback import ToolFeedback
from tellback.guidance.observations.gathering import evidence_of
from tellback.guidance.observations.observer import Observer
from tellback.guidance.observations.tools import ToolDeclaration, announced
from tellback.guidance.provider import FeedbackProviderConfig, ProviderFailure, ask, spec_of
from tellback.guidance.recommended import recommended_providers
from tellback.guidance.registry import Registry
from tellback.replay.transcript import AgentAnswers, Conversation, ToolReturned, UserSays
from tellback.state.evaluations import EvaluationId

BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)
CALL_MS: Final = 1_000
PROMPT: Final = "transcript"


@dataclass(frozen=True, slots=True)
class Said:
    """What the user or the agent wrote; `position` is the user's message that it is or answers."""

    position: int
    who: str
    text: str


@dataclass(frozen=True, slots=True)
class Observed:
    """A tool call: what the agent would have read in its result's place, and the feedback that came with it.

    `index` counts the conversation's calls from 1, `position` its messages from 0.
    """

    index: int
    position: int
    step: ToolReturned
    seen: ToolFeedback
    nudges: tuple[Feedback, ...]

    @property
    def code(self) -> Code:
        """What the call came to."""
        assert self.seen.envelope is not None  # every observer's feedback has one
        return self.seen.envelope.code

    @property
    def failed(self) -> bool:
        """Whether it came to an error."""
        return self.seen.status == "error"


@dataclass(slots=True)
class Account:
    """A conversation with its guidance, in the order in which it went."""

    conversation: Conversation
    entries: list[Said | Observed] = field(default_factory=list[Said | Observed])

    @property
    def calls(self) -> list[Observed]:
        """Its tool calls."""
        return [entry for entry in self.entries if isinstance(entry, Observed)]

    @property
    def nudges(self) -> list[Feedback]:
        """All feedback, in order."""
        return [nudge for call in self.calls for nudge in call.nudges]


class Reported(TypedDict):
    """The keywords of `prompt.observe` that a transcript can fill."""

    params: Mapping[str, Any]
    result: str | None
    error: str | None
    status: str


class Panel:
    """Asks providers in this process, as a worker does; a provider that fails ends the analysis."""

    def __init__(self, registry: Registry | None = None) -> None:
        """Take the providers that are known; the built-in ones by default."""
        self._registry = registry or Registry()

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        """Its feedback.

        Raises:
            BrokenProvider: it is not known here, raised, or gave what is no feedback.
        """
        try:
            return ask(self._registry.build(spec), context)
        except ProviderFailure as failure:
            raise BrokenProvider(f"{spec.name}: {failure}") from failure


class BrokenProvider(TellbackError):
    """A provider failed; the message says which and why."""


class Analyst:
    """Works out accounts, with one set of providers."""

    def __init__(self, providers: Iterable[FeedbackProviderConfig] | None = None, panel: Panel | None = None) -> None:
        """Take the providers; the recommended ones by default."""
        self.specs = [spec_of(each) for each in (recommended_providers() if providers is None else providers)]
        self._panel = panel or Panel()

    def account(self, conversation: Conversation, tools: Sequence[ToolDeclaration]) -> Account:
        """The guidance of a conversation whose agent had these tools."""
        player = _Player(conversation, tools, self.specs, self._panel)
        account = Account(conversation)
        for each in conversation.steps:
            match each:
                case UserSays(position, text):
                    account.entries.append(Said(position, "user", text))
                case AgentAnswers(position, text):
                    account.entries.append(Said(position, "agent", text))
                case ToolReturned():
                    account.entries.append(player.call(each))
                case _:
                    pass
        return account


class _Player:
    """One evaluation and its observer."""

    def __init__(
        self, conversation: Conversation, tools: Sequence[ToolDeclaration], specs: list[ProviderSpec], panel: Panel
    ) -> None:
        label, question = conversation.label, conversation.question
        self._id = EvaluationId(label, PROMPT, label)
        self._observer = Observer(tools=tools, question=question, seed=label)
        self._panel = panel
        self._now = round(BEGAN.timestamp() * 1000)
        self._state: EvaluationState = begin(*self._id, self._now)
        begun = EvaluationBegun(
            event_id="begun",
            session=label,
            evaluation=label,
            prompt=PROMPT,
            providers=specs,
            tools=announced(self._observer.tools),
        )
        step(self._state, begun, self._now, panel, Effects())

    def call(self, returned: ToolReturned) -> Observed:
        self._now += CALL_MS
        now = datetime.fromtimestamp(self._now / 1000, UTC)
        evidence = evidence_of(returned.tool, now=now, **reported(returned))
        seen = self._observer.see(evidence)
        effects = Effects()
        event = invocation(self._id, seen, evidence, duration_ms=None, call_id=None)
        step(self._state, event, self._now, self._panel, effects)
        return Observed(self._state.calls, returned.position, returned, seen, tuple(effects.feedback))


def reported(returned: ToolReturned) -> Reported:
    """A tool's result as its host would have reported it to `prompt.observe`."""
    failed = returned.status == "error"
    return {
        "params": returned.params,
        "result": None if failed else returned.result,
        "error": returned.result if failed else None,
        "status": returned.status,
    }
