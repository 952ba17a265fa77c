"""What every call of a client needs, made once by `connect`."""

from __future__ import annotations

from dataclasses import dataclass, field

from tellback.client.in_process import InProcess
from tellback.messaging.publisher import Publisher
from tellback.settings import Settings
from tellback.state.away import Away
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

    away: Away = field(default_factory=Away, init=False)
    """Whether `quick` got no answer just now."""

    told: dict[str, str] = field(default_factory=dict[str, str], init=False)
    """By bank the last event about its facts that this client has told and not yet seen applied."""
    in_process: InProcess = field(init=False)
    """Answers recalls here, where the settings say so."""

    def __post_init__(self) -> None:
        """Begin them."""
        object.__setattr__(self, "doorbell", Doorbell(self.quick))
        object.__setattr__(self, "health", Cooling(ToolHealth(self.quick, self.layout), self.away))
        object.__setattr__(self, "in_process", InProcess(self.settings, self.database, self.layout))
