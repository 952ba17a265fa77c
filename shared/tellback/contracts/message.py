"""The base of every fact that enters through an intake stream."""

from __future__ import annotations

import itertools
import os
import secrets
from typing import ClassVar

import msgspec

from tellback.contracts.limits import MAX_FIELD_BYTES, MAX_MESSAGE_BYTES, SCHEMA_VERSION
from tellback.names import Family

__all__ = ["MAX_FIELD_BYTES", "MAX_MESSAGE_BYTES", "SCHEMA_VERSION", "Message", "new_event_id"]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """A fact: something that happened. `event_id` makes a second delivery harmless; `v` is the schema version."""

    family: ClassVar[Family]

    event_id: str
    v: int = SCHEMA_VERSION

    @property
    def routing(self) -> str:
        """The text whose hash chooses the shard."""
        raise TypeError(f"{type(self).__name__} declares no routing")


class _EventIds:
    """Ids unique across processes and hosts: a random prefix for each process, then a counter."""

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._prefix = secrets.token_hex(8)
        self._count = itertools.count()

    def __call__(self) -> str:
        return f"{self._prefix}-{next(self._count):x}"


new_event_id = _EventIds()
