"""Recalls through workers: a request goes through the intake, and its caller waits on a mailbox for the reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tellback import clock
from tellback.contracts.codec import encode
from tellback.contracts.signals import RecallReply, RecallRequested
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.intake import FIELD, IntakeEntry, Lease, committed
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.scripts import signals as scripts

MAX_WAITING: Final = 1_000
"""Requests in one stream above which a host adds none: no worker would answer it in time."""
_SLICE: Final = 4.0  # seconds of one blocking read, below the socket's timeout of 5 s


class Recalls:
    """The recalls of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def ask(self, request: RecallRequested) -> RecallReply | None:
        """Return the reply of a worker; None if none came within `request.deadline_in` seconds or too many wait.

        A request is not spooled while Redis is away, because nobody would want a later reply.

        Raises:
            Unavailable: Redis does not answer.
        """
        end = clock.monotonic() + request.deadline_in
        shard = self._layout.of(request.routing)
        stream = stream_of(shard, Family.RECALLS)
        if request.deadline_in <= 0 or self._db.command("XLEN", stream) >= MAX_WAITING:
            return None
        # race: hosts that ask at the same moment exceed the bound by one request each
        self._db.command("XADD", stream, "*", FIELD, encode(request))
        mailbox = _mailbox(shard, request.event_id)
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
