"""What the systems of a turn's pipeline read and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tellback.contracts.llm import (
    AUTO_MODE,
    VOICE,
    AnyMessage,
    LlmError,
    LlmResponse,
    SystemFailure,
    metadata_of,
    role_of,
)
from tellback.contracts.turns import OutgoingResponse, RoutingOutcome


@dataclass(frozen=True, slots=True)
class TurnAbout:
    """Which turn it is: its id, where it belongs, and the user's language. All may be unknown."""

    id: str = ""
    channel: str = ""
    conversation: str = ""
    language: str | None = None


@dataclass(slots=True, kw_only=True)
class TurnContext:
    """One turn on its way through the pipeline.

    `messages` is the host's own history, which no system may change. `failure_code` tells operators why the
    `outgoing_response` is no answer of the model's; it is empty where it is one.
    """

    messages: Sequence[AnyMessage] = ()
    llm_response: LlmResponse | None = None
    llm_error: LlmError | None = None
    system_errors: list[SystemFailure] = field(default_factory=list[SystemFailure])
    outgoing_response: OutgoingResponse | None = None
    final_answer_ready: bool = False
    routing_outcome: RoutingOutcome | None = None
    turn: TurnAbout = TurnAbout()
    failure_code: str = ""

    @property
    def auto(self) -> bool:
        """Whether the last message is of auto mode: its `metadata["auto.mode"]` is true, exactly."""
        return bool(self.messages) and metadata_of(self.messages[-1]).get(AUTO_MODE) is True

    @property
    def spoken_to(self) -> bool:
        """Whether the user's last message was a voice message: its `metadata["voice"]` is true, exactly."""
        said = next((message for message in reversed(self.messages) if role_of(message) == "user"), None)
        return said is not None and metadata_of(said).get(VOICE) is True
