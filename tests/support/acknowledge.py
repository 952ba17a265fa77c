"""The smallest commit: nothing but the acknowledgement."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from tellback.state.intake_lease import IntakeEntry, Lease
from tellback.state.lua_text import prelude, with_includes
from tellback.state.script_calls import Script, ScriptCall

_HEADER = "-- keys: intake, lease\n-- args:\n--   fence int\n--   entries text\n"


_OWN = "if fenced() then return 'fenced' end ack() return 'ok'"
_TEXT = prelude(_HEADER) + with_includes("lib/intake") + _OWN


class _Acknowledge(Script):
    @property
    def source(self) -> str:
        return _TEXT


_acknowledge = _Acknowledge("acknowledge", hashlib.sha1(_TEXT.encode(), usedforsecurity=False).hexdigest())


def acknowledge(lease: Lease, entries: Sequence[IntakeEntry]) -> ScriptCall:
    """Build the call that takes these entries out of their stream."""
    parts = lease.commit_of(entries)
    return _acknowledge.call([lease.stream, lease.key], [parts["fence"], parts["entries"]])
