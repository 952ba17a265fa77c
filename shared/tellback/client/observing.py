"""Observing a tool call: classify it here, publish what it came to, and give the agent its text at once.

Source: actionable-feedback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tellback.client.context import Context
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.errors import InvalidInput
from tellback.guidance.observations.catalog import Catalog, catalog_of, load_catalog
from tellback.guidance.observations.evidence import Classifier, Evidence
from tellback.guidance.observations.feedback import ToolFeedback
from tellback.guidance.observations.memory import ObservationMemory
from tellback.guidance.observations.observer import Observer
from tellback.guidance.observations.suggesters import Suggesting
from tellback.guidance.observations.tools import ToolDeclaration
from tellback.guidance.observations.values import shown
from tellback.state.evaluations import EvaluationId

_STATUS_MAX: Final = 64


class Observations(msgspec.Struct, frozen=True, kw_only=True):
    """How a prompt's tool calls are observed: `tb.prompt(..., observations=Observations(...))`.

    `required_tools` must have succeeded before `check_answer` passes. `classifiers` are asked before ours. `suggesters`
    give a tool's own next steps. `language` is one of ours, `templates` a TOML file or a `Catalog`; without them the
    settings count. `memory` goes on with what another process remembers.
    """

    required_tools: tuple[str, ...] = ()
    classifiers: tuple[Classifier, ...] = ()
    suggesters: Mapping[str, Suggesting] | None = None
    language: str | None = None
    templates: str | Path | Catalog | None = None
    memory: ObservationMemory | None = None


def observer_of(
    context: Context, evaluation: str, tools: Iterable[ToolDeclaration], question: str | None, how: Observations
) -> Observer:
    """The observer of an evaluation.

    Raises:
        InvalidInput: a tool, a suggester or a required tool is none.
        ConfigurationError: there are no such templates or language, or they are wrong.
    """
    return Observer(
        tools=tools,
        question=question,
        classifiers=how.classifiers,
        suggesters=how.suggesters,
        catalog=_catalog(context, how),
        health=context.health,
        memory=how.memory,
        required_tools=_names(how.required_tools),
        seed=evaluation,
        suggester_patience=context.settings.provider_timeout,
    )


def _catalog(context: Context, how: Observations) -> Catalog:
    if isinstance(how.templates, Catalog):
        return how.templates
    templates = how.templates or ("" if how.language else context.settings.observation_templates)
    language = how.language or context.settings.observation_language
    return load_catalog(templates) if templates else catalog_of(language)


def _names(names: Iterable[Any]) -> list[str]:
    found = list(names)
    wrong = next((name for name in found if not isinstance(name, str) or not name), None)
    if wrong is not None or isinstance(names, str):
        raise InvalidInput(f"required_tools holds {wrong!r}; use a list of names of tools")
    return found


def invocation(
    id_: EvaluationId,
    seen: ToolFeedback,
    evidence: Evidence,
    *,
    duration_ms: int | None,
    call_id: str | None,
) -> ToolInvoked:
    """The fact of an observed call, with its outcome. Its status is the host's word, else what was found."""
    assert seen.envelope is not None  # every observer's feedback has one
    outcome = seen.envelope.outcome
    said = evidence.status or ("denied" if outcome.code == "denied" else outcome.status)
    return ToolInvoked(
        event_id=new_event_id(),
        session=id_.session,
        prompt=id_.prompt,
        evaluation=id_.evaluation,
        tool=seen.tool_name,
        params=dict(evidence.params),
        status=shown(said)[:_STATUS_MAX],
        result=None if evidence.result is None else evidence.text,
        error=None if evidence.error is None else evidence.error_text,
        duration_ms=duration_ms,
        call_id=call_id,
        outcome=outcome,
    )
