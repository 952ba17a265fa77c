"""What a system of the pipeline is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tellback.turns.pipeline.context import TurnContext


@runtime_checkable
class AgentSystem(Protocol):
    """One step. Lower orders run first; one that raises has no effect, is recorded, and the later ones still run."""

    @property
    def name(self) -> str:
        """How operators know it; no two systems of a pipeline share one."""
        ...

    @property
    def order(self) -> int | float:
        """Its place: below 57 to act before anything is prepared, 58 to 60 are ours, above 60 to see the outcome."""
        ...

    def should_process(self, context: TurnContext) -> bool:
        """Whether `process` is to be called."""
        ...

    def process(self, context: TurnContext) -> None:
        """Do the step, by changing the context."""
        ...
