"""How an evaluation's hash holds it: the state, and beside it the newest tool calls in fields of their own.

The calls are a ring: call n stands in the field of n modulo their number. So a commit writes the calls that are new and
no others, which are most of an evaluation's bytes.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

import msgspec

from tellback.guidance.state import RECENT_CALLS, EvaluationState

_CALLS: Final = tuple(f"call:{n}" for n in range(RECENT_CALLS))
FIELDS: Final = ("version", "state", "takes", "taken_at", *_CALLS)
"""What is loaded of an evaluation; what follows `taken_at` are the lines that `restored` takes."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(EvaluationState).decode


def restored(raw: bytes, lines: Sequence[bytes | None]) -> tuple[EvaluationState, int]:
    """A state with its newest calls, and up to which call Redis holds them by themselves.

    A state that an earlier version has stored brings calls with it: the newest, which stand nowhere else.
    """
    state = _decode(raw)
    kept = state.calls - len(state.recent)
    oldest = max(1, state.calls - RECENT_CALLS + 1)
    older = [lines[n % RECENT_CALLS] for n in range(oldest, kept + 1)]
    state.recent = [*[msgspec.Raw(line) for line in older if line is not None], *state.recent]
    return state, kept


def without_calls(state: EvaluationState) -> bytes:
    """The state as it is written."""
    recent, state.recent = state.recent, []
    try:
        return _encode(state)
    finally:
        state.recent = recent


def new_calls(state: EvaluationState, kept: int) -> list[str | bytes]:
    """Field and line, in turn, of the calls after call `kept`, as they are written."""
    calls = state.recent[-(state.calls - kept) :] if state.calls > kept else []
    first = state.calls - len(calls) + 1
    return [part for n, call in enumerate(calls, first) for part in (_CALLS[n % RECENT_CALLS], bytes(call))]


def new_version() -> bytes:
    """What tells a state from every other; a count would not, where Redis comes back without its last second."""
    return b"%d" % (1 + secrets.randbits(52))  # a whole number of Lua, as earlier versions expect


def size_of(written: bytes, state: EvaluationState) -> int:
    """The bytes of a state, about, given how it was written."""
    return len(written) + sum(map(len, state.recent))
