"""The agent host process that plays a part of one conversation: `python -m tellback.replay.host`.

It reads its `HostAssignment`, one line of JSON, from standard input. If it is to be killed, it announces on standard
output that it has reached that step, then waits without closing anything, so that its open turns stay owed.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from tellback.client.connection import connect
from tellback.contracts.limits import MAX_FIELD_BYTES
from tellback.contracts.turns import OutgoingResponse
from tellback.errors import TellbackError
from tellback.replay.accounts import PROMPT, observe_arguments
from tellback.replay.transcript import AgentAnswer, Conversation, MissingAnswer, Step, ToolResult, UserMessage
from tellback.settings import Settings
from tellback.state.turn_view import excerpt

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.client.turns import Turn

READY: Final = b"kill me\n"
# Steps are sent with their class name, since their fields alone don't tell the classes apart.
_KINDS: Final[dict[str, type[Step]]] = {
    kind.__name__: kind for kind in (UserMessage, ToolResult, AgentAnswer, MissingAnswer)
}


class HostAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of the conversation `name` that one host plays; with `fatal` it is killed after the last one."""

    settings: Settings
    channel: str
    name: str
    steps: list[tuple[str, dict[str, Any]]]
    answer_within: float
    fatal: bool

    @classmethod
    def create(
        cls, settings: Settings, channel: str, name: str, steps: list[Step], *, answer_within: float, fatal: bool
    ) -> Self:
        """Build an assignment that can be sent to a host's process."""
        plain = [(type(step).__name__, asdict(step)) for step in steps]
        return cls(settings=settings, channel=channel, name=name, steps=plain, answer_within=answer_within, fatal=fatal)

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Return the assignment of a line that `to_line` made."""
        return msgspec.convert(json.loads(line), cls)

    def to_line(self) -> bytes:
        """Return a line of JSON, in ASCII: arguments in a transcript may have halves of surrogate pairs."""
        return json.dumps(msgspec.to_builtins(self)).encode() + b"\n"

    def decoded_steps(self) -> list[Step]:
        """Return the steps as their own types again."""
        return [msgspec.convert(fields, _KINDS[kind]) for kind, fields in self.steps]


def conversation_name(run: str, conversation: Conversation) -> str:
    """Return the name of a conversation, on its channel and as a session."""
    return f"replay-{run}/{conversation.label}"


def play_steps(tb: Tellback, part: HostAssignment) -> None:
    """Play each step as an agent host would; a message without an answer is left to the sweep.

    Raises:
        Unavailable: Redis is unavailable.
    """
    prompt = tb.prompt(part.name, PROMPT)
    turns: dict[int, Turn] = {}
    for step in part.decoded_steps():
        match step:
            case UserMessage(position, text):
                turns[position] = tb.open_turn(
                    channel=part.channel,
                    conversation=part.name,
                    message_id=str(position),
                    text=text,
                    answer_within=part.answer_within,
                )
            case ToolResult():
                prompt.observe(step.tool, **observe_arguments(step), call_id=step.call_id)
            case AgentAnswer(position, text):
                turns.pop(position).respond(OutgoingResponse.text_only(excerpt(text, MAX_FIELD_BYTES)))
            # The turn is not closed, because here the sweep's fallback is what the user should get.
            case MissingAnswer():
                continue


def main() -> None:
    """Play the assignment from standard input."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(130)
    except TellbackError as error:
        sys.exit(f"tellback: {error}")


def _run() -> None:
    part = HostAssignment.from_line(sys.stdin.buffer.readline())
    with connect(settings=part.settings) as tb:
        play_steps(tb, part)
        if part.fatal:
            sys.stdout.buffer.write(READY)
            sys.stdout.buffer.flush()
            sys.stdin.buffer.read()  # blocks until the kill; ends as well if the parent process dies


if __name__ == "__main__":
    main()
