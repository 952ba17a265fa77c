"""Recalls through workers: a request goes through the intake, and its caller waits on a mailbox for the reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tellback import clock
from tellback.contracts.signals import RecallReply, RecallRequested
from tellback.state.database import Database
from tellback.state.intake_lease import IntakeEntry, Lease, committed
from tellback.state.keys import Layout, Shard
from tellback.state.scripts import signals as scripts

_SLICE: Final = 4.0  # seconds of one blocking read, below the socket's timeout of 5 s


class Recalls:
    """The recalls of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def wait_for_reply(self, request: RecallRequested, end: float) -> RecallReply | None:
        """Return the reply to a request that was appended; None if there is none by `end`, of `clock.monotonic`.

        Raises:
            Unavailable: Redis does not answer.
        """
        mailbox = _mailbox(self._layout.of(request.routing), request.event_id)
        while (left := end - clock.monotonic()) > 0:
            # race: nobody else reads this mailbox; a reply that is lost with its connection is one that did not come
            reply = self._db.command("BLPOP", mailbox, max(0.001, min(left, _SLICE)))
            if reply is not None:
                return msgspec.json.decode(reply[1], type=RecallReply)
        return None

    def answer(self, lease: Lease, entries: Sequence[IntakeEntry], replies: Mapping[str, RecallReply]) -> None:
        """Put replies, by event id, into their mailboxes and acknowledge the entries; one without a reply is dropped.

        Raises:
            Fenced: the lease has passed on; nothing was written.
        """
        call = scripts.answer_recalls(
            **lease.commit_of(entries),
            mailboxes=[_mailbox(lease.shard, event_id) for event_id in replies],
            replies=[msgspec.json.encode(reply) for reply in replies.values()],
        )
        committed(self._db.run(call))


def _mailbox(shard: Shard, event_id: str) -> str:
    return shard.key("reply", event_id)
