"""What a turn's pipeline begins with: the model's response or error, the messages' metadata, what failed on the way.

Source: feedback-guarantee, "Inputs".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta

from tellback.contracts.limits import MAX_FIELD_BYTES

AUTO_MODE: Final = "auto.mode"
VOICE: Final = "voice"
MAX_CODE: Final = 200
MAX_NOTE: Final = 300  # characters of what an error says
MAX_FAILURES: Final = 20

LoopLimit = Literal["tool_calls", "llm_calls", "time", "tokens"]
"""Which limit stopped a host's tool loop before it had an answer."""


class LlmResponse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model gave. A `text` that begins with 🔊 asks to be spoken; `voice` says other words for that.

    `tool_calls` counts the calls that it still asks for, `limit` says what stopped the loop, `finish_reason` is the
    provider's own word.
    """

    text: Annotated[str, Meta(max_length=MAX_FIELD_BYTES)] | None = None
    voice: Annotated[str, Meta(max_length=MAX_FIELD_BYTES)] | None = None
    attachments: Annotated[tuple[str, ...], Meta(max_length=32)] = ()
    tool_calls: Annotated[int, Meta(ge=0)] = 0
    limit: LoopLimit | None = None
    finish_reason: Annotated[str, Meta(max_length=64)] = ""

    @property
    def blank(self) -> bool:
        """Whether there is nothing to read, hear or open."""
        return not ((self.text or "").strip() or (self.voice or "").strip() or self.attachments)


class LlmError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why there is no answer. It wins over a response even where it says nothing. Never shown to a user."""

    code: Annotated[str, Meta(max_length=MAX_CODE)] = ""
    message: Annotated[str, Meta(max_length=MAX_NOTE)] = ""


class SystemFailure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A system that failed: its name, the error's type, one redacted line of what it says. Never shown to a user."""

    system: Annotated[str, Meta(max_length=MAX_CODE)]
    error: Annotated[str, Meta(max_length=MAX_CODE)] = ""
    message: Annotated[str, Meta(max_length=MAX_NOTE)] = ""


class TurnMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message of the conversation without its text: who speaks, and what is known of it.

    `metadata["auto.mode"]` that is true, exactly, means that nobody waits; `metadata["voice"]`, that it was spoken.
    """

    role: Annotated[str, Meta(max_length=64)] = "user"
    metadata: dict[str, Any] = {}


AnyMessage = TurnMessage | Mapping[str, Any]
"""A message of ours, or one as hosts have them: a mapping with `role` and perhaps `metadata`."""


def metadata_of(message: AnyMessage) -> Mapping[str, Any]:
    """A message's metadata; empty where it has none, or what is no mapping, and where it is no message."""
    found: Any = message.metadata if isinstance(message, TurnMessage) else _get(message, "metadata")
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def role_of(message: AnyMessage) -> str:
    """Who speaks; empty where the message does not say, or is none."""
    found: Any = message.role if isinstance(message, TurnMessage) else _get(message, "role")
    return found if isinstance(found, str) else ""


def _get(message: object, name: str) -> Any:
    """What hosts keep as messages is theirs, and may be anything."""
    return cast("Mapping[str, Any]", message).get(name) if isinstance(message, Mapping) else None
