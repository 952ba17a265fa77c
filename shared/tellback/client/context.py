"""What every call of a client needs, made once by `connect`."""

from __future__ import annotations

from dataclasses import dataclass

from tellback.messaging.publisher import Publisher
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout


@dataclass(frozen=True, slots=True)
class Context:
    """A team's state, and the way in to it; `quick` is the same Redis for calls that must not wait."""

    settings: Settings
    database: Database
    quick: Database
    layout: Layout
    publisher: Publisher
