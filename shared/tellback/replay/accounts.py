"""The guidance that a conversation would have received, worked out in this process without Redis.

It runs the same observer as agent hosts and the same evaluation as workers. Transcripts have no times, so one tool
call takes one second here; triggers that count seconds then depend only on the number of calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypedDict

import msgspec

from tellback.client.guidance_events import build_tool_invoked
from tellback.contracts.guidance import EvaluationBegun, Feedback, OutcomeCode, ProviderSpec
from tellback.errors import TellbackError
from tellback.guidance.evaluation import ProviderInvoker, apply_event
from tellback.guidance.observations.evidence_builder import build_evidence
from tellback.guidance.observations.feedback import ToolFeedback
from tellback.guidance.observations.observer import ToolObserver
from tellback.guidance.observations.tools import ToolDeclaration, announced_effects, announced_names
from tellback.guidance.provider import (
    FeedbackContext,
    FeedbackProviderConfig,
    ProviderFailure,
    invoke_provider,
    provider_spec,
)
from tellback.guidance.registry import ProviderRegistry, recommended_providers
from tellback.guidance.state import BatchEffects, EvaluationState, new_evaluation
from tellback.replay.transcript import AgentAnswer, Conversation, ToolResult, UserMessage
from tellback.state.evaluation_codec import EvaluationId

# A fixed start and a label as seed make the analysis of a file the same each time.
EVALUATION_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
CALL_DURATION_MS: Final = 1_000
PROMPT: Final = "transcript"


@dataclass(frozen=True, slots=True)
class TranscriptText:
    """A text of the user or the agent; `position` is that of its message."""

    position: int
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class ObservedCall:
    """A tool call with the observation that the agent would have read, and the providers' feedback.

    `index` counts the conversation's calls from 1, `position` its messages from 0.
    """

    index: int
    position: int
    returned: ToolResult
    feedback: ToolFeedback
    provider_feedback: tuple[Feedback, ...]

    @property
    def code(self) -> OutcomeCode:
        """The outcome of the call."""
        assert self.feedback.envelope is not None  # every observer's feedback has one
        return self.feedback.envelope.code

    @property
    def failed(self) -> bool:
        """Return True if the call ended with an error."""
        return self.feedback.status == "error"


@dataclass(slots=True)
class GuidedConversation:
    """A conversation with its guidance, in order."""

    conversation: Conversation
    items: list[TranscriptText | ObservedCall] = field(default_factory=list[TranscriptText | ObservedCall])

    @property
    def tool_calls(self) -> list[ObservedCall]:
        """The tool calls, in order."""
        return [entry for entry in self.items if isinstance(entry, ObservedCall)]

    @property
    def feedback(self) -> list[Feedback]:
        """All feedback, in order."""
        return [nudge for call in self.tool_calls for nudge in call.provider_feedback]


class ObserveArguments(TypedDict):
    """The keyword arguments of `prompt.observe` that a transcript can supply."""

    params: Mapping[str, Any]
    result: str | None
    error: str | None
    status: str


class InProcessInvoker(ProviderInvoker):
    """Calls providers in this process; unlike in a worker, a provider that fails ends the analysis."""

    def __init__(self) -> None:
        self._registry = ProviderRegistry()

    def ask(self, spec: ProviderSpec, context: FeedbackContext) -> Feedback | None:
        """Call a provider and return its feedback.

        Raises:
            TellbackError: the provider is unknown, raised, or returned something other than feedback.
        """
        try:
            return invoke_provider(self._registry.build(spec), context)
        except ProviderFailure as failure:
            raise TellbackError(f"{spec.name}: {failure}") from failure


class GuidanceAnalyzer:
    """Works out the guidance of conversations with one set of providers, by default the recommended ones."""

    def __init__(self, providers: Iterable[FeedbackProviderConfig] | None = None) -> None:
        self.specs = [provider_spec(each) for each in (recommended_providers() if providers is None else providers)]
        self._invoker = InProcessInvoker()

    def analyze(self, conversation: Conversation, tools: Sequence[ToolDeclaration]) -> GuidedConversation:
        """Work out the guidance of a conversation whose agent had these tools."""
        player = _EvaluationReplay(conversation, tools, self.specs, self._invoker)
        account = GuidedConversation(conversation)
        for each in conversation.steps:
            match each:
                case UserMessage(position, text):
                    account.items.append(TranscriptText(position, "user", text))
                case AgentAnswer(_, text, position):
                    account.items.append(TranscriptText(position, "agent", text))
                case ToolResult():
                    account.items.append(player.observe_call(each))
                case _:
                    pass
        return account


class _EvaluationReplay:
    """One evaluation and its observer, fed call by call."""

    def __init__(
        self,
        conversation: Conversation,
        tools: Sequence[ToolDeclaration],
        specs: list[ProviderSpec],
        invoker: InProcessInvoker,
    ) -> None:
        label, question = conversation.label, conversation.question
        self._id = EvaluationId(label, PROMPT, label)
        self._observer = ToolObserver(tools=tools, question=question, seed=label)
        self._invoker = invoker
        self._now = round(EVALUATION_START.timestamp() * 1000)
        self._state: EvaluationState = new_evaluation(*self._id, self._now)
        names = announced_names(self._observer.tools)
        begun = EvaluationBegun(
            event_id="begun",
            session=label,
            evaluation=label,
            prompt=PROMPT,
            providers=specs,
            tools=names,
            effects=announced_effects(self._observer.tools, names) or msgspec.UNSET,
        )
        apply_event(self._state, begun, self._now, invoker, BatchEffects())

    def observe_call(self, returned: ToolResult) -> ObservedCall:
        self._now += CALL_DURATION_MS
        now = datetime.fromtimestamp(self._now / 1000, UTC)
        # The same path as in production: the host's observer first, then the worker's evaluation of its event.
        evidence = build_evidence(returned.tool, now=now, **observe_arguments(returned))
        seen = self._observer.observe_evidence(evidence)
        effects = BatchEffects()
        event = build_tool_invoked(self._id, seen, evidence, duration_ms=None, call_id=None)
        apply_event(self._state, event, self._now, self._invoker, effects)
        return ObservedCall(self._state.calls, returned.position, returned, seen, tuple(effects.feedback))


def observe_arguments(returned: ToolResult) -> ObserveArguments:
    """Return the arguments with which a host would have reported this result to `prompt.observe`."""
    failed = returned.status == "error"
    return {
        "params": returned.params,
        "result": None if failed else returned.result,
        "error": returned.result if failed else None,
        "status": returned.status,
    }
