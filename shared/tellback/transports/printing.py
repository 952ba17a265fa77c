"""A transport that prints: for a first look, and the shortest example of one."""

from __future__ import annotations

import sys
from typing import TextIO

from tellback.client.outbox import OutboxDelivery
from tellback.contracts.turns import RoutingOutcome


class PrintTransport:
    """Writes each delivery as lines of text; what would move a terminal's cursor is shown escaped."""

    longest = 0.0
    """The longest time that one delivery takes, in seconds."""

    def __init__(self, out: TextIO | None = None) -> None:
        """Take where to write; by default standard output."""
        self._out = out

    def send(self, delivery: OutboxDelivery) -> RoutingOutcome:
        """Write one delivery."""
        response = delivery.response
        lines = [f"{delivery.channel} {delivery.conversation} {delivery.kind}: {response.text or ''}".rstrip()]
        lines += [f"  voice: {response.voice}"] if response.voice else []
        lines += [f"  attachment: {reference}" for reference in response.attachments]
        out = self._out or sys.stdout
        try:
            out.write("".join(f"{_plain(line)}\n" for line in lines))
            out.flush()
        except (OSError, ValueError) as error:  # ValueError: it is closed
            return RoutingOutcome(attempted=False, error=f"cannot write: {type(error).__name__}")
        return RoutingOutcome(
            attempted=True,
            sent_text=response.text is not None,
            sent_voice=response.voice is not None,
            sent_attachments=len(response.attachments),
        )


def _plain(line: str) -> str:
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in line
    )
