"""Custom systems of the turns' pipeline run here: whatever they do, the systems after them still run."""

from __future__ import annotations

from collections.abc import Callable

from tellback import clock
from tellback.guidance.provider import ProviderFailure
from tellback.settings import Settings
from tellback.turns.pipeline.loading import load_systems
from tellback.turns.pipeline.runner import SystemStopped, TurnPipeline
from tellback.turns.pipeline.system import AgentSystem
from tellback_workers.isolation import call_within


class SystemGuard:
    """Calls the custom systems of one batch: each within a time, all within a budget.

    A step that hangs is ended, what it prints goes nowhere, and `sys.exit` is a failure as any other.
    """

    def __init__(self, *, timeout: float, budget: float) -> None:
        """Take the longest time of one step, and of all together, in seconds."""
        self._timeout = timeout
        self._left = budget

    def __call__(self, _system: AgentSystem, step: Callable[[], None]) -> None:
        """Run the step.

        Raises:
            SystemStopped: it raised, which is the cause; or it was ended, or not run at all.
        """
        if self._left <= 0:
            raise SystemStopped("was not run: the systems of these turns have used up their time")
        start = clock.monotonic()
        try:
            call_within(min(self._timeout, self._left), step)
        except ProviderFailure as failure:
            raise SystemStopped(str(failure)) from failure.__cause__
        finally:
            self._left -= clock.monotonic() - start


def pipeline_of(settings: Settings, *, custom: bool) -> TurnPipeline:
    """The pipeline that a worker of these settings runs, with or without systems of others.

    Raises:
        ConfigurationError: a system, a catalog or a language is not as it should be.
    """
    return TurnPipeline(
        load_systems(settings.systems) if custom else (),
        words=settings.words,
        interpret_errors=settings.interpret_errors,
        voice_channels=settings.spoken_channels,
    )
