"""An agent host in a process of its own that plays a part of one conversation: `python -m tellback.replay.host`.

It reads one line of JSON, its `Part`, from standard input. Where it is to be killed it says so on standard output and
waits for it, in the middle of its work: what it has done is done, and what it owes stays owed.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from tellback.client.connection import connect
from tellback.contracts.message import MAX_FIELD_BYTES
from tellback.contracts.turns import OutgoingResponse
from tellback.errors import TellbackError
from tellback.replay.accounts import PROMPT, reported
from tellback.replay.transcript import AgentAnswers, Conversation, NobodyAnswers, Step, ToolReturned, UserSays
from tellback.settings import Settings
from tellback.state.turn_answers import excerpt

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.client.turns import Turn

READY: Final = b"kill me\n"
_KINDS: Final[dict[str, type[Step]]] = {
    kind.__name__: kind for kind in (UserSays, ToolReturned, AgentAnswers, NobodyAnswers)
}


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that one host plays, of `name`, on `channel`; `fatal`: the last of them is the last it ever does."""

    settings: Settings
    channel: str
    name: str
    steps: list[tuple[str, dict[str, Any]]]
    answer_within: float
    fatal: bool

    @classmethod
    def of(
        cls, settings: Settings, channel: str, name: str, steps: list[Step], *, answer_within: float, fatal: bool
    ) -> Self:
        """The part as it goes to the host's process."""
        plain = [(type(step).__name__, asdict(step)) for step in steps]
        return cls(settings=settings, channel=channel, name=name, steps=plain, answer_within=answer_within, fatal=fatal)

    def played(self) -> list[Step]:
        """The steps as they were."""
        return [msgspec.convert(fields, _KINDS[kind]) for kind, fields in self.steps]


def name_of(run: str, conversation: Conversation) -> str:
    """A conversation's name on its channel, and its session."""
    return f"replay-{run}/{conversation.label}"


def play(tb: Tellback, part: Part) -> None:
    """Take each step as an agent host does; what the transcript leaves unanswered this host forgets, too.

    Raises:
        Unavailable: Redis is away.
    """
    prompt = tb.prompt(part.name, PROMPT)
    turns: dict[int, Turn] = {}
    for step in part.played():
        match step:
            case UserSays(position, text):
                turns[position] = tb.open_turn(
                    channel=part.channel,
                    conversation=part.name,
                    message_id=str(position),
                    text=text,
                    answer_within=part.answer_within,
                )
            case ToolReturned():
                prompt.observe(step.tool, **reported(step), call_id=step.call_id)
            case AgentAnswers(position, text):
                turns.pop(position).respond(OutgoingResponse.text_only(excerpt(text, MAX_FIELD_BYTES)))
            case NobodyAnswers():
                continue


def main() -> None:
    """Play the part that standard input holds."""
    try:
        _main()
    except KeyboardInterrupt:
        sys.exit(130)
    except TellbackError as error:
        sys.exit(f"tellback: {error}")


def _main() -> None:
    part = msgspec.json.decode(sys.stdin.buffer.readline(), type=Part)
    with connect(settings=part.settings) as tb:
        play(tb, part)
        if part.fatal:
            sys.stdout.buffer.write(READY)
            sys.stdout.buffer.flush()
            sys.stdin.buffer.read()  # until it is killed, or who started it is gone


if __name__ == "__main__":
    main()
