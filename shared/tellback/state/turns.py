"""The store of turns: what a user is owed, and until when."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import msgspec

from tellback.contracts.turns import Answered, OutgoingResponse, TurnState
from tellback.errors import InvalidInput, NotFound, StateConflict
from tellback.names import turn_routing
from tellback.state import due
from tellback.state.database import Arg, Database
from tellback.state.decision import Decision
from tellback.state.intake import Entry, Lease, committed
from tellback.state.keys import Layout, Shard
from tellback.state.room import NOTHING, InTheWay, in_the_way, with_room
from tellback.state.script import Call, Script
from tellback.state.turn_answers import Answer, Routed, excerpt

MAX_MERGED: Final = 100
MAX_HANDED: Final = 10_000  # of one host in one shard

_open = Decision("open_turn")
_answer = Decision("answer_turn")
_mark_finishing = Decision("mark_finishing")
_progress = Decision("progress_turn")
_close = Decision("close_turn")
_defer = Decision("defer_turn")
_hand_over = Decision("hand_over_turn")
_merge = Decision("merge_turns")
_forget_handed = Script("forget_handed")
_forget_due = Script("forget_due_turn")
_finish = Script("finish_turn")
_fallback = Script("fallback_turn")


@dataclass(frozen=True, slots=True)
class TurnRef:
    """Where a turn stands: all that its scripts need to find their keys."""

    id: str
    channel: str
    conversation: str
    session: str

    def keys(self, shard: Shard) -> list[str]:
        """The seven keys of `lua/lib/turn.lua`, in its order."""
        return [
            shard.key("turn", self.id),
            shard.key("due"),
            shard.key("out", self.channel),
            shard.key("outq", self.channel, self.conversation),
            shard.key("channels"),
            shard.key("hist", self.session),
            shard.key("turnstats"),
        ]


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A message that a user sent. Times are milliseconds; `text` is redacted and cut."""

    ref: TurnRef
    message_id: str
    text: str
    language: str
    within_ms: int
    limit_ms: int
    auto: bool
    host: str


@dataclass(frozen=True, slots=True)
class Origin:
    """What a host still knows of a turn that its Redis has lost; `opened_at` is in milliseconds, server time.

    `within_ms` is for how long a turn that is made again is owed, where no answer comes with it.
    """

    message_id: str
    language: str
    opened_at: int
    auto: bool
    within_ms: int = 30_000

    def args(self, ref: TurnRef) -> list[Arg]:
        """As `lua/lib/restore.lua` takes them."""
        state = "auto" if self.auto else "open"
        return [
            ref.id, ref.channel, ref.conversation, ref.session, self.message_id, self.language, self.opened_at, state,
            self.within_ms,
        ]  # fmt: skip


NO_ORIGIN: Final = [""] * 9


class Opened(msgspec.Struct, frozen=True):
    """What `open` found or made; `new` is False where the message was opened before."""

    new: bool
    state: TurnState
    session: str
    language: str
    opened_at: int


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as it stands. Times are milliseconds since the epoch, server time.

    `delivery` is what is known of the first answer: waiting, sending (taken, or unknown), delivered, ambiguous, dead,
    dropped: the outbox of its conversation was full. A late one is also dropped where it was stale. `host` is who is to
    answer. `covers` counts turns merged into this one.
    """

    id: str
    state: TurnState
    channel: str
    conversation: str
    message_id: str
    session: str
    language: str = ""
    text: str = ""
    opened_at: int
    deadline: int | None = None
    closed_at: int | None = None
    delivery: str | None = None
    outcome: str | None = None
    late_at: int | None = None
    late_delivery: str | None = None
    late_outcome: str | None = None
    host: str = ""
    handed_at: int | None = None
    deferred_at: int | None = None
    merged_into: str | None = None
    covers: int = 0

    @property
    def ref(self) -> TurnRef:
        """Where it stands."""
        return TurnRef(self.id, self.channel, self.conversation, self.session)

    @property
    def is_open(self) -> bool:
        """Whether the user still waits for a first answer."""
        return self.state in {"open", "finishing"}


def turn_id(layout: Layout, channel: str, conversation: str, message_id: str) -> str:
    """The id of a message's turn: the same for the same message, and it names its shard.

    Message ids are unique within a conversation only, so all three parts count.
    """
    name = f"{turn_routing(channel, conversation)}\0{message_id}"
    digest = hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
    return f"t{layout.of_turn(channel, conversation).index}-{digest}"


class Turns:
    """The turns of one team. Every method raises `Unavailable` while Redis is away."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team's shards."""
        self._db = database
        self._layout = layout

    def shard(self, turn: str) -> Shard:
        """The shard that an id names.

        Raises:
            InvalidInput: not the id of a turn of this team.
        """
        if not self.has_form(turn):
            raise InvalidInput(f"turn {turn!r}: not the id of a turn")
        return self._layout.shard(int(turn[1:].partition("-")[0]))

    def has_form(self, turn: str) -> bool:
        """Whether this could be the id of a turn of this team."""
        shard = due.shard_of(turn)
        return shard is not None and shard < self._layout.shards

    def open(self, turn: NewTurn) -> Opened:
        """Open a turn, or find the one that this message opened before."""
        ref, shard = turn.ref, self.shard(turn.ref.id)
        args: list[Arg] = [
            ref.id, ref.channel, ref.conversation, turn.message_id, ref.session, turn.language, turn.text,
            excerpt(turn.text), turn.within_ms, turn.limit_ms, int(turn.auto), turn.host,
        ]  # fmt: skip
        reply = _open.run(self._db, shard, [*ref.keys(shard), shard.key("turns")], args)
        return msgspec.convert(reply, Opened)

    def answer(self, ref: TurnRef, given: Answer, origin: Origin) -> Answered:
        """The answer of a turn. One that Redis has lost is made again from its origin.

        Raises:
            NotFound: its seven days are over.
        """
        shard = self.shard(ref.id)

        def run(crowd: InTheWay) -> Any:
            keys = [*ref.keys(shard), shard.key("turns"), *crowd.keys(shard)]
            return _answer.run(self._db, shard, keys, [*given.args, crowd.key, *origin.args(ref)])

        return cast("Answered", _known(ref, with_room(run)["result"]))

    def mark_finishing(self, ref: TurnRef, grace_ms: int, origin: Origin | None = None) -> TurnState:
        """Note that an answer is about to enter the intake; the sweep leaves the turn alone for the grace.

        A turn that Redis has lost is made again from its origin.

        Raises:
            NotFound: there is no such turn (any more).
        """
        shard = self.shard(ref.id)
        args = [grace_ms, *_origin_args(ref, origin)]
        reply = _mark_finishing.run(self._db, shard, [*ref.keys(shard), shard.key("turns")], args)
        return cast("TurnState", _known(ref, reply["state"]))

    def progress(self, ref: TurnRef) -> int:
        """Extend the deadline up to the hard limit; milliseconds left, 0 where the turn is not open.

        Raises:
            NotFound: there is no such turn (any more).
        """
        shard = self.shard(ref.id)
        reply = _progress.run(self._db, shard, ref.keys(shard))
        _known(ref, reply["state"])
        return int(reply["left"])

    def defer(self, ref: TurnRef, ms: int) -> int:
        """Set the deadline anew, up to the hard limit; milliseconds left, 0 where the turn is not open.

        Raises:
            NotFound: there is no such turn (any more).
        """
        shard = self.shard(ref.id)
        reply = _defer.run(self._db, shard, ref.keys(shard), [ms])
        _known(ref, reply["state"])
        return int(reply["left"])

    def hand_over(self, ref: TurnRef, host: str) -> tuple[bool, TurnState]:
        """Give an open turn to another host; whether it has it now, and the turn's state.

        Raises:
            NotFound: there is no such turn (any more).
        """
        shard = self.shard(ref.id)
        keys = [*ref.keys(shard), shard.key("handed", host)]
        reply = _hand_over.run(self._db, shard, keys, [host, MAX_HANDED])
        return bool(reply["handed"]), cast("TurnState", _known(ref, reply["state"]))

    def merge(self, turns: Sequence[TurnRef], into: TurnRef) -> None:
        """Let one open turn cover others of its conversation: all of them, or none.

        Raises:
            NotFound: one of them is not there (any more).
            StateConflict: one of them is not open.
        """
        shard = self.shard(into.id)
        keys = into.keys(shard)
        for turn in turns:
            keys += [shard.key("turn", turn.id), shard.key("hist", turn.session)]
        reply = _merge.run(self._db, shard, keys, [into.id, *(turn.id for turn in turns)])
        if reply["result"] == "gone":
            raise NotFound(f"turn {reply['turn']}: no such turn; turns are kept for seven days; nothing was merged")
        if reply["result"] == "refused":
            where = f" into {reply['into']}" if reply.get("into") else ""
            raise StateConflict(f"turn {reply['turn']} is {reply['state']}{where}, not open: nothing was merged")

    def handed_to(self, host: str, limit: int) -> list[TurnView]:
        """Open turns that were handed over to this host and are with it still, the longest there first."""
        commands = [("ZRANGE", shard.key("handed", host), 0, limit - 1) for shard in self._layout.all]
        while True:
            ids = [turn.decode() for reply in self._db.pipeline(commands) for turn in reply]
            found = [turn for turn in self.load(ids) if turn is not None and turn.is_open and turn.host == host]
            past = set(ids) - {turn.id for turn in found}
            if not past:
                waiting = [turn for turn in found if turn.state == "open"]
                return sorted(waiting, key=lambda turn: turn.handed_at or 0)[:limit]
            self._db.run_all([self._forget_call(turn, host) for turn in sorted(past)])

    def _forget_call(self, turn: str, host: str) -> Call:
        shard = self.shard(turn)
        return _forget_handed.call([shard.key("handed", host), shard.key("turn", turn)], [turn, host])

    def close(self, ref: TurnRef, reason: str) -> tuple[bool, TurnState]:
        """Close a turn without a reply; whether it is so now, and its state.

        Raises:
            NotFound: there is no such turn (any more).
        """
        shard = self.shard(ref.id)
        reply = _close.run(self._db, shard, ref.keys(shard), [excerpt(reason)])
        return bool(reply["closed"]), cast("TurnState", _known(ref, reply["state"]))

    def apply_finished(
        self,
        lease: Lease,
        entry: Entry,
        ref: TurnRef,
        given: Answer,
        *,
        routed: Routed | None = None,
        origin: Origin | None = None,
    ) -> bool:
        """Apply the answer of an intake entry and acknowledge it. False, and nothing done, if there is no such turn.

        `routed` is what the pipeline tells the history. A turn that Redis has lost is made again from its origin.

        Raises:
            Fenced: the lease has passed on.
        """
        story = b"" if routed is None else msgspec.json.encode(routed)
        known = [*lease.keys, *ref.keys(lease.shard), lease.shard.key("turns")]

        def run(crowd: InTheWay) -> Any:
            args = [*lease.args([entry]), *given.args, story, crowd.key, *_origin_args(ref, origin)]
            return self._db.run(_finish.call([*known, *crowd.keys(lease.shard)], args))

        reply = with_room(run)
        return reply != b"gone" and committed(reply)

    def overdue(self, limit: int) -> list[str]:
        """Ids of turns whose deadline has passed, longest overdue first, at most `limit`."""
        return due.overdue(self._db, self._layout, limit)

    def fall_back(self, answers: Sequence[tuple[TurnRef, OutgoingResponse]]) -> list[bool | Exception]:
        """Give each turn that is overdue and open at that moment its fallback: whether it got one, or what failed."""
        replies = self._db.run_each([self._fallback_call(ref, response, NOTHING) for ref, response in answers])
        for index, (ref, response) in enumerate(answers):
            crowd = in_the_way(replies[index])
            if crowd is not None:
                replies[index] = with_room(partial(self._fall_back_alone, ref, response), crowd)
        return [reply if isinstance(reply, Exception) else reply == b"fallback" for reply in replies]

    def _fall_back_alone(self, ref: TurnRef, response: OutgoingResponse, crowd: InTheWay) -> Any:
        return self._db.run_each([self._fallback_call(ref, response, crowd)])[0]

    def _fallback_call(self, ref: TurnRef, response: OutgoingResponse, crowd: InTheWay) -> Call:
        shard = self.shard(ref.id)
        keys = [*ref.keys(shard), *crowd.keys(shard)]
        return _fallback.call(keys, [ref.id, msgspec.json.encode(response), crowd.key])

    def forget_due(self, turns: Iterable[str]) -> None:
        """Take ids out of the due set whose turn has gone after its lifetime."""
        places = [(turn, self.shard(turn)) for turn in turns]
        self._db.run_all([_forget_due.call([at.key("due"), at.key("turn", turn)], [turn]) for turn, at in places])

    def postpone(self, turn: str, ms: int) -> None:
        """Let the sweep look at a turn again in so long; its deadline stays as it was."""
        self._db.command("ZADD", self.shard(turn).key("due"), "XX", self._db.now_ms() + ms, turn)

    def load(self, turns: Sequence[str], *, text: bool = False) -> list[TurnView | None]:
        """The turns of these ids; None where there is none (any more). Their texts, up to 64 KB each, only if asked."""
        names = [name for name in TurnView.__struct_fields__ if text or name != "text"]
        replies = self._db.pipeline([("HMGET", self.shard(turn).key("turn", turn), *names) for turn in turns])
        return [_view(names, values) for values in replies]

    def newest(self, limit: int) -> list[TurnView]:
        """The turns opened last, oldest of them first."""
        found = self._listed([("ZRANGE", shard.key("turns"), -limit, -1) for shard in self._layout.all])
        return sorted(found, key=lambda turn: turn.opened_at)[-limit:]

    def open_now(self, limit: int) -> list[TurnView]:
        """Open turns, the nearest deadline first."""
        found = self._listed([("ZRANGE", shard.key("due"), 0, limit - 1) for shard in self._layout.all])
        return sorted((turn for turn in found if turn.is_open), key=lambda turn: turn.deadline or 0)[:limit]

    def _listed(self, commands: list[tuple[str, str, int, int]]) -> list[TurnView]:
        ids = [turn.decode(errors="replace") for reply in self._db.pipeline(commands) for turn in reply]
        return [turn for turn in self.load([turn for turn in ids if self.has_form(turn)]) if turn is not None]


def _origin_args(ref: TurnRef, origin: Origin | None) -> list[Arg]:
    return [*NO_ORIGIN] if origin is None else origin.args(ref)


def _known(ref: TurnRef, state: str) -> str:
    if state == "gone":
        raise NotFound(f"turn {ref.id}: no such turn; turns are kept for seven days")
    return state


def _view(names: list[str], values: list[bytes | None]) -> TurnView | None:
    fields = {name: value.decode() for name, value in zip(names, values, strict=True) if value is not None}
    return msgspec.convert(fields, TurnView, strict=False) if fields else None
