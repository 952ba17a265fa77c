"""What a host tells of an evaluation beside its tool calls: what was spent, what changed, which files are there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from tellback.client.plain import plain_name, plain_text
from tellback.contracts.guidance import (
    CHANGE_DETAIL_MAX,
    CHANGE_NAME_MAX,
    COST_PLACES,
    FILE_MAX,
    BudgetSpent,
    ContextChanged,
    FileSeen,
    ProviderSpec,
)
from tellback.contracts.message import new_event_id
from tellback.errors import InvalidInput
from tellback.state.evaluations import EvaluationId

KIND_MAX: Final = 64


def budget_spent(id_: EvaluationId, tokens: int, cost: Decimal | float | str) -> BudgetSpent:
    """The fact, if the amounts can be added up.

    Raises:
        InvalidInput: one of them is no amount; the message names it.
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
        cost=_amount(cost),
    )


def _amount(cost: Decimal | float | str) -> Decimal:
    try:
        amount = Decimal(str(cost))
        if isinstance(cost, float) and amount.is_finite():  # sums of floats have digits that nobody meant
            amount = Decimal(str(round(cost, COST_PLACES)))
    except InvalidOperation:
        raise InvalidInput(f"cost is {cost!r}; use a number, or its text") from None
    return amount


def context_changed(
    session: str, kind: str, name: str, detail: str | None, *, id_: EvaluationId | None = None, by: str = ""
) -> ContextChanged:
    """The fact, redacted and cut: for one evaluation, or without for the whole session.

    Raises:
        InvalidInput: the kind or the name is no text, or empty.
    """
    for what, value in (("kind", kind), ("name", name)):
        given: Any = value
        if not isinstance(given, str) or not given:
            raise InvalidInput(f"{what} is {value!r}; use a text that is not empty")
    return ContextChanged(
        event_id=new_event_id(),
        session=session,
        kind=plain_name(kind, KIND_MAX),
        name=plain_text(name)[:CHANGE_NAME_MAX],
        detail=None if detail is None else plain_text(detail)[:CHANGE_DETAIL_MAX],
        evaluation=id_.evaluation if id_ else "",
        prompt=id_.prompt if id_ else "",
        by=by,
    )


def without_secrets(spec: ProviderSpec) -> ProviderSpec:
    """The spec with the name of the file of its trigger as it may travel."""
    name = spec.trigger.file_created
    if name is None:
        return spec
    return msgspec.structs.replace(spec, trigger=msgspec.structs.replace(spec.trigger, file_created=_sent(name)))


def _sent(name: str) -> str:
    return plain_text(name)[:FILE_MAX]


class FileWatch:
    """Looks for the files that triggers of an evaluation wait for, and tells of each once in this process.

    Other processes may tell of the same file: the evaluation takes it once.
    """

    def __init__(self, id_: EvaluationId, specs: Iterable[ProviderSpec]) -> None:
        """Take the evaluation and its providers."""
        self._id = id_
        self._missing = {spec.trigger.file_created for spec in specs} - {None}

    def look(self, publish: Callable[[FileSeen], None]) -> None:
        """Publish what is there now; cheap where nothing is waited for."""
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
                    name=_sent(name),
                )
            )
            self._missing.discard(name)
