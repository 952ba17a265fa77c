"""The constants that Lua scripts share with Python: a script's `-- constants: NAME, NAME` line declares them there.

Each is imported here from the Python module that owns it. The hook loads this module at each call, so it must import no
more than such modules. `NAME_LIFETIME` is the lifetime of the family NAME of `keys.FAMILIES`, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tellback.contracts.signal_types import DECAY_PER_WEEK, KINDS, NEUTRAL, WEEK_MS
from tellback.state.keys import DAY, FAMILIES, HOUR, MINUTE

CONSTANTS: Final[Mapping[str, float | str | tuple[str, ...]]] = {
    "MINUTE_MS": MINUTE * 1_000,
    "HOUR_MS": HOUR * 1_000,
    "DAY_MS": DAY * 1_000,
    "WEEK_MS": WEEK_MS,
    "NEUTRAL": NEUTRAL,
    "DECAY_PER_WEEK": DECAY_PER_WEEK,
    "SIGNAL_TYPES": KINDS,
    **{
        f"{family.name.replace('-', '_').upper()}_LIFETIME": family.lifetime * 1_000
        for family in FAMILIES.values()
        if family.lifetime is not None
    },
}
