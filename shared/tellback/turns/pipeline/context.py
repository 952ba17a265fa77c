"""The types of a turn's pipeline: the context that its systems read and write, and the protocol of a system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from tellback.contracts.turns import (
    AUTO_MODE,
    VOICE,
    HostMessage,
    LlmError,
    LlmResponse,
    OutgoingResponse,
    RoutingOutcome,
    SystemFailure,
    metadata_of,
    role_of,
)


@dataclass(frozen=True, slots=True)
class TurnAbout:
    """The turn's id, channel, conversation and language. Each may be unknown."""

    id: str = ""
    channel: str = ""
    conversation: str = ""
    language: str | None = None


@dataclass(slots=True, kw_only=True)
class TurnContext:
    """One turn in the pipeline.

    `messages` is the host's own history, which no system may change. `failure_code` tells operators why the
    `outgoing_response` isn't the model's answer; it is empty if it is.
    """

    messages: Sequence[HostMessage] = ()
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
        """Return True if the last message is in auto mode: its `metadata["auto.mode"]` is exactly true."""
        # Exactly true: a host's stray value such as "false" must not leave a user without an answer.
        return bool(self.messages) and metadata_of(self.messages[-1]).get(AUTO_MODE) is True

    @property
    def spoken_to(self) -> bool:
        """Return True if the user's last message was spoken: its `metadata["voice"]` is exactly true."""
        said = next((message for message in reversed(self.messages) if role_of(message) == "user"), None)
        return said is not None and metadata_of(said).get(VOICE) is True


@runtime_checkable
class AgentSystem(Protocol):
    """One step of the pipeline. Lower orders run first.

    A system that raises has no effect; its failure is recorded and the later systems still run.
    """

    @property
    def name(self) -> str:
        """The name in logs and `system_errors`, unique within a pipeline."""
        ...

    @property
    def order(self) -> int | float:
        """The position: below 57 to act before a response is prepared, above 60 to see the outcome."""
        ...

    def should_process(self, context: TurnContext) -> bool:
        """Return True to have `process` called."""
        ...

    def process(self, context: TurnContext) -> None:
        """Apply the step by changing the context."""
        ...
