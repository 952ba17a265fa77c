"""Builds the events that a prompt publishes: observed tool calls, spending, changes, and files that appeared.

Every text is redacted and truncated here, before it leaves the host, and a wrong argument is refused here, since a
worker could only make a dead letter of it. `Observations` and `build_observer` configure how `prompt.observe`
classifies calls in the host's own process.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, cast

import msgspec

from tellback import clock
from tellback.client.client_context import ClientContext
from tellback.client.wire_values import wire_name, wire_text
from tellback.contracts.codec import decode, encode
from tellback.contracts.guidance import (
    COST_PLACES,
    BudgetSpent,
    ContextChanged,
    DeliveryMode,
    EvaluationBegun,
    FileSeen,
    ProviderSpec,
    ToolInvoked,
)
from tellback.contracts.limits import (
    MAX_CHANGE_DETAIL_CHARS,
    MAX_CHANGE_NAME_CHARS,
    MAX_FILE_CHARS,
    MAX_KIND_CHARS,
    MAX_NAME_CHARS,
    MAX_QUESTION_BYTES,
    MAX_STATUS_CHARS,
)
from tellback.contracts.message import new_event_id
from tellback.errors import InvalidInput, MessageError
from tellback.guidance.observations.catalog import Catalog, catalog_for, load_catalog
from tellback.guidance.observations.evidence import Classifier, Evidence
from tellback.guidance.observations.feedback import ToolFeedback
from tellback.guidance.observations.memory import ObservationMemory
from tellback.guidance.observations.observer import ToolObserver
from tellback.guidance.observations.suggesters import AnySuggester
from tellback.guidance.observations.tools import Tool, ToolDeclaration, announced_effects, announced_names
from tellback.guidance.observations.values import display_text
from tellback.redaction import redact_value
from tellback.state.evaluation_codec import EvaluationId
from tellback.truncation import truncate_text


class Observations(msgspec.Struct, frozen=True, kw_only=True):
    """Options for how a prompt observes tool calls: `tb.prompt(..., observations=Observations(...))`."""

    required_tools: tuple[str, ...] = ()
    """Names of tools that must have succeeded before `prompt.check_answer` passes."""
    classifiers: tuple[Classifier, ...] = ()
    """Your own classifiers; they run before the built-in ones."""
    suggesters: Mapping[str, AnySuggester] | None = None
    """Your own next steps, by the name of the tool."""
    language: str | None = None
    """A shipped language; by default the setting `TELLBACK_OBSERVATION_LANGUAGE`."""
    templates: str | Path | Catalog | None = None
    """A TOML file or a `Catalog`; by default the setting `TELLBACK_OBSERVATION_TEMPLATES`."""
    memory: ObservationMemory | None = None
    """The attempts that another process recorded, from `prompt.observation_memory()`."""


def build_evaluation_begun(
    id_: EvaluationId,
    specs: Iterable[ProviderSpec],
    delivery: DeliveryMode,
    deadline_in: float | None,
    tools: Mapping[str, Tool],
    *,
    question: str | None,
    host: str,
) -> EvaluationBegun:
    """Return the event that begins an evaluation.

    Raises:
        InvalidInput: a worker would refuse the configuration.
    """
    names = announced_names(tools)
    begun = EvaluationBegun(
        event_id=new_event_id(),
        session=id_.session,
        prompt=id_.prompt,
        evaluation=id_.evaluation,
        providers=[_redacted_spec(spec) for spec in specs],
        delivery=delivery,
        deadline_in=deadline_in,
        tools=names,
        effects=announced_effects(tools, names) or msgspec.UNSET,
        question=None if question is None else truncate_text(wire_text(question), MAX_QUESTION_BYTES),
        host=wire_text(host)[:MAX_NAME_CHARS],
    )
    try:
        decode(encode(begun), begun.family)
    except MessageError as error:  # decoded here as a worker would: its refusal would reach only the dead letters
        raise InvalidInput(f"the prompt's configuration cannot be sent: {error.reason}") from error
    return begun


def build_observer(
    context: ClientContext, evaluation: str, tools: Iterable[ToolDeclaration], question: str | None, how: Observations
) -> ToolObserver:
    """Return the observer of an evaluation.

    Raises:
        InvalidInput: `how`, a tool, a suggester or a required tool is not of its type.
        ConfigurationError: the templates or the language do not exist, or are wrong.
    """
    given: Any = how
    if not isinstance(given, Observations):
        raise InvalidInput(f"observations is {type(given).__name__}; use tellback.Observations(...)")
    _check_observations(how)
    return ToolObserver(
        tools=tools,
        question=question,
        classifiers=how.classifiers,
        suggesters=how.suggesters,
        catalog=_catalog_for(context, how),
        health=context.health,
        memory=how.memory,
        required_tools=_checked_tool_names(how.required_tools),
        seed=evaluation,
        suggester_timeout=context.settings.provider_timeout,
    )


def _check_observations(how: Observations) -> None:
    """Refuse what only each call would show: it is classified and remembered without the caller."""
    for name, fits, advice in (
        ("classifiers", isinstance(cast("object", how.classifiers), tuple | list), "a tuple of functions"),
        ("suggesters", isinstance(cast("object", how.suggesters), Mapping | None), "a mapping of tools to suggesters"),
        ("memory", isinstance(cast("object", how.memory), ObservationMemory | None), "ObservationMemory.from_bytes"),
    ):
        if not fits:
            raise InvalidInput(f"observations.{name} is {type(getattr(how, name)).__name__}; use {advice}")
    for classifier in how.classifiers:
        if not callable(classifier):
            raise InvalidInput(f"observations.classifiers holds {classifier!r:.60}; use functions of an Evidence")


def _catalog_for(context: ClientContext, how: Observations) -> Catalog:
    if isinstance(how.templates, Catalog):
        return how.templates
    templates = how.templates or ("" if how.language else context.settings.observation_templates)
    language = how.language or context.settings.observation_language
    return load_catalog(templates) if templates else catalog_for(language)


def check_texts(name: str, given: Iterable[str]) -> list[str]:
    """Return the texts of a list. A text alone is refused: each of its letters would be an item.

    Raises:
        InvalidInput: it is not a list of texts.
    """
    if isinstance(given, str) or not isinstance(cast("object", given), Iterable):
        raise InvalidInput(f"{name} is {type(given).__name__}; use a list of texts")
    found: list[Any] = list(given)
    for item in found:
        if not isinstance(item, str):
            raise InvalidInput(f"{name} holds {type(item).__name__}; use a list of texts")
    return found


def _checked_tool_names(names: Iterable[str]) -> list[str]:
    found = check_texts("required_tools", names)
    if "" in found:
        raise InvalidInput("required_tools holds an empty text; use names of tools")
    return found


def build_tool_invoked(
    id_: EvaluationId,
    feedback: ToolFeedback,
    evidence: Evidence,
    *,
    duration_ms: int | None,
    call_id: str | None,
) -> ToolInvoked:
    """Build the event of an observed call. Its status is the host's word, or else the outcome that was found."""
    assert feedback.envelope is not None  # every observer's feedback has one
    outcome = feedback.envelope.outcome
    said = evidence.status or ("denied" if outcome.code == "denied" else outcome.status)
    return ToolInvoked(
        event_id=new_event_id(),
        session=id_.session,
        prompt=id_.prompt,
        evaluation=id_.evaluation,
        tool=feedback.tool_name,
        params=dict(evidence.params),
        status=display_text(said)[:MAX_STATUS_CHARS],
        result=None if evidence.result is None else evidence.text,
        error=None if evidence.error is None else evidence.error_text,
        duration_ms=duration_ms,
        call_id=call_id,
        outcome=outcome,
    )


def build_budget_spent(id_: EvaluationId, tokens: int, cost: Decimal | float | str) -> BudgetSpent:
    """Build the event of what was spent.

    Raises:
        InvalidInput: an amount can't be summed exactly; the message names it.
    """
    given: Any = tokens
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidInput(f"tokens is {tokens!r}; use a whole number")
    return BudgetSpent(
        event_id=new_event_id(),
        session=id_.session,
        prompt=id_.prompt,
        evaluation=id_.evaluation,
        tokens=tokens,
        cost=_cost_amount(cost),
    )


def _cost_amount(cost: Decimal | float | str) -> Decimal:
    try:
        amount = Decimal(str(cost))
        if isinstance(cost, float) and amount.is_finite():  # 0.1 + 0.2 has digits that nobody meant to report
            amount = Decimal(str(round(cost, COST_PLACES)))
    except InvalidOperation:
        raise InvalidInput(f"cost is {cost!r}; use a number, or its text") from None
    return amount


def build_context_changed(
    session: str, kind: str, name: str, detail: str | None, *, id_: EvaluationId | None = None, by: str = ""
) -> ContextChanged:
    """Build the event of a change, redacted and truncated: for the evaluation `id_`, or else for the whole session.

    Raises:
        InvalidInput: the kind or the name is not text, or is empty, or `by` is not an evaluation's name.
    """
    maker: Any = by
    if not isinstance(maker, str) or len(maker) > MAX_NAME_CHARS or maker.encode(errors="replace").decode() != maker:
        raise InvalidInput(f"by is {maker!r:.100}; use a prompt, or the name of its evaluation")
    for what, value in (("kind", kind), ("name", name)):
        given: Any = value
        if not isinstance(given, str) or not given:
            raise InvalidInput(f"{what} is {value!r}; use a text that is not empty")
    return ContextChanged(
        event_id=new_event_id(),
        session=session,
        kind=wire_name(kind, MAX_KIND_CHARS),
        name=wire_text(name)[:MAX_CHANGE_NAME_CHARS],
        detail=None if detail is None else wire_text(detail)[:MAX_CHANGE_DETAIL_CHARS],
        evaluation=id_.evaluation if id_ else "",
        prompt=id_.prompt if id_ else "",
        by=by,
    )


def _redacted_spec(spec: ProviderSpec) -> ProviderSpec:
    name, trigger = spec.trigger.file_created, spec.trigger
    if name is not None:
        trigger = msgspec.structs.replace(trigger, file_created=_redacted_file_name(name))
    return ProviderSpec(name=spec.name, trigger=trigger, fields=redact_value(spec.fields))


def _redacted_file_name(name: str) -> str:
    return wire_text(name)[:MAX_FILE_CHARS]


class FileWatch:
    """Looks for the files that triggers of an evaluation wait for, since workers don't see an agent's files.

    Each file is published once in this process. Other processes may publish the same file: it counts once in the
    evaluation (requirement G-14).
    """

    def __init__(self, id_: EvaluationId, specs: Iterable[ProviderSpec]) -> None:
        self._id = id_
        self._missing = {spec.trigger.file_created for spec in specs} - {None}

    def publish_new_files(self, publish: Callable[[FileSeen], None]) -> None:
        """Publish the files that exist by now."""
        for name in tuple(self._missing):
            if name is None or not os.path.exists(name):  # noqa: PTH110 - never raises, whatever the name is
                continue
            id_ = self._id
            publish(
                FileSeen(
                    event_id=new_event_id(),
                    session=id_.session,
                    prompt=id_.prompt,
                    evaluation=id_.evaluation,
                    name=_redacted_file_name(name),
                )
            )
            self._missing.discard(name)  # after the publication: if the spool is full, the next tool call tries again


def seconds_left(deadline: datetime | timedelta | float | None) -> float | None:
    """Return the seconds until a deadline, None if there is none.

    Raises:
        InvalidInput: it is not a number, or is a date without a time zone.
    """
    if deadline is None:
        return None
    if isinstance(deadline, datetime):
        if deadline.tzinfo is None:
            raise InvalidInput("deadline has no time zone; pass an aware datetime, a timedelta, or seconds")
        return (deadline - clock.utc_now()).total_seconds()
    seconds: Any = deadline.total_seconds() if isinstance(deadline, timedelta) else deadline
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InvalidInput(f"deadline is {deadline!r}; pass an aware datetime, a timedelta, or seconds")
    return float(seconds)
