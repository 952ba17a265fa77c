"""Cuts what is too long: on the host before publishing, and once more for what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from tellback.contracts.guidance import ToolCall, ToolInvoked
from tellback.contracts.message import MAX_FIELD_BYTES

KEPT_BYTES: Final = 2 << 10
_LEAF_BYTES: Final = 256
_DEPTH: Final = 32

_encode = msgspec.json.Encoder().encode


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


def cut_params(params: dict[str, Any], limit: int = MAX_FIELD_BYTES) -> dict[str, Any]:
    """Arguments whose JSON has at most `limit` bytes: long texts are cut first, then all becomes one text."""
    if len(_encode(params)) <= limit:
        return params
    shortened: dict[str, Any] = _shorten(params)
    text = _encode(shortened)
    if len(text) <= limit:
        return shortened
    return {"…": cut_text(text.decode(), limit // 2)}  # half: quotes within are escaped once more


def _shorten(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return cut_text(value, _LEAF_BYTES)
    if not isinstance(value, dict | list):
        return value
    if depth == _DEPTH:
        return "…"
    if isinstance(value, dict):
        return {key: _shorten(item, depth + 1) for key, item in cast("dict[str, Any]", value).items()}
    return [_shorten(item, depth + 1) for item in cast("Sequence[Any]", value)]


def tool_call_json(event: ToolInvoked, at_ms: int, call_index: int) -> bytes:
    """The call as it is kept: the JSON of a `ToolCall` in which each field has at most `KEPT_BYTES`."""
    call = ToolCall(
        at=at_ms,
        tool=event.tool,
        call_index=call_index,
        prompt=event.prompt,
        evaluation=event.evaluation,
        params=event.params,
        status=event.status,
        result=event.result,
        error=event.error,
        duration_ms=event.duration_ms,
        call_id=event.call_id,
        outcome=event.outcome,
    )
    raw = _encode(call)
    if len(raw) <= KEPT_BYTES:  # then no field of it is longer
        return raw
    return _encode(
        msgspec.structs.replace(
            call,
            params=cut_params(call.params, KEPT_BYTES),
            result=None if call.result is None else cut_text(call.result, KEPT_BYTES),
            error=None if call.error is None else cut_text(call.error, KEPT_BYTES),
            call_id=None if call.call_id is None else cut_text(call.call_id, _LEAF_BYTES),
        )
    )
