"""One call to a cluster: its commands, the node of each, and the replies that came so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from redis import exceptions

from tellback.state.script_calls import Command
from tellback.state.slots import slot_of_command

# A confirmation concerns the command before it: it goes to the same node, and again if that one is sent again.
CONFIRMATIONS: Final = frozenset({"WAIT", "WAITAOF"})

NodeAddress = tuple[str, int]

# Refusals that pass: a slot that moves, one that has no primary, and a primary that was demoted.
PASSING: Final = (exceptions.TryAgainError, exceptions.ClusterDownError, exceptions.ReadOnlyError)


def final_reply(reply: Any, asked: NodeAddress | None) -> Any:
    """Return a reply to a call that ends; a refusal is noted to be of the node that was asked last."""
    if isinstance(reply, exceptions.AskError):  # the nodes of a slot that moves may name each other until the end
        reply = exceptions.TryAgainError("the keys of the call are on two nodes")
    if asked is not None and isinstance(reply, (exceptions.BusyLoadingError, exceptions.ResponseError)):
        reply.add_note(f"{asked[0]}:{asked[1]}")
    return reply


class ClusterCall:
    """The commands of one call, their replies, and the indexes of those that still wait for one."""

    def __init__(self, commands: Sequence[Command], end: float, lost_retries: int) -> None:
        self.commands = commands
        self.slots: list[int | None] = []
        for command in commands:
            follows = self.slots and command[0] in CONFIRMATIONS
            self.slots.append(self.slots[-1] if follows else slot_of_command(command))
        self.replies: list[Any] = [None] * len(commands)
        self.waiting = list(range(len(commands)))
        self.asking: dict[int, NodeAddress] = {}
        self.asked: dict[int, NodeAddress] = {}  # the node that each was last sent to
        self.end = end
        self.lost_retries = lost_retries

    def packet(self, indexes: Iterable[int]) -> list[Command]:
        """Return the commands of these indexes, each one that was redirected by ASK after its ASKING."""
        return [part for at in indexes for part in ([("ASKING",)] if at in self.asking else []) + [self.commands[at]]]

    def store(self, indexes: Sequence[int], replies: Sequence[Any] | Exception) -> None:
        """Store the replies to a packet, or one error in place of all of them."""
        if isinstance(replies, Exception):
            replies = [replies] * len(self.packet(indexes))
        rest = iter(replies)
        for at in indexes:
            if at in self.asking:
                next(rest)
            self.replies[at] = next(rest)

    def lose(self, indexes: Sequence[int], error: Exception) -> None:
        """Store an error, but keep a refusal: it says more than that the repeat had no time left."""
        self.store([at for at in indexes if not _is_refusal(self.replies[at])], error)


def _is_refusal(reply: Any) -> bool:
    return isinstance(reply, (*PASSING, exceptions.AskError)) and not isinstance(reply, exceptions.MovedError)
