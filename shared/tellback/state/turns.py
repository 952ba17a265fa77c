"""The store of turns: each is an answer owed to a user by a deadline.

Every change of a turn is one script on the shard of its conversation, which also stores the delivery and the history
entry. If Redis lost a turn in a failover, the scripts that answer it recreate it from what its host knows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import msgspec

from tellback.contracts.turns import AnswerResult, OutgoingResponse, TurnState
from tellback.errors import InvalidInput, NotFound, StateConflict, Unavailable
from tellback.names import turn_routing
from tellback.state import turn_sweeps
from tellback.state.database import Database
from tellback.state.decisions import decide, decide_on_host, on_host
from tellback.state.intake_lease import IntakeEntry, Lease, committed
from tellback.state.keys import FAMILIES, Layout, Shard
from tellback.state.limits import SUSPENDED, TOO_MANY_OPEN
from tellback.state.outbox import OutboxQueue, evict
from tellback.state.readable import read_each, readable, remove_strays, reply_of
from tellback.state.script_calls import ScriptCall
from tellback.state.scripts import common
from tellback.state.scripts import turns as scripts
from tellback.state.steady import GAP_MS, skews
from tellback.state.turn_view import (
    LostTurnOrigin,
    RoutingReport,
    TurnAnswer,
    TurnRef,
    TurnView,
    excerpt,
    origin_args,
    view_of,
)

MAX_MERGED: Final = 100
MAX_HANDED_OVER: Final = FAMILIES["handover"].cap or 0  # a host that never reads its list must not grow it


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A message that a user sent. Times are milliseconds; `text` is redacted and truncated."""

    ref: TurnRef
    message_id: str
    text: str
    language: str
    deadline_ms: int
    limit_ms: int
    auto: bool
    host: str
    trace: str = ""


class OpenedTurn(msgspec.Struct, frozen=True):
    """The turn that `open` found or created; `new` is False if the message already had one."""

    new: bool
    state: TurnState
    session: str
    language: str
    opened_at: int


def turn_id(layout: Layout, channel: str, conversation: str, message_id: str) -> str:
    """Return the id of a message's turn, which names its shard and is the same for the same message.

    Message ids are unique only within a conversation, so the hash covers all three parts.
    """
    name = f"{turn_routing(channel, conversation)}\0{message_id}"
    digest = hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
    return f"t{layout.of_turn(channel, conversation).index}-{digest}"


class Turns:
    """The turns of one team. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, layout: Layout, *, on_host: bool = False) -> None:
        """Set up the store; with `on_host`, a key of another type is an outage, and not a reason for a dead letter."""
        self._db = database
        self._layout = layout
        self._decide = decide_on_host if on_host else decide

    def shard(self, turn: str) -> Shard:
        """Return the shard that a turn's id names.

        Raises:
            InvalidInput: this is not the id of a turn of this team.
        """
        if not self.is_turn_id(turn):
            raise InvalidInput(f"turn {turn!r}: not the id of a turn")
        return self._layout.shard(int(turn[1:].partition("-")[0]))

    def is_turn_id(self, turn: str) -> bool:
        """Check whether this can be the id of a turn of this team."""
        shard = turn_sweeps.shard_of_turn(turn)
        return shard is not None and shard < self._layout.shards

    def open(self, turn: NewTurn) -> OpenedTurn:
        """Open a turn, or return the one that this message opened before.

        Raises:
            Unavailable: an operator has suspended the team or limited its open turns, or Redis does not answer.
        """
        ref, shard = turn.ref, self.shard(turn.ref.id)
        decision = scripts.open_turn(
            **ref.keys(shard),
            turn_id=ref.id,
            channel=ref.channel,
            conversation=ref.conversation,
            message_id=turn.message_id,
            session=ref.session,
            language=turn.language,
            text=turn.text,
            excerpt=excerpt(turn.text),
            within_ms=turn.deadline_ms,
            limit_ms=turn.limit_ms,
            auto=turn.auto,
            host=turn.host,
            trace=turn.trace,
        )
        reply = self._decide(self._db, shard, decision)
        if "refused" in reply:
            most = reply["refused"]
            text = SUSPENDED if most == "suspended" else TOO_MANY_OPEN
            raise Unavailable(text.format(team=shard.team, most=most))
        return msgspec.convert(reply, OpenedTurn)

    def answer(self, ref: TurnRef, given: TurnAnswer, origin: LostTurnOrigin) -> AnswerResult:
        """Answer a turn; one that Redis lost is first recreated from its origin.

        Raises:
            NotFound: the turn is older than seven days.
        """
        shard = self.shard(ref.id)
        reply = self._decide(self._db, shard, scripts.answer_turn(**ref.keys(shard), **given.args, **origin.args(ref)))
        evict(self._db, _queue_of(ref, shard), reply.get("surplus"))
        return cast("AnswerResult", _checked_state(ref, reply["result"]))

    def mark_finishing(self, ref: TurnRef, grace_ms: int, origin: LostTurnOrigin | None = None) -> TurnState:
        """Mark that an answer is about to enter the intake; no fallback is sent during the grace.

        A turn that Redis lost is first recreated from its origin.

        Raises:
            NotFound: there is no such turn, or it has expired.
        """
        shard = self.shard(ref.id)
        decision = scripts.mark_finishing(**ref.keys(shard), grace_ms=grace_ms, **origin_args(ref, origin))
        reply = self._decide(self._db, shard, decision)
        return cast("TurnState", _checked_state(ref, reply["state"]))

    def progress(self, ref: TurnRef) -> int:
        """Extend the deadline up to the hard limit; return the milliseconds left, 0 if the turn is not open.

        Raises:
            NotFound: there is no such turn, or it has expired.
        """
        shard = self.shard(ref.id)
        reply = self._decide(self._db, shard, scripts.progress_turn(**ref.keys(shard)))
        _checked_state(ref, reply["state"])
        return int(reply["left"])

    def defer(self, ref: TurnRef, ms: int) -> int:
        """Set a new deadline, at most the hard limit; return the milliseconds left, 0 if the turn is not open.

        Raises:
            NotFound: there is no such turn, or it has expired.
        """
        shard = self.shard(ref.id)
        reply = self._decide(self._db, shard, scripts.defer_turn(**ref.keys(shard), ms=ms))
        _checked_state(ref, reply["state"])
        return int(reply["left"])

    def hand_over(self, ref: TurnRef, host: str) -> tuple[bool, TurnState]:
        """Hand an open turn over to another host; return True if that host has it now, and the turn's state.

        Raises:
            NotFound: there is no such turn, or it has expired.
        """
        shard = self.shard(ref.id)
        handover = shard.key("handover", host)
        decision = scripts.hand_over_turn(**ref.keys(shard), handover=handover, host=host, limit=MAX_HANDED_OVER)
        reply = self._decide(self._db, shard, decision)
        return bool(reply["handed_over"]), cast("TurnState", _checked_state(ref, reply["state"]))

    def merge(self, turns: Sequence[TurnRef], into: TurnRef) -> None:
        """Merge open turns of a conversation into one: all of them, or none.

        Raises:
            NotFound: one of them does not exist or has expired.
            StateConflict: one of them is not open.
        """
        shard = self.shard(into.id)
        decision = scripts.merge_turns(
            **into.keys(shard),
            turn_id=into.id,
            covered_turns=[shard.key("turn", turn.id) for turn in turns],
            covered_hists=[shard.key("hist", turn.session) for turn in turns],
            covered_ids=[turn.id for turn in turns],
        )
        reply = self._decide(self._db, shard, decision)
        if reply["result"] == "not_found":
            raise NotFound(f"turn {reply['turn']}: no such turn; turns are kept for seven days; nothing was merged")
        if reply["result"] == "refused":
            where = f" into {reply['into']}" if reply.get("into") else ""
            raise StateConflict(f"turn {reply['turn']} is {reply['state']}{where}, not open: nothing was merged")

    def handed_over_to(self, host: str, limit: int) -> list[TurnView]:
        """Return open turns that were handed over to this host and that it still owes, oldest handover first."""
        indexes = [shard.key("handover", host) for shard in self._layout.all]
        known = set[str]()
        # Closed turns hide open ones behind the limit: remove them and read again until no removal helps.
        while True:
            replies = self._db.pipeline([("ZRANGE", index, 0, limit - 1) for index in indexes])
            ids = [turn for at, reply in zip(indexes, replies, strict=True) for turn in self._turns_among(at, reply)]
            found = [turn for turn in self._readable(ids) if turn.is_open and turn.host == host]
            past = set(ids) - {turn.id for turn in found}
            strays = sum(map(len, replies)) - len(ids)
            if past <= known and not strays:  # ids that stay after their removal are unreadable turns
                waiting = [turn for turn in found if turn.state == "open"]
                return sorted(waiting, key=lambda turn: turn.handed_at or 0)[:limit]
            self._db.run_all([self._drop_handover_call(turn, host) for turn in sorted(past)])
            known = past

    def _turns_among(self, index: str, members: Sequence[bytes]) -> list[str]:
        """Return the members of an index that can be turns, and remove the others from it."""
        names = {member: member.decode(errors="replace") for member in members}
        remove_strays(self._db, index, [member for member, name in names.items() if not self.is_turn_id(name)])
        return [name for name in names.values() if self.is_turn_id(name)]

    def _drop_handover_call(self, turn: str, host: str) -> ScriptCall:
        shard = self.shard(turn)
        keys = shard.key("handover", host), shard.key("turn", turn)
        return scripts.drop_handover(handover=keys[0], turn=keys[1], turn_id=turn, host=host)

    def close(self, ref: TurnRef, reason: str) -> tuple[bool, TurnState]:
        """Close a turn without a reply; return True if it is closed that way now, and its state.

        Raises:
            NotFound: there is no such turn, or it has expired.
        """
        shard = self.shard(ref.id)
        reply = self._decide(self._db, shard, scripts.close_turn(**ref.keys(shard), reason=excerpt(reason)))
        return bool(reply["closed"]), cast("TurnState", _checked_state(ref, reply["state"]))

    def apply_finished(
        self,
        lease: Lease,
        entry: IntakeEntry,
        ref: TurnRef,
        given: TurnAnswer,
        *,
        routed: RoutingReport | None = None,
        origin: LostTurnOrigin | None = None,
    ) -> bool:
        """Apply the answer of an intake entry and acknowledge it; return False, with nothing done, if there is no turn.

        `routed` goes into the history. A turn that Redis lost is first recreated from its origin.

        Raises:
            Fenced: the lease has passed on.
        """
        story = b"" if routed is None else msgspec.json.encode(routed)

        call = scripts.finish_turn(
            **lease.commit_of([entry]),
            **ref.keys(lease.shard),
            **given.args,
            **origin_args(ref, origin),
            routed=story,
        )
        reply = self._db.run(call)
        surplus = _surplus_in(reply)
        evict(self._db, _queue_of(ref, lease.shard), surplus)
        return surplus is not None or committed(reply)

    def overdue(self, limit: int, gap_ms: int = GAP_MS) -> list[str]:
        """Return ids of turns whose deadline has passed, longest overdue first, at most `limit`."""
        return turn_sweeps.overdue(self._db, self._layout, limit, gap_ms)

    def fall_back(self, answers: Sequence[tuple[TurnRef, OutgoingResponse]]) -> list[bool | Exception]:
        """Send its fallback to each turn that is still overdue and open.

        Returns True for each turn that got one, or its error: one failing turn does not stop the others.
        """
        replies = self._db.run_each([self._fallback_call(ref, response) for ref, response in answers])
        written: list[bool | Exception] = []
        for (ref, _), reply in zip(answers, replies, strict=True):
            surplus = _surplus_in(reply)
            evict(self._db, _queue_of(ref, self.shard(ref.id)), surplus)
            written.append(reply if isinstance(reply, Exception) else surplus is not None or reply == b"fallback")
        return written

    def _fallback_call(self, ref: TurnRef, response: OutgoingResponse) -> ScriptCall:
        answer = msgspec.json.encode(response)
        return scripts.fallback_turn(**ref.keys(self.shard(ref.id)), turn_id=ref.id, response=answer)

    def drop_due(self, turns: Iterable[str]) -> None:
        """Remove ids from the due set whose turn has expired."""
        places = [(turn, self.shard(turn)) for turn in turns]
        drops = [common.drop_missing(index=at.key("due"), key=at.key("turn", turn), member=turn) for turn, at in places]
        self._db.run_all(drops)

    def postpone(self, turn: str, ms: int) -> None:
        """Hide a turn from the sweep for `ms`; its deadline stays."""
        self._db.run(common.postpone(index=self.shard(turn).key("due"), member=turn, ms=ms))

    def load(self, turns: Sequence[str], *, text: bool = False) -> list[TurnView | None]:
        """Load turns; None for one that does not exist. Their texts, up to 64 KB each, are read only with `text`."""
        names = [name for name in TurnView.__struct_fields__ if text or name != "text"]
        return [_view(names, stored) for stored in self._stored(turns, names)]

    def load_one(self, turn: str) -> TurnView:
        """Load a turn for a host; raise `NotFound` if there is none, `Unavailable` also if its key has another type."""
        [found] = on_host(lambda: self.load([turn]))
        if found is None:
            raise no_turn(turn)
        return found

    def _stored(self, turns: Sequence[str], names: Sequence[str]) -> list[tuple[list[bytes | None] | Exception, int]]:
        """Return these fields of each turn, and how far the server's clock is ahead of its shard's steady one."""
        shards = [self.shard(turn) for turn in turns]
        places = zip(shards, turns, strict=True)
        replies = read_each(self._db, [("HMGET", shard.key("turn", turn), *names) for shard, turn in places])
        some = sorted(set(shards), key=lambda shard: shard.index)
        ahead = dict(zip(some, skews(self._db, some), strict=True))
        return [(values, ahead[shard]) for shard, values in zip(shards, replies, strict=True)]

    def newest(self, limit: int) -> list[TurnView]:
        """Return the turns opened last, oldest first."""
        found = self._listed([("ZRANGE", shard.key("turns"), -limit, -1) for shard in self._layout.all])
        return sorted(found, key=lambda turn: turn.opened_at)[-limit:]

    def open_now(self, limit: int) -> list[TurnView]:
        """Return open turns, the nearest deadline first."""
        found = self._listed([("ZRANGE", shard.key("due"), 0, limit - 1) for shard in self._layout.all])
        return sorted((turn for turn in found if turn.is_open), key=lambda turn: turn.deadline or 0)[:limit]

    def _listed(self, commands: list[tuple[str, str, int, int]]) -> list[TurnView]:
        ids = [turn.decode(errors="replace") for reply in self._db.pipeline(commands) for turn in reply]
        return self._readable([turn for turn in ids if self.is_turn_id(turn)])

    def _readable(self, turns: Sequence[str]) -> list[TurnView]:
        """Load those of these turns that exist, without unreadable ones, which a newer release may have written."""
        names = [name for name in TurnView.__struct_fields__ if name != "text"]
        found = readable("turn", self._stored(turns, names), partial(_view, names))
        return [turn for turn in found if turn is not None]


def _queue_of(ref: TurnRef, shard: Shard) -> OutboxQueue:
    return OutboxQueue(shard, ref.channel, ref.conversation)


def _surplus_in(reply: Any) -> Any:
    """Return the delivery to evict that a script names in place of its result, or None."""
    return msgspec.json.decode(reply) if isinstance(reply, bytes) and reply.startswith(b"{") else None


def _view(names: Sequence[str], stored: tuple[list[bytes | None] | Exception, int]) -> TurnView | None:
    values, ahead = stored
    return view_of(names, (reply_of(values), ahead))


def _checked_state(ref: TurnRef, state: str) -> str:
    if state == "not_found":
        raise no_turn(ref.id)
    return state


def no_turn(turn: str) -> NotFound:
    """Return the error for a turn that does not exist, or does not any more."""
    return NotFound(f"turn {turn}: no such turn; turns are kept for seven days")
