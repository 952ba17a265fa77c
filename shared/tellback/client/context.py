"""What every call of a client needs, made once by `connect`."""

from __future__ import annotations

from dataclasses import dataclass, field

from tellback.messaging.publisher import Publisher
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.doorbell import Doorbell
from tellback.state.keys import Layout
from tellback.state.tool_health import Cooling, ToolHealth


@dataclass(frozen=True, slots=True)
class Context:
    """A team's state, and the way in to it; `quick` is the same Redis for calls that must not wait."""

    settings: Settings
    database: Database
    quick: Database
    layout: Layout
    publisher: Publisher
    doorbell: Doorbell = field(init=False)
    """Waits for a mailbox to have something."""
    health: Cooling = field(init=False)
    """Which tools the team finds refusing: one memory for all prompts of this client."""

    def __post_init__(self) -> None:
        """Begin them."""
        object.__setattr__(self, "doorbell", Doorbell(self.quick))
        object.__setattr__(self, "health", Cooling(ToolHealth(self.quick, self.layout)))
