"""Numbers of the wire, where what must start fast can read them without importing the messages."""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 1
MAX_MESSAGE_BYTES: Final = 1 << 20
MAX_FIELD_BYTES: Final = 64 << 10
NAME_MAX: Final = 256  # characters of a prompt's, an evaluation's, a tool's name
SESSION_MAX: Final = 512
STATUS_MAX: Final = 64
HOOK_ID: Final = "hook-"  # begins the ids of what `tellback hook` publishes; its calls come without an outcome
