"""Every error of Tellback.

TellbackError
├── InvalidInput (ValueError)       an argument is wrong; nothing was published or stored
├── ConfigurationError              a setting is wrong, or two hosts disagree about one
├── MessageError                    an intake entry that cannot be processed; carries the raw bytes
│   ├── MalformedMessage            not JSON, not of the schema
│   ├── UnsupportedVersion          written by a newer release
│   └── MessageTooLarge             above the limit of one entry
├── Unavailable                     Redis, a worker or the model does not answer; try again later
│   └── SpoolFull                   Redis is away and the disk spool has reached its cap
├── Timeout (TimeoutError)          the time that the caller gave ran out; the work goes on
├── NotFound (LookupError)          no such record, turn, fact or dead letter
└── StateConflict                   the object is in a state that does not allow the call
"""

from __future__ import annotations


class TellbackError(Exception):
    """Root of every error that Tellback raises."""


class InvalidInput(TellbackError, ValueError):
    """An argument is wrong; the message names it, and nothing was published or stored."""


class ConfigurationError(TellbackError):
    """A setting is missing or wrong, or two hosts of one team disagree about one."""


class MessageError(TellbackError):
    """An intake entry that cannot be processed; `raw` holds its bytes as they came."""

    def __init__(self, reason: str, raw: bytes) -> None:
        """Keep the `reason` for a person and the `raw` bytes for the dead letters."""
        super().__init__(reason)
        self.reason = reason
        self.raw = raw


class MalformedMessage(MessageError):
    """The entry is not JSON, or not of the message's schema."""


class UnsupportedVersion(MessageError):
    """The entry was written with a schema version that this release does not know."""


class MessageTooLarge(MessageError):
    """The entry is above the limit of one message."""


class Unavailable(TellbackError):
    """Redis, a worker or the model does not answer; the call had no known effect and may be tried again."""


class SpoolFull(Unavailable):
    """Redis is away and the disk spool has reached its cap: the fact was not accepted."""


class Timeout(TellbackError, TimeoutError):
    """The time that the caller gave ran out; what was asked for may still complete."""


class NotFound(TellbackError, LookupError):
    """No such command, turn, fact or dead letter."""


class StateConflict(TellbackError):
    """The object is in a state that does not allow the call; nothing was changed."""
