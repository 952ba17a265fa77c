"""Every error of Tellback, in one tree: catch a class, or `TellbackError` for all.

TellbackError
├── InvalidInput (ValueError)       an argument is wrong; nothing was published or stored
├── ConfigurationError              a setting is wrong, or two hosts disagree about one
├── MessageError                    an entry that cannot be applied; carries the raw bytes
│   ├── MalformedMessage            not JSON, not of the schema
│   ├── UnsupportedVersion          written with another schema
│   └── MessageTooLarge             above the limit of one entry
├── Unavailable                     Redis, a worker or the model does not answer; try again later
│   └── SpoolFull                   Redis is unavailable and the disk spool has reached its cap
├── Timeout (TimeoutError)          the caller's time ran out; the work continues
├── NotFound (LookupError)          no such record, turn, fact or dead letter
└── StateConflict                   the object is in a state that does not allow the call
"""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 4_000  # characters of a message; it may quote an argument of any length, and goes into logs


class TellbackError(Exception):
    """The base class of every error that Tellback raises. A long message loses its middle: its end is the next step."""

    def __init__(self, message: str = "") -> None:
        if len(message) > _LONGEST:
            message = f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
        super().__init__(message)


class InvalidInput(TellbackError, ValueError):
    """An argument is wrong; the message names it, and nothing was published or stored."""


class ConfigurationError(TellbackError):
    """A setting is missing or wrong, or two hosts of one team disagree about one."""


class MessageError(TellbackError):
    """An entry that cannot be applied; `reason` is for a person, `raw` has its original bytes for the dead letters."""

    def __init__(self, reason: str, raw: bytes) -> None:
        super().__init__(reason)
        self.reason = reason
        self.raw = raw


class MalformedMessage(MessageError):
    """The entry is not JSON, or does not match the schema."""


class UnsupportedVersion(MessageError):
    """The entry was written with a schema version that this release does not know."""


class MessageTooLarge(MessageError):
    """The entry is larger than a message may be."""


class Unavailable(TellbackError):
    """Redis, a worker or the model does not answer; the call had no known effect and you can retry it."""


class SpoolFull(Unavailable):
    """Redis is unavailable and the disk spool has reached its cap: the event was not accepted."""


# Also a TimeoutError, as NotFound is a LookupError and InvalidInput a ValueError: code that knows only the standard
# library's errors can catch them.
class Timeout(TellbackError, TimeoutError):
    """The caller's time ran out; the work may still complete."""


class NotFound(TellbackError, LookupError):
    """No such command, turn, fact or dead letter."""


class StateConflict(TellbackError):
    """The object is in a state that does not allow the call; nothing was changed."""
