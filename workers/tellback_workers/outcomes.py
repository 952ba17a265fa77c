"""Calls that `tellback hook` published get their outcome here: its process must cost an agent next to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.limits import HOOK_ID
from tellback.guidance.observations.published import outcome_of
from tellback.state.intake import Entry


def with_outcomes(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries, those of hooks with what their calls came to; the same ones where none is a hook's."""
    if not any(_is_hooks(entry) for entry in entries):
        return entries
    return [_classified(entry) if _is_hooks(entry) else entry for entry in entries]


def _is_hooks(entry: Entry) -> bool:
    message = entry.message
    return isinstance(message, ToolInvoked) and message.outcome is None and message.event_id.startswith(HOOK_ID)


def _classified(entry: Entry) -> Entry:
    event = entry.message
    assert isinstance(event, ToolInvoked)  # `_is_hooks` said so
    outcome = outcome_of(event, datetime.fromtimestamp(entry.at_ms / 1000, UTC))
    return msgspec.structs.replace(entry, message=msgspec.structs.replace(event, outcome=outcome))
