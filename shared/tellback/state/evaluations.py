"""Evaluations in Redis: loaded for a whole batch in one round trip, committed by compare-and-set, read by agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from tellback.contracts.guidance import Feedback
from tellback.guidance.evaluation import Effects, EvaluationState
from tellback.state.database import Arg, Database
from tellback.state.intake import Entry, Lease, committed
from tellback.state.keys import FAMILIES, Shard
from tellback.state.script import Call, Script

_MAIL_CAP: Final = FAMILIES["mail"].cap or 0
_HISTORY_CAP: Final = FAMILIES["hist"].cap or 0

_commit = Script("commit_evaluation")
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


@lru_cache(maxsize=4096)
def _keys(shard: Shard, id_: EvaluationId) -> _Keys:
    """Built once for each evaluation that is at work: quoting names for each batch would cost more than a step."""
    names = ("eval", "seen", "seen-old", "mail")
    evaluation, seen, seen_old, mail = (shard.key(name, *id_) for name in names)
    return _Keys(evaluation, seen, seen_old, mail, shard.key("hist", id_.session))


@dataclass(frozen=True, slots=True)
class Loaded:
    """An evaluation as Redis has it, and which of the event ids asked for it has seen."""

    version: bytes
    state: EvaluationState | None
    seen: frozenset[str]


@dataclass(frozen=True, slots=True)
class Change:
    """What a batch makes of one evaluation: every entry of it, the ids that are new, the state and its effects."""

    id: EvaluationId
    version: bytes
    state: EvaluationState
    entries: Sequence[Entry]
    fresh: Sequence[str]
    effects: Effects


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

    def __init__(self, database: Database, shard: Shard) -> None:
        """Take the Redis and the shard of their sessions."""
        self._db = database
        self._shard = shard

    def load(self, wanted: Mapping[EvaluationId, Sequence[str]]) -> dict[EvaluationId, Loaded]:
        """Each evaluation with what it has seen of these event ids, all in one round trip."""
        commands: list[Sequence[Arg]] = []
        for id_, events in wanted.items():
            keys = _keys(self._shard, id_)
            commands += [
                ("HMGET", keys.eval, "version", "state"),
                ("SMISMEMBER", keys.seen, *events),
                ("SMISMEMBER", keys.seen_old, *events),
            ]
        replies = iter(self._db.pipeline(commands))
        loaded: dict[EvaluationId, Loaded] = {}
        for (id_, events), (version, state), new, old in zip(wanted.items(), replies, replies, replies, strict=True):
            seen = frozenset(event for event, in_new, in_old in zip(events, new, old, strict=True) if in_new or in_old)
            loaded[id_] = Loaded(version or b"0", None if state is None else _decode_state(state), seen)
        return loaded

    def commit(self, lease: Lease, changes: Sequence[Change]) -> list[Change]:
        """Commit each change in a script of its own, all in one round trip; those that came too late are returned.

        Raises:
            Fenced: the lease has passed on; some of the changes may have been committed before.
        """
        replies = self._db.run_all([self._call(lease, change) for change in changes])
        return [change for change, reply in zip(changes, replies, strict=True) if not committed(reply)]

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
        call = _take.call([self._shard.key("op", operation), keys.mail, keys.eval])
        reply = msgspec.json.decode(self._db.run(call))
        return [_decode_feedback(item) for item in reply["feedback"]]

    def _call(self, lease: Lease, change: Change) -> Call:
        state, effects = change.state, change.effects
        keys = [*lease.keys, *_keys(self._shard, change.id)]
        feedback = [_encode(item) for item in effects.feedback[-_MAIL_CAP:]]
        history = effects.history[-_HISTORY_CAP:]
        counts = (change.version, _encode(state), state.calls, len(change.fresh), len(feedback))
        return _commit.call(keys, [*lease.args(change.entries), *counts, *change.fresh, *feedback, *history])


def _counts(state: bytes | None, delivered: bytes | None, expired: bytes | None) -> Counts:
    known = None if state is None else _decode_state(state)
    calls, fires, errors = (known.calls, known.fires, known.errors) if known else (0, 0, 0)
    return Counts(calls, fires, int(delivered or 0), int(expired or 0), errors)
