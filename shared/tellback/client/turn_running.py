"""The pipeline in the host's own process: what it prepares goes into the outbox at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from tellback.contracts.turns import Answered, OutgoingResponse, RoutingOutcome
from tellback.errors import InvalidInput, NotFound, TellbackError
from tellback.settings import Settings
from tellback.turns.pipeline.context import TurnAbout, TurnContext
from tellback.turns.pipeline.runner import TurnPipeline

KEPT = frozenset({"accepted", "replaced", "late", "spooled"})


def pipeline_of(settings: Settings) -> TurnPipeline:
    """The pipeline without systems of others.

    Raises:
        ConfigurationError: a catalog or a language is not as it should be.
    """
    return TurnPipeline(
        words=settings.words, interpret_errors=settings.interpret_errors, voice_channels=settings.spoken_channels
    )


def run_turn(
    pipeline: TurnPipeline,
    context: TurnContext,
    about: TurnAbout,
    answer: Callable[[OutgoingResponse, str], Answered],
) -> TurnContext:
    """Run the pipeline; `answer` puts the response into the outbox, its second argument why it is no answer."""
    if isinstance(cast("object", context), TurnContext):  # else the pipeline says that it is none
        context.turn = about

    def queue(response: OutgoingResponse) -> RoutingOutcome:
        failed = context.llm_error.code or "unknown" if context.llm_error is not None else ""
        try:
            answered = answer(response, context.failure_code or failed)
        except TellbackError as error:
            permanent = isinstance(error, InvalidInput | NotFound)
            return RoutingOutcome(attempted=False, permanent=permanent, error=str(error))
        if answered in KEPT:
            return RoutingOutcome(attempted=False, queued=True)
        return RoutingOutcome(attempted=False, permanent=True, error=f"the outbox did not take it: {answered}")

    return pipeline.run(context, queue)
