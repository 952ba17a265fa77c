"""The stored form of an evaluation, and a cache of those that this process committed last.

An evaluation's hash has its state in one field and each of its newest tool calls in a field of its own: call n is in
field n modulo their number. The calls are most of an evaluation's bytes, and a commit writes only the new ones. The
cache saves loading an evaluation again for the next batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from threading import Lock
from typing import Final, NamedTuple

import msgspec

from tellback.contracts.guidance import EvaluationBegun, ToolInvoked, outcome_word
from tellback.contracts.message import Message
from tellback.forks import run_in_child
from tellback.guidance.state import RECENT_CALLS, EvaluationState
from tellback.state.intake_lease import Lease
from tellback.state.keys import Shard

_CALLS: Final = tuple(f"call:{n}" for n in range(RECENT_CALLS))

STATE_FIELDS: Final = ("version", "state", "takes", "taken_at", *_CALLS)
"""The fields that a load reads; those after `taken_at` are the lines that `decode_state` takes."""


class EvaluationId(NamedTuple):
    """The id of one evaluation; events of one evaluation never count in another."""

    session: str
    prompt: str
    evaluation: str


class LoadedEvaluation(msgspec.Struct, frozen=True, gc=False):  # no dataclass: a worker makes one for each commit
    """An evaluation as Redis has it, and which of the requested event ids it has seen.

    `generation` counts how often its mailbox was emptied. Calls up to `stored_calls` have fields of their own. If
    `checked_seen` is False, the commit checks the ids.
    """

    version: bytes
    state: EvaluationState | None
    seen: frozenset[str]
    generation: int = 0
    stored_calls: int = 0
    checked_seen: bool = True


_encode = msgspec.json.Encoder().encode

_decode = msgspec.json.Decoder(EvaluationState).decode


def decode_state(raw: bytes, lines: Sequence[bytes | None]) -> tuple[EvaluationState, int]:
    """Return a state with its newest calls, and the number of the last call that has a field of its own.

    A state that an earlier version stored contains its newest calls itself, and they have no fields.
    """
    state = _decode(raw)
    kept = state.calls - len(state.recent)
    oldest = max(1, state.calls - RECENT_CALLS + 1)
    older = [lines[n % RECENT_CALLS] for n in range(oldest, kept + 1)]
    state.recent = [*[msgspec.Raw(line) for line in older if line is not None], *state.recent]
    return state, kept


def encode_state(state: EvaluationState) -> bytes:
    """Encode the state without its calls, which have fields of their own."""
    recent, state.recent = state.recent, []
    try:
        return _encode(state)
    finally:
        state.recent = recent


def encode_new_calls(state: EvaluationState, kept: int) -> list[str | bytes]:
    """Return field and line, in turn, of the calls after call `kept`."""
    calls = state.recent[-(state.calls - kept) :] if state.calls > kept else []
    first = state.calls - len(calls) + 1
    return [part for n, call in enumerate(calls, first) for part in (_CALLS[n % RECENT_CALLS], bytes(call))]


_versions: Final = Random()  # noqa: S311 - nobody has to guess a version; its own, since providers may seed the module's
run_in_child(_versions.seed)  # else each child of a worker would continue with the same


def new_version() -> bytes:
    """Return a random version. A counter could repeat one after Redis came back without its last second."""
    # No `secrets`, which makes a system call. Below 2^53, exact as a Lua number, which earlier versions expect.
    return b"%d" % (1 + _versions.getrandbits(52))


def state_size(written: bytes, state: EvaluationState) -> int:
    """Estimate the bytes of a state from its encoded form."""
    return len(written) + sum(map(len, state.recent))


MAX_EVALUATIONS: Final = 1_024

MAX_BYTES: Final = 16 << 20  # a state may be large: the number alone would not bound a process's memory


class EvaluationCache:
    """The evaluations that were committed last, bounded in number and bytes; the oldest is evicted.

    A stale entry is harmless: the commit compares versions and fails, and the evaluation is loaded. With a new lease
    nothing counts as cached, because another consumer may have held the stream in between. So what was cached under a
    lease is forgotten with it: the evaluations of thousands of teams filled the cache of each process for nothing.
    """

    def __init__(self) -> None:
        # In the order of `put`: `take` removes what it returns, so the first is the one that was used least recently.
        # No cache of cachetools: its calls hash the key several times, for each commit.
        self._cached: dict[tuple[Shard, EvaluationId], tuple[int, LoadedEvaluation, int]] = {}
        self._bytes = 0
        self._lock = Lock()  # the threads of a pool share the cache

    def __len__(self) -> int:
        """Return how many evaluations are cached."""
        return len(self._cached)

    def take(self, lease: Lease, id_: EvaluationId) -> LoadedEvaluation | None:
        """Remove and return the evaluation as it was committed under this lease; the caller may change it."""
        with self._lock:
            found = self._remove((lease.shard, id_))
        if found is None:
            return None
        fence, loaded, _ = found
        return loaded if fence == lease.fence else None

    def put(self, lease: Lease, id_: EvaluationId, loaded: LoadedEvaluation, size: int) -> None:
        """Cache an evaluation of `size` bytes as it was committed under this lease."""
        key = (lease.shard, id_)
        with self._lock:
            self._remove(key)
            if size > MAX_BYTES:
                return
            while len(self._cached) >= MAX_EVALUATIONS or self._bytes + size > MAX_BYTES:
                self._remove(next(iter(self._cached)))
            self._cached[key] = (lease.fence, loaded, size)
            self._bytes += size

    def forget(self, leases: Iterable[Lease]) -> None:
        """Remove what was cached under these leases, which end."""
        ended = {lease.shard for lease in leases}
        with self._lock:
            for key in [key for key in self._cached if key[0] in ended]:
                self._remove(key)

    def _remove(self, key: tuple[Shard, EvaluationId]) -> tuple[int, LoadedEvaluation, int] | None:
        found = self._cached.pop(key, None)
        if found is not None:
            self._bytes -= found[2]
        return found


def newest_fields(messages: Sequence[Message]) -> list[str]:
    """Return what these events change of `SessionActivity`, as field and value in turn."""
    call: ToolInvoked | None = None
    host = ""
    for each in messages:
        if type(each) is ToolInvoked:
            call = each
        elif type(each) is EvaluationBegun:
            host = each.host or host
    found: list[str] = []
    if call is not None:
        status = outcome_word(call.outcome.code if call.outcome else None, call.status)
        found += ["tool", call.tool, "status", status, "prompt", call.prompt]
    return [*found, "host", host] if host else found
