"""Requests of a recall and the mailboxes of their replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tellback import clock
from tellback.contracts.codec import encode
from tellback.contracts.signals import RecallReply, RecallRequested
from tellback.names import Family
from tellback.state.database import Arg, Database
from tellback.state.intake import FIELD, Entry, Lease, committed
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.script import Script

WAITING_MAX: Final = 1_000
"""Requests of one stream above which a host does not add its own: nobody would answer in time."""
_SLICE: Final = 4.0  # seconds of one blocking read, below the socket's timeout

_answer = Script("answer_recalls")


class Recalls:
    """The recalls of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team's shards."""
        self._db = database
        self._layout = layout

    def ask(self, request: RecallRequested) -> RecallReply | None:
        """The reply of a worker; None when none came within `request.deadline_in` seconds, or too many wait.

        A request is not spooled while Redis is away: later nobody would want its reply.

        Raises:
            Unavailable: Redis does not answer.
        """
        end = clock.monotonic() + request.deadline_in
        shard = self._layout.of(request.routing)
        stream = stream_of(shard, Family.RECALLS)
        if request.deadline_in <= 0 or self._db.command("XLEN", stream) >= WAITING_MAX:
            return None
        self._db.command("XADD", stream, "*", FIELD, encode(request))
        mailbox = _mailbox(shard, request.event_id)
        while (left := end - clock.monotonic()) > 0:
            reply = self._db.command("BLPOP", mailbox, max(0.001, min(left, _SLICE)))
            if reply is not None:
                return msgspec.json.decode(reply[1], type=RecallReply)
        return None

    def answer(self, lease: Lease, entries: Sequence[Entry], replies: Mapping[str, RecallReply]) -> None:
        """Put replies, by event id, into their mailboxes and acknowledge the entries; one without a reply is dropped.

        Raises:
            Fenced: the lease has passed on; nothing was written.
        """
        keys = [*lease.keys, *(_mailbox(lease.shard, event_id) for event_id in replies)]
        args: list[Arg] = [*lease.args(entries), *(msgspec.json.encode(reply) for reply in replies.values())]
        committed(self._db.run(_answer.call(keys, args)))


def _mailbox(shard: Shard, event_id: str) -> str:
    return shard.key("reply", event_id)
