"""For how long a late answer is sent, by channel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from tellback.contracts.turns import MAX_LATE
from tellback.errors import ConfigurationError


@lru_cache(maxsize=16)  # settings: a process has one
def late_by_channel(setting: str) -> Mapping[str, float]:
    """The seconds of each channel that `web=0,telegram=86400` names.

    Raises:
        ConfigurationError: it is written otherwise, or a time is out of range; names the variable.
    """
    found: dict[str, float] = {}
    for entry in setting.split(","):
        if not entry.strip():
            continue
        channel, _, seconds = (part.strip() for part in entry.rpartition("="))
        try:
            value = float(seconds)
        except ValueError:
            value = math.nan
        if not channel or not 0 <= value <= MAX_LATE:
            raise ConfigurationError(
                f"TELLBACK_CHANNEL_LATE_WITHIN: {entry.strip()!r}: write CHANNEL=SECONDS,… with 0 to {MAX_LATE} seconds"
            )
        found[channel] = value
    return found
