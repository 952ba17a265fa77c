"""Evaluations in Redis: loaded for a whole batch in one round trip, committed by compare-and-set, read by agents.

A commit names a fence and the version that it was built on. If another consumer, timer or agent was faster, it writes
nothing and the caller loads again. A sorted set holds evaluations by their next timer; workers claim the due ones.
"""

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
from tellback.guidance.evaluation import next_timer, restart_taken_slots, trigger_period_ms
from tellback.guidance.state import BatchEffects, EvaluationState
from tellback.state.database import Database, small_write
from tellback.state.evaluation_codec import (
    STATE_FIELDS,
    EvaluationCache,
    EvaluationId,
    LoadedEvaluation,
    decode_state,
    encode_new_calls,
    encode_state,
    new_version,
    newest_fields,
    state_size,
)
from tellback.state.intake_lease import Fenced, IntakeEntry, Lease, committed
from tellback.state.keys import DAY_MS, FAMILIES, Layout, Shard, guidestats_of, split_key
from tellback.state.list_waiter import ListWaiter
from tellback.state.readable import readable
from tellback.state.script_calls import Arg, Command, FirstCall, ScriptCall
from tellback.state.scripts import common
from tellback.state.scripts import guidance as scripts
from tellback.state.steady import onward_now

_MAILBOX_CAP: Final = FAMILIES["mailbox"].cap or 0
_HISTORY_CAP: Final = FAMILIES["hist"].cap or 0

_decode_state = msgspec.json.Decoder(EvaluationState).decode
_decode_feedback = msgspec.json.Decoder(Feedback).decode
_encode = msgspec.json.Encoder().encode


class _Keys(NamedTuple):
    """The keys of one evaluation."""

    eval: str
    seen: str
    seen_old: str
    mailbox: str
    hist: str
    timer: str
    """The member of `timers`: the parts of `eval`."""


@lru_cache(maxsize=4096)
def _keys(shard: Shard, id_: EvaluationId) -> _Keys:
    """Return an evaluation's keys, cached: quoting its names for each batch costs more than applying an event."""
    names = ("eval", "seen", "seen-old", "mailbox")
    evaluation, seen, seen_old, mailbox = (shard.key(name, *id_) for name in names)
    return _Keys(evaluation, seen, seen_old, mailbox, shard.key("hist", id_.session), split_key(evaluation)[2])


def timer_member(shard: Shard, id_: EvaluationId) -> str:
    """Return the member of `timers` for an evaluation: the parts of its key."""
    return _keys(shard, id_).timer


def timer_id(member: str) -> EvaluationId:
    """Return the evaluation of a member of `timers`."""
    session, prompt, evaluation = map(unquote, member.split(":"))
    return EvaluationId(session, prompt, evaluation)


class EvaluationChange(msgspec.Struct, frozen=True, gc=False):  # no dataclass: a worker makes one for each commit
    """The effect of a batch on one evaluation: its entries, the ids that are new, the new state and its effects."""

    id: EvaluationId
    loaded: LoadedEvaluation
    state: EvaluationState
    entries: Sequence[IntakeEntry]
    new_ids: Sequence[str]
    effects: BatchEffects


@dataclass(frozen=True, slots=True)
class TimedEvaluation:
    """The effect of a timer on one evaluation, as it was loaded."""

    id: EvaluationId
    loaded: LoadedEvaluation
    state: EvaluationState
    effects: BatchEffects
    at_ms: int


@dataclass(frozen=True, slots=True)
class EvaluationCounts:
    """An evaluation's exact counters; `errors` are the calls of status "error"."""

    calls: int
    fires: int
    delivered: int
    expired: int
    errors: int = 0


class Evaluations:
    """The evaluations of one shard; after `idle` seconds without an event, an evaluation's timers stop."""

    def __init__(self, database: Database, shard: Shard, *, idle: float = 3_600.0) -> None:
        self._db = database
        self._shard = shard
        self._due = shard.key("timers")
        self._idle_ms = round(idle * 1000)

    def load(self, wanted: Mapping[EvaluationId, Sequence[str]]) -> dict[EvaluationId, LoadedEvaluation]:
        """Load evaluations, each with which of these event ids it has seen, all in one round trip."""
        return load_each(self._db, [(self, wanted)])[0]

    def load_commands(self, wanted: Mapping[EvaluationId, Sequence[str]]) -> list[Command]:
        """Return the commands that load these evaluations, three for each."""
        commands: list[Command] = []
        for id_, events in wanted.items():
            keys = _keys(self._shard, id_)
            commands += [
                ("HMGET", keys.eval, *STATE_FIELDS),
                ("SMISMEMBER", keys.seen, *events),
                ("SMISMEMBER", keys.seen_old, *events),
            ]
        return commands

    def claim_timers(self, limit: int, lease: float) -> list[tuple[EvaluationId, bool]]:
        """Claim evaluations with a due timer, longest due first; nobody else gets them for `lease` seconds.

        Each comes with True if an earlier claim never committed: its providers may have killed the process.
        """
        flat = self._db.run(scripts.claim_timers(shard=self._shard, lease_ms=round(lease * 1000), limit=limit))
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return readable("due evaluation", pairs, lambda pair: (timer_id(pair[0].decode()), pair[1] == b"1"))

    def release_claims(self, ids: Iterable[EvaluationId]) -> None:
        """Give claimed evaluations back; others may claim them at once."""
        [now] = onward_now(self._db, [self._shard])
        # race: one that was committed or claimed meanwhile is evaluated once more, and its version lets one commit
        self._db.run_all([small_write("ZADD", self._due, "XX", now, timer_member(self._shard, id_)) for id_ in ids])

    def drop_timers(self, ids: Iterable[EvaluationId]) -> None:
        """Remove evaluations from `timers` whose key has expired and was not written again."""
        places = [(_keys(self._shard, id_).eval, timer_member(self._shard, id_)) for id_ in ids]
        self._db.run_all([common.drop_missing(index=self._due, key=key, member=member) for key, member in places])

    def load_claimed(self, ids: Sequence[EvaluationId]) -> list[LoadedEvaluation]:
        """Load claimed evaluations, without any seen ids."""
        replies = self._db.pipeline([("HMGET", _keys(self._shard, id_).eval, *STATE_FIELDS) for id_ in ids])
        return [_loaded(reply, frozenset()) for reply in replies]

    def commit_timer(self, evaluation: TimedEvaluation) -> bool:
        """Commit a timer; return False, with nothing written, if an event, an agent or another timer was faster."""
        return bool(self._db.run(self._timer_call(evaluation)) == b"ok")

    def counts(self, id_: EvaluationId) -> EvaluationCounts:
        """Return the counters; zeros for an unknown evaluation."""
        return self.counts_of([id_])[0]

    def counts_of(self, ids: Sequence[EvaluationId]) -> list[EvaluationCounts]:
        """Return the counters of each evaluation, all in one round trip."""
        replies = self._db.pipeline(
            [("HMGET", _keys(self._shard, id_).eval, "state", "delivered", "expired") for id_ in ids]
        )
        return [_counts(*reply) for reply in replies]

    def take_feedback(self, id_: EvaluationId, operation: str) -> list[Feedback]:
        """Return and remove the waiting feedback; the same operation gets the same reply again."""
        return self._taken(id_, operation, self._db.run(self._take_call(id_, operation)))

    def await_feedback(
        self,
        id_: EvaluationId,
        operation: str,
        waiter: ListWaiter,
        seconds: float,
        first: FirstCall | None,
    ) -> list[Feedback] | None:
        """Return and remove feedback when there is some, or after `seconds`; None at once if waiting is impossible.

        `first` is what earns it, sent in the same round trip.
        """
        call = self._take_call(id_, operation)
        reply = waiter.run_when_filled(_keys(self._shard, id_).mailbox, seconds, call, first)
        return None if reply is None else self._taken(id_, operation, reply)

    def _taken(self, id_: EvaluationId, operation: str, reply: bytes) -> list[Feedback]:
        found = msgspec.json.decode(reply)
        if "day" in found:  # of the server; this host's clock has another one
            found = msgspec.json.decode(self._db.run(self._take_call(id_, operation, found["day"])))
        return readable("feedback", found["feedback"], _decode_feedback)

    def _take_call(self, id_: EvaluationId, operation: str, day: int | None = None) -> ScriptCall:
        day = int(clock.wall() * 1000) // DAY_MS if day is None else day
        decision = scripts.take_feedback(
            evaluation=_keys(self._shard, id_).eval,
            guidestats=guidestats_of(self._shard, day * DAY_MS),
            member=timer_member(self._shard, id_),
            day=day,
        )
        return decision.named(self._shard.key("op", operation))

    def commit_call(
        self, lease: Lease, change: EvaluationChange, *, or_release: bool
    ) -> tuple[ScriptCall, LoadedEvaluation, int]:
        """Return the call that commits a change, the evaluation after it, and that one's size in bytes."""
        state, effects, loaded = change.state, change.effects, change.loaded
        written, calls = encode_state(state), encode_new_calls(state, loaded.stored_calls)
        committed_as = LoadedEvaluation(
            new_version(), state, frozenset(), loaded.generation, state.calls, checked_seen=False
        )
        keys, at = _keys(self._shard, change.id), next_timer(state, self._idle_ms)
        # '' saves the write for evaluations that never had a timer; one left over from a skipped provider fires nothing
        untimed = at is None and all(slot.spec.trigger.every_n_seconds is None for slot in state.slots)
        call = scripts.commit_evaluation(
            **lease.commit_of(change.entries),
            evaluation=keys.eval,
            hist=keys.hist,
            guidestats=guidestats_of(self._shard, change.entries[-1].at_ms),
            version=loaded.version,
            new_version=committed_as.version,
            state=written,
            calls=state.calls,
            check_seen=not loaded.checked_seen,
            timer=keys.timer,
            next_timer="" if untimed else _timer_text(at),
            session_name=change.id.session,
            at=change.entries[-1].at_ms,
            new_calls=max(0, state.calls - loaded.stored_calls),
            or_release=or_release,
            outdated=_encode(sorted(effects.outdated)) if effects.outdated else b"",
            newest_calls=calls,
            event_ids=change.new_ids,
            feedback=[_encode(item) for item in effects.feedback[-_MAILBOX_CAP:]],
            counts=_flatten(effects.tallies),
            lines=effects.history[-_HISTORY_CAP:],
            newest=newest_fields([entry.message for entry in change.entries]),
        )
        return call, committed_as, state_size(written, state)

    def _timer_call(self, evaluation: TimedEvaluation) -> ScriptCall:
        keys, state, effects = _keys(self._shard, evaluation.id), evaluation.state, evaluation.effects
        return scripts.commit_timer(
            evaluation=keys.eval,
            hist=keys.hist,
            guidestats=guidestats_of(self._shard, evaluation.at_ms),
            version=evaluation.loaded.version,
            new_version=new_version(),
            generation=evaluation.loaded.generation,
            state=encode_state(state),
            calls=state.calls,
            timer=keys.timer,
            next_timer=_timer_text(next_timer(state, self._idle_ms)),
            newest_calls=encode_new_calls(state, evaluation.loaded.stored_calls),
            feedback=[_encode_timed(state, place, feedback) for place, feedback in effects.timed.items()],
            counts=_flatten(effects.tallies),
            lines=effects.history[-_HISTORY_CAP:],
        )


def load_each(
    database: Database, wanted: Sequence[tuple[Evaluations, Mapping[EvaluationId, Sequence[str]]]]
) -> list[dict[EvaluationId, LoadedEvaluation]]:
    """Load as `Evaluations.load`, for several shards in one round trip; on a cluster they must share a slot."""
    replies = iter(database.pipeline([command for store, ids in wanted for command in store.load_commands(ids)]))
    return [
        {id_: _loaded(next(replies), _seen(events, next(replies), next(replies))) for id_, events in ids.items()}
        for _, ids in wanted
    ]


def commit_each(
    database: Database,
    batches: Sequence[tuple[Evaluations, Lease, Sequence[EvaluationChange]]],
    cache: EvaluationCache | None = None,
    released: set[Lease] | None = None,
) -> list[list[EvaluationChange] | None]:
    """Commit each change of several shards in a script of its own; return the stale ones, or None for a lost lease.

    Changes that earned feedback get a round trip of their own before all others, because an agent may be waiting:
    Redis answers nobody before it has run everything in a round trip. What was committed is put into `cache`, and
    streams that are empty then are released into `released`. On a cluster the shards must share a slot.
    """
    left: list[list[EvaluationChange] | None] = [[] for _ in batches]
    for awaited in (True, False):  # changes with feedback first
        parts = [
            [change for change in changes if bool(change.effects.feedback) is awaited] for _, _, changes in batches
        ]
        commits = [
            store.commit_call(lease, change, or_release=released is not None)
            for (store, lease, _), part in zip(batches, parts, strict=True)
            for change in part
        ]
        replies = zip(database.run_all([call for call, _, _ in commits]), commits, strict=True)
        for at, ((_, lease, _), part) in enumerate(zip(batches, parts, strict=True)):
            results = list(islice(replies, len(part)))
            late, before = _stale_changes(lease, part, results, cache), left[at]
            left[at] = None if late is None or before is None else before + late
            if released is not None and any(reply == b"released" for reply, _ in results):
                released.add(lease)
    return left


def _stale_changes(
    lease: Lease,
    changes: Sequence[EvaluationChange],
    replies: Sequence[tuple[Any, tuple[ScriptCall, LoadedEvaluation, int]]],
    cache: EvaluationCache | None,
) -> list[EvaluationChange] | None:
    late: list[EvaluationChange] = []
    try:
        for change, (reply, (_, after, size)) in zip(changes, replies, strict=True):
            if not committed(reply):
                late.append(change)
            elif cache is not None and all(slot.waits is None for slot in change.state.slots):
                # Only without waiting feedback: a load alone shows whether that was taken.
                cache.put(lease, change.id, after, size)
    except Fenced:
        return None
    return late


def _seen(events: Sequence[str], new: Sequence[int], old: Sequence[int]) -> frozenset[str]:
    if 1 not in new and 1 not in old:
        return frozenset()
    return frozenset(event for event, in_new, in_old in zip(events, new, old, strict=True) if in_new or in_old)


def _loaded(fields: Sequence[Any], seen: frozenset[str]) -> LoadedEvaluation:
    """Decode the reply for `STATE_FIELDS`, and restart slots whose waiting feedback was taken."""
    version, raw, takes, taken_at, *lines = fields
    generation = int(takes or 0)
    if raw is None:
        return LoadedEvaluation(version or b"0", None, seen, generation)
    state, kept = decode_state(raw, lines)
    if taken_at is not None:
        restart_taken_slots(state, generation, int(taken_at))
    return LoadedEvaluation(version, state, seen, generation, kept)


def _encode_timed(state: EvaluationState, place: int, feedback: Feedback) -> bytes:
    """Encode feedback of a timer for the mailbox: with its slot, and its period unless the deadline ended it."""
    slot = state.slots[place]
    spoke_last = state.deadline_at is not None and feedback.at >= state.deadline_at
    period = None if spoke_last else trigger_period_ms(slot)
    every = "" if period is None else f',"every":{period}'
    return _encode(feedback)[:-1] + f',"slot":{place}{every}}}'.encode()


def _timer_text(at: int | None) -> str:
    """Return the time of the next timer, as lib/evaluation.lua expects it."""
    return "-" if at is None else str(at)


def _flatten(tallies: Mapping[str, int]) -> list[Arg]:
    return [part for pair in tallies.items() for part in pair]


def shards_with_due_timers(database: Database, layout: Layout) -> list[Shard]:
    """Return the shards that have evaluations with a due timer."""
    nows = zip(layout.all, onward_now(database, layout.all), strict=True)
    replies = database.pipeline(
        [("ZRANGE", shard.key("timers"), "-inf", now, "BYSCORE", "LIMIT", 0, 1) for shard, now in nows]
    )
    return [shard for shard, found in zip(layout.all, replies, strict=True) if found]


def _counts(state: bytes | None, delivered: bytes | None, expired: bytes | None) -> EvaluationCounts:
    decoded = None if state is None else _decode_state(state)
    calls, fires, errors = (decoded.calls, decoded.fires, decoded.errors) if decoded else (0, 0, 0)
    return EvaluationCounts(calls, fires, int(delivered or 0), int(expired or 0), errors)
