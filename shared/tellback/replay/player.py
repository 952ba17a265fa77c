"""One conversation through the client, as its host would have called it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tellback import clock
from tellback.contracts.message import MAX_FIELD_BYTES
from tellback.contracts.turns import OutgoingResponse
from tellback.errors import InvalidInput, StateConflict
from tellback.guidance.observations.tools import ToolDeclaration
from tellback.guidance.recommended import recommended_providers
from tellback.replay.accounts import PROMPT, reported
from tellback.replay.transcript import AgentAnswers, Conversation, Counts, NobodyAnswers, ToolReturned, UserSays
from tellback.state.evaluations import EvaluationId
from tellback.state.turn_answers import excerpt
from tellback.state.turns import Turns

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.client.guidance import Prompt
    from tellback.client.turns import Turn

CHANNEL: Final = "replay"
ANSWER_WITHIN: Final = 300.0  # seconds; far above what a replay takes, so that no fallback overtakes its answers
AHEAD: Final = 250  # answers of one conversation that the transport may be behind; its outbox holds 1,000
AHEAD_SECONDS: Final = 10.0
AHEAD_NAP: Final = 0.02


@dataclass(slots=True)
class Played:
    """What was played: the counts that the file gives, and where Redis holds its own."""

    line: int
    expected: Counts
    evaluation: EvaluationId
    turns: list[str] = field(default_factory=list[str])
    failure: str | None = None


def play(tb: Tellback, conversation: Conversation, run: str, tools: Sequence[ToolDeclaration] = ()) -> Played:
    """Play a conversation in the order of its messages; it is a session and a prompt evaluation of its own.

    Its agent has these tools and the recommended providers: workers give the guidance that `Analyst` works out.

    `run` stands in its name, so that the same file can be played again. What the client refuses is kept as `failure`.

    Raises:
        Unavailable: Redis is away.
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
    played = Played(conversation.line, conversation.counts, EvaluationId(name, PROMPT, prompt.evaluation))
    try:
        _play(tb, conversation, prompt, played)
    except InvalidInput as refused:
        played.failure = str(refused)
    return played


def _play(tb: Tellback, conversation: Conversation, prompt: Prompt, played: Played) -> None:
    turns: dict[int, Turn] = {}
    answered: list[str] = []
    within = min(ANSWER_WITHIN, tb.context.settings.turn_limit)
    for step in conversation.steps:
        match step:
            case UserSays(position, text):
                turn = tb.open_turn(
                    channel=CHANNEL,
                    conversation=prompt.session,
                    message_id=str(position),
                    text=text,
                    answer_within=within,
                )
                turns[position] = turn
                played.turns.append(turn.id)
            case ToolReturned():
                _tool(prompt, step)
            case AgentAnswers(position, text):
                turn = turns.pop(position)
                turn.respond(OutgoingResponse.text_only(excerpt(text, MAX_FIELD_BYTES)))
                answered.append(turn.id)
                if len(answered) % AHEAD == 0:
                    _let_transport_follow(tb, answered)
            case NobodyAnswers(position, reason):
                _close(turns.pop(position), reason)


def _let_transport_follow(tb: Tellback, answered: list[str]) -> None:
    """Wait until the answers before the last `AHEAD` are delivered; the tally tells of a transport that does not."""
    if len(answered) <= AHEAD:
        return
    store, end = Turns(tb.context.database, tb.context.layout), clock.monotonic() + AHEAD_SECONDS
    while clock.monotonic() < end:
        turn = store.load([answered[-AHEAD - 1]])[0]
        if turn is None or turn.delivery not in {"waiting", "sending"}:
            return
        clock.sleep(AHEAD_NAP)


def _tool(prompt: Prompt, step: ToolReturned) -> None:
    prompt.observe(step.tool, **reported(step), call_id=step.call_id)


def _close(turn: Turn, reason: str) -> None:
    try:
        turn.no_reply(reason=reason)
    except StateConflict:
        return  # the sweep was there first: the counts will tell
