"""The playing of one conversation through the client, with the calls that its host would have made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tellback import clock
from tellback.contracts.limits import MAX_FIELD_BYTES
from tellback.contracts.turns import OutgoingResponse
from tellback.errors import InvalidInput, StateConflict
from tellback.guidance.observations.tools import ToolDeclaration
from tellback.guidance.registry import recommended_providers
from tellback.replay.accounts import PROMPT, observe_arguments
from tellback.replay.transcript import (
    AgentAnswer,
    Conversation,
    MissingAnswer,
    ToolResult,
    TranscriptCounts,
    UserMessage,
)
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.turn_view import excerpt
from tellback.state.turns import Turns

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.client.guidance import Prompt
    from tellback.client.turns import Turn

CHANNEL: Final = "replay"
ANSWER_WITHIN: Final = 300.0  # seconds; far longer than a replay takes, or fallbacks would overtake answers
# Answers of one conversation that may wait for the transport. An outbox holds 1,000 deliveries of a conversation and
# drops one beyond that, which would count as a difference.
MAX_UNDELIVERED: Final = 250
MAX_UNDELIVERED_WAIT: Final = 10.0
UNDELIVERED_POLL: Final = 0.02


@dataclass(slots=True)
class PlayedConversation:
    """A played conversation: the counts in its file, and the ids under which Redis has its own counts."""

    line: int
    expected: TranscriptCounts
    evaluation: EvaluationId
    turns: list[str] = field(default_factory=list[str])
    failure: str | None = None


def play_conversation(
    tb: Tellback, conversation: Conversation, run: str, tools: Sequence[ToolDeclaration]
) -> PlayedConversation:
    """Play a conversation in order, as a session and an evaluation of its own.

    The agent has `tools` and the recommended providers, so workers give the same guidance as `GuidanceAnalyzer`. The
    name includes `run`, so that you can play a file again. If the client rejects a step, `failure` has the error.

    Raises:
        Unavailable: Redis is unavailable.
    """
    name = f"replay-{run}/{conversation.label}"
    prompt = tb.prompt(
        name,
        PROMPT,
        feedback_providers=recommended_providers(),
        tools=tools,
        question=conversation.question,
        evaluation=conversation.label,
    )
    played = PlayedConversation(conversation.line, conversation.counts, EvaluationId(name, PROMPT, prompt.evaluation))
    try:
        _play_steps(tb, conversation, prompt, played)
    except InvalidInput as refused:
        played.failure = str(refused)
    return played


def _play_steps(tb: Tellback, conversation: Conversation, prompt: Prompt, played: PlayedConversation) -> None:
    turns: dict[int, Turn] = {}
    answered: list[str] = []
    within = min(ANSWER_WITHIN, tb.context.settings.turn_limit)
    for step in conversation.steps:
        match step:
            case UserMessage(position, text):
                turn = tb.open_turn(
                    channel=CHANNEL,
                    conversation=prompt.session,
                    message_id=str(position),
                    text=text,
                    answer_within=within,
                )
                turns[position] = turn
                played.turns.append(turn.id)
            case ToolResult():
                prompt.observe(step.tool, **observe_arguments(step), call_id=step.call_id)
            case AgentAnswer(position, text):
                turn = turns.pop(position)
                turn.respond(OutgoingResponse.text_only(excerpt(text, MAX_FIELD_BYTES)))
                answered.append(turn.id)
                if len(answered) % MAX_UNDELIVERED == 0:
                    _limit_undelivered(tb, answered)
            case MissingAnswer(position, reason):
                _close_turn(turns.pop(position), reason)


def _limit_undelivered(tb: Tellback, answered: list[str]) -> None:
    """Wait until all but the last `MAX_UNDELIVERED` answers are delivered, or give up after a time.

    The comparison at the end reports a transport that doesn't deliver.
    """
    if len(answered) <= MAX_UNDELIVERED:
        return
    store, end = Turns(tb.context.database, tb.context.layout), clock.monotonic() + MAX_UNDELIVERED_WAIT
    while clock.monotonic() < end:
        turn = store.load([answered[-MAX_UNDELIVERED - 1]])[0]
        if turn is None or turn.delivery not in {"waiting", "sending"}:
            return
        clock.sleep(UNDELIVERED_POLL)


def _close_turn(turn: Turn, reason: str) -> None:
    try:
        turn.no_reply(reason=reason)
    except StateConflict:
        return  # the sweep has answered the turn already; the comparison of the counts shows that
