"""Which tools cool down across the fleet, as suggestions ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Health(Protocol):
    """Knows which tools have asked the whole fleet to wait."""

    def cooling(self, tools: Sequence[str]) -> Mapping[str, float]:
        """Those of `tools` that cool down, with the seconds left; never blocks for long, empty when it cannot tell."""
        ...


class NoHealth:
    """Knows of no tool."""

    def cooling(self, tools: Sequence[str]) -> Mapping[str, float]:  # noqa: ARG002 - the protocol's form
        """Nothing."""
        return {}
