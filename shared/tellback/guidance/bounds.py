"""Cuts what is too long: on the host before publishing, and once more for what is kept."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tellback.contracts.guidance import ToolCall, ToolInvoked
from tellback.contracts.message import MAX_FIELD_BYTES
from tellback.guidance.cuts import LEAF_BYTES, cut_arguments, cut_text

__all__ = ["KEPT_BYTES", "cut_params", "cut_text", "tool_call_json"]

KEPT_BYTES: Final = 2 << 10

_encode = msgspec.json.Encoder().encode


def cut_params(params: dict[str, Any], limit: int = MAX_FIELD_BYTES) -> dict[str, Any]:
    """Arguments whose JSON has at most `limit` bytes: long texts are cut first, then all becomes one text."""
    return cut_arguments(params, _encode, limit)


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
            call_id=None if call.call_id is None else cut_text(call.call_id, LEAF_BYTES),
        )
    )
