"""Cuts of texts and arguments, with the standard library alone: `tellback hook` makes them too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from tellback.contracts.limits import MAX_FIELD_BYTES

LEAF_BYTES: Final = 256
_DEPTH: Final = 32


def cut_text(text: str, limit: int = MAX_FIELD_BYTES) -> str:
    """The text in at most `limit` bytes of UTF-8, with a marker that tells how many were left out."""
    if len(text) * 4 <= limit:
        return text
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    marker = f" …[{len(raw) - limit} bytes cut]"
    room = max(0, limit - len(marker.encode()) - 8)  # 8: the number may grow by what the marker itself takes
    kept = raw[:room].decode("utf-8", "ignore")
    return f"{kept} …[{len(raw) - len(kept.encode())} bytes cut]"


def cut_arguments(
    params: dict[str, Any], encode: Callable[[object], bytes], limit: int = MAX_FIELD_BYTES
) -> dict[str, Any]:
    """Arguments whose JSON, as `encode` makes it, has at most `limit` bytes.

    Long texts are cut first, then all becomes one text.
    """
    if len(encode(params)) <= limit:
        return params
    shortened: dict[str, Any] = _shorten(params)
    text = encode(shortened)
    if len(text) <= limit:
        return shortened
    return {"…": cut_text(text.decode(), limit // 2)}  # half: quotes within are escaped once more


def _shorten(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return cut_text(value, LEAF_BYTES)
    if not isinstance(value, dict | list):
        return value
    if depth == _DEPTH:
        return "…"
    if isinstance(value, dict):
        return {key: _shorten(item, depth + 1) for key, item in cast("dict[str, Any]", value).items()}
    return [_shorten(item, depth + 1) for item in cast("Sequence[Any]", value)]
