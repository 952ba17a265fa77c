"""The store of turns: what a user is owed, and until when."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from tellback.contracts.turns import Answered, OutgoingResponse, TurnState
from tellback.errors import InvalidInput, NotFound
from tellback.names import turn_routing
from tellback.state.database import Arg, Database
from tellback.state.decision import Decision
from tellback.state.intake import Entry, Lease, committed
from tellback.state.keys import Layout, Shard
from tellback.state.script import Call, Script

EXCERPT_BYTES: Final = 2048
_ID: Final = re.compile(r"t(\d{1,4})-[0-9a-f]{24}")

_open = Decision("open_turn")
_answer = Decision("answer_turn")
_mark_finishing = Decision("mark_finishing")
_progress = Decision("progress_turn")
_close = Decision("close_turn")
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
        """The six keys of `lua/lib/turn.lua`, in its order."""
        return [
            shard.key("turn", self.id),
            shard.key("due"),
            shard.key("out", self.channel),
            shard.key("outq", self.channel, self.conversation),
            shard.key("channels"),
            shard.key("hist", self.session),
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


class Opened(msgspec.Struct, frozen=True):
    """What `open` found or made; `new` is False where the message was opened before."""

    new: bool
    state: TurnState
    session: str
    language: str


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as it stands. Times are milliseconds since the epoch, server time.

    `delivery` is what is known of the first answer: waiting, sending (taken, or unknown), delivered, ambiguous, dead.
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
        found = _ID.fullmatch(turn)
        return found is not None and int(found[1]) < self._layout.shards

    def open(self, turn: NewTurn) -> Opened:
        """Open a turn, or find the one that this message opened before."""
        ref, shard = turn.ref, self.shard(turn.ref.id)
        args: list[Arg] = [
            ref.id, ref.channel, ref.conversation, turn.message_id, ref.session, turn.language, turn.text,
            excerpt(turn.text), turn.within_ms, turn.limit_ms, int(turn.auto),
        ]  # fmt: skip
        reply = _open.run(self._db, shard, [*ref.keys(shard), shard.key("turns")], args)
        return msgspec.convert(reply, Opened)

    def answer(self, ref: TurnRef, response: OutgoingResponse, *, code: str = "", shown: str = "") -> Answered:
        """The answer of a turn; `code` says that it stands for a failure, `shown` is its redacted text for the history.

        Raises:
            NotFound: there is no such turn (any more).
        """
        shard = self.shard(ref.id)
        args: list[Arg] = [msgspec.json.encode(response), code, excerpt(shown)]
        reply = _answer.run(self._db, shard, ref.keys(shard), args)
        return cast("Answered", _known(ref, reply["result"]))

    def mark_finishing(self, ref: TurnRef, grace_ms: int) -> TurnState:
        """Note that an answer is about to enter the intake; the sweep leaves the turn alone for the grace.

        Raises:
            NotFound: there is no such turn (any more).
        """
        shard = self.shard(ref.id)
        reply = _mark_finishing.run(self._db, shard, ref.keys(shard), [grace_ms])
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

    def close(self, ref: TurnRef, reason: str) -> tuple[bool, TurnState]:
        """Close a turn without a reply; whether it is so now, and its state.

        Raises:
            NotFound: there is no such turn (any more).
        """
        shard = self.shard(ref.id)
        reply = _close.run(self._db, shard, ref.keys(shard), [excerpt(reason)])
        return bool(reply["closed"]), cast("TurnState", _known(ref, reply["state"]))

    def apply_finished(
        self, lease: Lease, entry: Entry, ref: TurnRef, response: OutgoingResponse, *, code: str = "", shown: str = ""
    ) -> bool:
        """Apply the answer of an intake entry and acknowledge it. False, and nothing done, if there is no such turn.

        Raises:
            Fenced: the lease has passed on.
        """
        args: list[Arg] = [*lease.args([entry]), msgspec.json.encode(response), code, excerpt(shown)]
        reply = self._db.run(_finish.call([*lease.keys, *ref.keys(lease.shard)], args))
        return reply != b"gone" and committed(reply)

    def overdue(self, limit: int) -> list[str]:
        """Ids of turns whose deadline has passed, longest overdue first, at most `limit`."""
        now = self._db.now_ms()
        replies = self._db.pipeline(
            [
                ("ZRANGE", shard.key("due"), "-inf", now, "BYSCORE", "LIMIT", 0, limit, "WITHSCORES")
                for shard in self._layout.all
            ]
        )
        found = [pair for flat in replies for pair in zip(flat[1::2], flat[::2], strict=True)]
        return [turn.decode() for _, turn in sorted(found, key=lambda pair: float(pair[0]))[:limit]]

    def fall_back(self, answers: Sequence[tuple[TurnRef, OutgoingResponse]]) -> list[bool]:
        """Give each turn that is overdue and open at that moment its fallback; which of them got one."""
        calls = [self._fallback_call(ref, response) for ref, response in answers]
        return [reply == b"fallback" for reply in self._db.run_all(calls)]

    def _fallback_call(self, ref: TurnRef, response: OutgoingResponse) -> Call:
        return _fallback.call(ref.keys(self.shard(ref.id)), [ref.id, msgspec.json.encode(response)])

    def forget_due(self, turns: Iterable[str]) -> None:
        """Take ids out of the due set whose turn has gone after its lifetime."""
        self._db.pipeline([("ZREM", self.shard(turn).key("due"), turn) for turn in turns])

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
        ids = [turn.decode() for reply in self._db.pipeline(commands) for turn in reply]
        return [turn for turn in self.load(ids) if turn is not None]


def excerpt(text: str, limit: int = EXCERPT_BYTES) -> str:
    """`text` cut to `limit` bytes as UTF-8, whole characters only."""
    raw = text.encode()
    return text if len(raw) <= limit else raw[: limit - 3].decode(errors="ignore") + "…"


def _known(ref: TurnRef, state: str) -> str:
    if state == "gone":
        raise NotFound(f"turn {ref.id}: no such turn; turns are kept for seven days")
    return state


def _view(names: list[str], values: list[bytes | None]) -> TurnView | None:
    fields = {name: value.decode() for name, value in zip(names, values, strict=True) if value is not None}
    return msgspec.convert(fields, TurnView, strict=False) if fields else None
