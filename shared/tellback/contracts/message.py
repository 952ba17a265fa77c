"""The base class of every event that enters through an intake stream, event ids, and the hook of encoders."""

from __future__ import annotations

import itertools
import secrets
from typing import Annotated, ClassVar

import msgspec

from tellback.contracts.limits import MAX_ID_CHARS, MAX_TRACEPARENT_CHARS, SCHEMA_VERSION
from tellback.forks import run_in_child
from tellback.names import Family


def plain_builtin(value: object) -> str | int | float:
    """Return the text or number of a subclass of `str`, `int` or `float`, none of which msgspec encodes.

    Libraries return many of them: NumPy's scalars, Beautiful Soup's strings, MarkupSafe's `Markup`. The methods are
    those of the base class, since a subclass may override its own.

    Raises:
        TypeError: it is of none of the three.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """An event: something that happened. `event_id` makes a repeated delivery harmless; `v` is the schema version.

    `traceparent` is the W3C trace context of its publisher. It is left out without tracing, so that earlier workers
    still read the message, and one that is not a trace context counts as none.
    """

    family: ClassVar[Family]

    event_id: Annotated[str, msgspec.Meta(max_length=MAX_ID_CHARS)]  # sets of ids are bounded in number, not in bytes
    # A default of a function is sent with `omit_defaults` too: the next version must not pass for this one.
    v: Annotated[int, msgspec.Meta(extra_json_schema={"default": SCHEMA_VERSION})] = msgspec.field(
        default_factory=lambda: SCHEMA_VERSION
    )
    traceparent: Annotated[str, msgspec.Meta(max_length=MAX_TRACEPARENT_CHARS)] | msgspec.UnsetType = msgspec.UNSET

    @property
    def routing(self) -> str:
        """The text whose hash selects the shard."""
        raise TypeError(f"{type(self).__name__} declares no routing")


class _EventIds:
    """A generator of ids unique across processes and hosts: a random prefix per process, then a counter.

    A UUID per event would cost a system call. A forked child takes a new prefix, so as not to repeat its parent's ids.
    """

    def __init__(self) -> None:
        self._reset()
        run_in_child(self._reset)

    def _reset(self) -> None:
        self._prefix = secrets.token_hex(8)
        self._count = itertools.count()

    def __call__(self) -> str:
        return f"{self._prefix}-{next(self._count):x}"


new_event_id = _EventIds()
