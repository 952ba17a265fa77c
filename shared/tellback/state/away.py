"""Redis does not answer: for a while nobody of this client asks it again for what must not wait."""

from __future__ import annotations

import math
from typing import Final

from tellback import clock

AWAY_SECONDS: Final = 0.5


class Away:
    """One for all prompts of a client: each that had to find out by itself would pay the patience again."""

    def __init__(self) -> None:
        """Redis is taken to be there."""
        self._until = -math.inf

    @property
    def lasts(self) -> bool:
        """Whether it is too early to ask again."""
        return clock.monotonic() < self._until

    def begin(self) -> None:
        """There was no answer just now."""
        self._until = clock.monotonic() + AWAY_SECONDS
