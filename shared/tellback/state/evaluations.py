"""Evaluations in Redis: loaded for a whole batch in one round trip, committed by compare-and-set, read by agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from tellback import clock
from tellback.contracts.guidance import Feedback
from tellback.guidance.cadence import forget_taken, next_look, period_ms
from tellback.guidance.evaluation import Effects, EvaluationState
from tellback.state.database import Arg, Command, Database
from tellback.state.guidance_stats import bucket
from tellback.state.intake import Entry, Fenced, Lease, committed
from tellback.state.keys import FAMILIES, Layout, Shard
from tellback.state.known import KnownEvaluations
from tellback.state.script import Call, Script
from tellback.state.stored import FIELDS, new_calls, new_version, restored, size_of, without_calls

_MAIL_CAP: Final = FAMILIES["mail"].cap or 0
_HISTORY_CAP: Final = FAMILIES["hist"].cap or 0

_commit = Script("commit_evaluation")
_commit_look = Script("commit_look")
_claim = Script("claim_looks")
_take = Script("take_feedback")
_decode_state = msgspec.json.Decoder(EvaluationState).decode
_decode_feedback = msgspec.json.Decoder(Feedback).decode
_encode = msgspec.json.Encoder().encode


class EvaluationId(NamedTuple):
    """What separates one evaluation from another: events of one never count in another."""

    session: str
    prompt: str
    evaluation: str


class _Keys(NamedTuple):
    """The keys of one evaluation, in the order in which the commit takes them."""

    eval: str
    seen: str
    seen_old: str
    mail: str
    hist: str
    due: str


@lru_cache(maxsize=4096)
def _keys(shard: Shard, id_: EvaluationId) -> _Keys:
    """Built once for each evaluation that is at work: quoting names for each batch would cost more than a step."""
    names = ("eval", "seen", "seen-old", "mail")
    evaluation, seen, seen_old, mail = (shard.key(name, *id_) for name in names)
    return _Keys(evaluation, seen, seen_old, mail, shard.key("hist", id_.session), shard.key("due-eval"))


def due_member(shard: Shard, id_: EvaluationId) -> str:
    """What stands for an evaluation in the due set: the parts of its key."""
    return _keys(shard, id_).eval.partition("}:eval:")[2]


def due_id(member: str) -> EvaluationId:
    """The evaluation that this member of the due set stands for."""
    session, prompt, evaluation = map(unquote, member.split(":"))
    return EvaluationId(session, prompt, evaluation)


@dataclass(frozen=True, slots=True)
class Loaded:
    """An evaluation as Redis has it, and which of the event ids asked for it has seen.

    `generation` counts how often its mailbox was emptied; up to call `kept` its newest calls stand beside its state.
    Not `asked`: nobody has asked Redis for `seen`, the commit does.
    """

    version: bytes
    state: EvaluationState | None
    seen: frozenset[str]
    generation: int = 0
    kept: int = 0
    asked: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """What a batch makes of one evaluation: every entry of it, the ids that are new, the state and its effects."""

    id: EvaluationId
    loaded: Loaded
    state: EvaluationState
    entries: Sequence[Entry]
    fresh: Sequence[str]
    effects: Effects


@dataclass(frozen=True, slots=True)
class Looked:
    """What the passing of time makes of one evaluation, as it was loaded."""

    id: EvaluationId
    loaded: Loaded
    state: EvaluationState
    effects: Effects
    at_ms: int


@dataclass(frozen=True, slots=True)
class Counts:
    """An evaluation's exact counters; `errors` are the calls of status "error"."""

    calls: int
    fires: int
    delivered: int
    expired: int
    errors: int = 0


class Evaluations:
    """The evaluations of one shard."""

    def __init__(self, database: Database, shard: Shard, *, idle: float = 3_600.0) -> None:
        """Take the Redis and the shard of their sessions.

        `idle`: seconds after which time triggers nothing any more in an evaluation where nothing happens.
        """
        self._db = database
        self._shard = shard
        self._due = shard.key("due-eval")
        self._idle_ms = round(idle * 1000)

    def load(self, wanted: Mapping[EvaluationId, Sequence[str]]) -> dict[EvaluationId, Loaded]:
        """Each evaluation with what it has seen of these event ids, all in one round trip."""
        return load_each(self._db, [(self, wanted)])[0]

    def load_commands(self, wanted: Mapping[EvaluationId, Sequence[str]]) -> list[Command]:
        """What asks for these; three commands for each."""
        commands: list[Command] = []
        for id_, events in wanted.items():
            keys = _keys(self._shard, id_)
            commands += [
                ("HMGET", keys.eval, *FIELDS),
                ("SMISMEMBER", keys.seen, *events),
                ("SMISMEMBER", keys.seen_old, *events),
            ]
        return commands

    def claim_due(self, limit: int, lease: float) -> list[tuple[EvaluationId, bool]]:
        """Evaluations that are to be looked at, longest due first; nobody else gets them for `lease` seconds.

        True beside one whose earlier look never committed: it may have killed its process.
        """
        flat = self._db.run(_claim.call([self._due], [round(lease * 1000), limit]))
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return [(due_id(member.decode()), died == b"1") for member, died in pairs]

    def give_back(self, ids: Iterable[EvaluationId]) -> None:
        """Let others look at evaluations that were claimed, at once."""
        now = self._db.now_ms()
        self._db.pipeline([("ZADD", self._due, "XX", now, due_member(self._shard, id_)) for id_ in ids])

    def forget_due(self, ids: Iterable[EvaluationId]) -> None:
        """Take evaluations out of the due set that have gone after their lifetime."""
        self._db.pipeline([("ZREM", self._due, due_member(self._shard, id_)) for id_ in ids])

    def load_due(self, ids: Sequence[EvaluationId]) -> list[Loaded]:
        """Evaluations that are to be looked at."""
        replies = self._db.pipeline([("HMGET", _keys(self._shard, id_).eval, *FIELDS) for id_ in ids])
        return [_loaded(reply, frozenset()) for reply in replies]

    def commit(self, lease: Lease, changes: Sequence[Change]) -> list[Change]:
        """Commit each change in a script of its own, all in one round trip; those that came too late are returned.

        Raises:
            Fenced: the lease has passed on; some of the changes may have been committed before.
        """
        late = commit_each(self._db, [(self, lease, changes)])[0]
        if late is None:
            raise Fenced("the drainer's lease has passed on")
        return late

    def commit_look(self, look: Looked) -> bool:
        """Commit a look; False where an event, a taker or another look was faster, and nothing was written."""
        return bool(self._db.run(self._look_call(look)) == b"ok")

    def counts(self, id_: EvaluationId) -> Counts:
        """The counters; zeros for an evaluation that is not known."""
        return self.counts_of([id_])[0]

    def counts_of(self, ids: Sequence[EvaluationId]) -> list[Counts]:
        """The counters of each evaluation, all in one round trip."""
        replies = self._db.pipeline(
            [("HMGET", _keys(self._shard, id_).eval, "state", "delivered", "expired") for id_ in ids]
        )
        return [_counts(*reply) for reply in replies]

    def take_feedback(self, id_: EvaluationId, operation: str) -> list[Feedback]:
        """The feedback that waits, which nobody else will get; the same operation gets the same answer again."""
        keys = _keys(self._shard, id_)
        call = _take.call(
            [
                self._shard.key("op", operation),
                keys.mail,
                keys.eval,
                bucket(self._shard, int(clock.wall() * 1000)),
                keys.due,
            ],
            [due_member(self._shard, id_)],
        )
        reply = msgspec.json.decode(self._db.run(call))
        return [_decode_feedback(item) for item in reply["feedback"]]

    def mailbox(self, id_: EvaluationId) -> str:
        """The list in which feedback waits."""
        return _keys(self._shard, id_).mail

    def commit_call(self, lease: Lease, change: Change) -> tuple[Call, Loaded, int]:
        """What commits this, what it is committed as, and how many bytes that has."""
        state, effects, loaded = change.state, change.effects, change.loaded
        written, calls = without_calls(state), new_calls(state, loaded.kept)
        after = Loaded(new_version(), state, frozenset(), loaded.generation, state.calls, asked=False)
        feedback = [_encode(item) for item in effects.feedback[-_MAIL_CAP:]]
        outdated = _encode(sorted(effects.outdated)) if effects.outdated else b""
        sizes = (len(calls), len(change.fresh), len(feedback), len(effects.tallies))
        call = _commit.call(
            [*lease.keys, *_keys(self._shard, change.id), bucket(self._shard, change.entries[-1].at_ms)],
            [
                *lease.args(change.entries),
                *(loaded.version, after.version, written, state.calls, int(not loaded.asked)),
                *(*self._schedule(change.id, state), outdated, *sizes),
                *calls,
                *change.fresh,
                *feedback,
                *_flat(effects.tallies),
                *effects.history[-_HISTORY_CAP:],
            ],
        )
        return call, after, size_of(written, state)

    def _look_call(self, look: Looked) -> Call:
        keys, state, effects = _keys(self._shard, look.id), look.state, look.effects
        mails = [_timed(state, place, feedback) for place, feedback in effects.timed.items()]
        calls = new_calls(state, look.loaded.kept)
        return _commit_look.call(
            [keys.eval, keys.mail, keys.hist, keys.due, bucket(self._shard, look.at_ms)],
            [
                *(look.loaded.version, new_version(), look.loaded.generation, without_calls(state), state.calls),
                *(*self._schedule(look.id, state), len(calls), len(mails), len(effects.tallies)),
                *calls,
                *mails,
                *_flat(effects.tallies),
                *effects.history[-_HISTORY_CAP:],
            ],
        )

    def _schedule(self, id_: EvaluationId, state: EvaluationState) -> tuple[str, str]:
        """Its member of the due set and when it is to be looked at, as lib/evaluation.lua takes them."""
        if all(slot.spec.trigger.every_n_seconds is None for slot in state.slots):
            return "", ""
        at = next_look(state, self._idle_ms)
        return due_member(self._shard, id_), "-" if at is None else str(at)


def load_each(
    database: Database, wanted: Sequence[tuple[Evaluations, Mapping[EvaluationId, Sequence[str]]]]
) -> list[dict[EvaluationId, Loaded]]:
    """What `load` gives, of several shards in one round trip; on a cluster they must share a slot."""
    replies = iter(database.pipeline([command for store, ids in wanted for command in store.load_commands(ids)]))
    return [
        {id_: _loaded(next(replies), _seen(events, next(replies), next(replies))) for id_, events in ids.items()}
        for _, ids in wanted
    ]


def commit_each(
    database: Database,
    batches: Sequence[tuple[Evaluations, Lease, Sequence[Change]]],
    known: KnownEvaluations | None = None,
) -> list[list[Change] | None]:
    """What `commit` does, for several shards: what came too late, None where the lease has passed on.

    Feedback that was earned has a round trip before all else, since somebody may await it: Redis answers nobody before
    it has done what one round trip brings. What was committed is `known` from then on. On a cluster the shards must
    share a slot.
    """
    left: list[list[Change] | None] = [[] for _ in batches]
    for awaited in (True, False):
        parts = [[change for change in changes if _awaited(change) is awaited] for _, _, changes in batches]
        commits = [
            store.commit_call(lease, change)
            for (store, lease, _), part in zip(batches, parts, strict=True)
            for change in part
        ]
        replies = zip(database.run_all([call for call, _, _ in commits]), commits, strict=True)
        for at, ((_, lease, _), part) in enumerate(zip(batches, parts, strict=True)):
            late, before = _late(lease, part, list(islice(replies, len(part))), known), left[at]
            left[at] = None if late is None or before is None else before + late
    return left


def _awaited(change: Change) -> bool:
    return bool(change.effects.feedback)


def _late(
    lease: Lease,
    changes: Sequence[Change],
    replies: Sequence[tuple[Any, tuple[Call, Loaded, int]]],
    known: KnownEvaluations | None,
) -> list[Change] | None:
    late: list[Change] = []
    try:
        for change, (reply, (_, after, size)) in zip(changes, replies, strict=True):
            if not committed(reply):
                late.append(change)
            elif known is not None and all(slot.waits is None for slot in change.state.slots):
                known.keep(lease, change.id, after, size)  # not what waits: loading tells whether it was taken
    except Fenced:
        return None
    return late


def _seen(events: Sequence[str], new: Sequence[int], old: Sequence[int]) -> frozenset[str]:
    """The events that one of the two generations has."""
    if 1 not in new and 1 not in old:
        return frozenset()
    return frozenset(event for event, in_new, in_old in zip(events, new, old, strict=True) if in_new or in_old)


def _loaded(fields: Sequence[Any], seen: frozenset[str]) -> Loaded:
    """The reply for `FIELDS`; slots whose waiting feedback was taken know it."""
    version, raw, takes, taken_at, *lines = fields
    generation = int(takes or 0)
    if raw is None:
        return Loaded(version or b"0", None, seen, generation)
    state, kept = restored(raw, lines)
    if taken_at is not None:
        forget_taken(state, generation, int(taken_at))
    return Loaded(version, state, seen, generation, kept)


def _timed(state: EvaluationState, place: int, feedback: Feedback) -> bytes:
    """A feedback that came without a tool call, as it waits: with its slot, and the period until it is due again."""
    slot = state.slots[place]
    spoke_last = state.deadline_at is not None and feedback.at >= state.deadline_at
    every = "" if spoke_last else f',"every":{period_ms(slot)}'
    return _encode(feedback)[:-1] + f',"slot":{place}{every}}}'.encode()


def _flat(tallies: Mapping[str, int]) -> list[Arg]:
    return [part for pair in tallies.items() for part in pair]


def due_shards(database: Database, layout: Layout) -> list[Shard]:
    """The shards that have evaluations to look at."""
    now = database.now_ms()
    replies = database.pipeline(
        [("ZRANGE", shard.key("due-eval"), "-inf", now, "BYSCORE", "LIMIT", 0, 1) for shard in layout.all]
    )
    return [shard for shard, found in zip(layout.all, replies, strict=True) if found]


def _counts(state: bytes | None, delivered: bytes | None, expired: bytes | None) -> Counts:
    known = None if state is None else _decode_state(state)
    calls, fires, errors = (known.calls, known.fires, known.errors) if known else (0, 0, 0)
    return Counts(calls, fires, int(delivered or 0), int(expired or 0), errors)
