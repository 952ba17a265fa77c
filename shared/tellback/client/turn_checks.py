"""What may be passed to the calls on turns; every refusal is an `InvalidInput` that names the argument."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import msgspec

from tellback.contracts.turns import MAX_LATE, OutgoingResponse
from tellback.errors import InvalidInput
from tellback.redaction import redact_text

MAX_NAME_BYTES: Final = 512
MAX_LANGUAGE: Final = 35  # what RFC 5646 asks buffers to hold
MAX_CODE_BYTES: Final = 200

Struct = TypeVar("Struct", bound=msgspec.Struct)


def milliseconds(seconds: float) -> int:
    """Seconds as what the scripts take; never 0."""
    return max(1, round(seconds * 1000))


def check_text(name: str, value: object, max_bytes: int | None) -> str:
    """Text that can be stored; not empty and not above `max_bytes`, where that is given."""
    if not isinstance(value, str):
        raise InvalidInput(f"{name}: a text, not {type(value).__name__}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name}: not valid Unicode text ({error.reason})") from error
    if max_bytes is not None and not 0 < size <= max_bytes:
        raise InvalidInput(f"{name}: 1 to {max_bytes} bytes as UTF-8, not {size}")
    return value


def check_name(name: str, value: object) -> str:
    """A name that stands in keys and ids."""
    text = check_text(name, value, MAX_NAME_BYTES)
    if "\0" in text:
        raise InvalidInput(f"{name}: must not contain a NUL character")
    return text


def check_language(language: object) -> str:
    """A language tag, known to us or not; none is empty."""
    if language is None:
        return ""
    text = check_text("language", language, None)
    if len(text) > MAX_LANGUAGE:
        raise InvalidInput(f"language: a tag of at most {MAX_LANGUAGE} characters, like 'de' or 'pt-BR'")
    return text


def check_seconds(name: str, value: object, limit: float) -> float:
    """Seconds in which a user is to be answered."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= limit:
        raise InvalidInput(f"{name}: seconds above 0 and up to turn_limit ({limit:g}), not {value!r}")
    return float(value)


def check_late(value: object) -> float | None:
    """Seconds after a fallback in which a late answer is still sent; None leaves it to the setting."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_LATE:
        raise InvalidInput(f"late_within: seconds, 0 to {MAX_LATE}, or None for the setting, not {value!r}")
    return float(value)


def check_wait(value: object) -> float:
    """Seconds to wait for a delivery; infinity is allowed."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidInput(f"wait: seconds, 0 or more, not {value!r}")
    return float(value)


def check_flag(name: str, value: object) -> bool:
    """True or False themselves: what is only like one is no message that a worker can read."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name}: True or False, not {value!r:.60}")
    return value


def check_metadata(metadata: object) -> Mapping[str, Any]:
    """The message's metadata; none is the same as empty."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidInput(f"metadata: a mapping, not {type(metadata).__name__}")
    return cast("Mapping[str, Any]", metadata)


def check_code(code: object) -> str:
    """An error's code, for operators."""
    return redact_text(check_text("code", code, MAX_CODE_BYTES))


def check_response(response: object) -> OutgoingResponse:
    """Something that a transport can send."""
    checked = check_struct("response", response, OutgoingResponse, "; OutgoingResponse.text_only('...') makes one")
    if checked.blank:
        raise InvalidInput("response: blank; use no_reply(reason=...) for intended silence")
    checked.check()
    return checked


def check_struct(name: str, value: object, kind: type[Struct], hint: str = "") -> Struct:
    """A message of ours whose fields are of their types, which constructing one does not check."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{name}: a value of type {kind.__name__}, not {type(value).__name__}{hint}")
    try:
        return msgspec.convert(msgspec.to_builtins(value), kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidInput(f"{name}: {error}") from error
