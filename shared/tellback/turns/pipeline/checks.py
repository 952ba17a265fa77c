"""What a custom system left in a context: anything of a wrong type, or that would leave a user without an answer."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import MISSING
from typing import Any, Final, cast

import msgspec

from tellback.contracts.llm import LlmError, LlmResponse, SystemFailure
from tellback.contracts.turns import OutgoingResponse, RoutingOutcome
from tellback.errors import InvalidInput
from tellback.turns.pipeline.context import TurnContext

_OPTIONAL: Final[dict[str, type[Any]]] = {
    "llm_response": LlmResponse,
    "llm_error": LlmError,
    "routing_outcome": RoutingOutcome,
}
_PLAIN: Final[dict[str, type[Any]]] = {"final_answer_ready": bool, "failure_code": str}
_FIXED: Final = ("messages", "turn")


def snapshot(context: TurnContext) -> TurnContext:
    """The context as it is now; what a system writes later does not change it."""
    before = copy.copy(context)
    before.system_errors = list(context.system_errors)
    return before


def restore(context: TurnContext, before: TurnContext) -> None:
    """Undo whatever was written since the snapshot."""
    for name in TurnContext.__dataclass_fields__:
        setattr(context, name, getattr(before, name))
    context.system_errors = list(before.system_errors)


def admit(context: TurnContext) -> list[str]:
    """Make of what a host gave something that every system can read; what was wrong with it.

    An error that is none is an error all the same, of which nothing is known.
    """
    blank: dict[str, Any] = {"llm_error": LlmError()}
    problems: list[str] = []
    for name, problem in _unreadable(context):
        problems.append(f"{name}: {problem}; it was passed over")
        field = TurnContext.__dataclass_fields__[name]
        empty = field.default if field.default_factory is MISSING else field.default_factory()
        setattr(context, name, blank.get(name, empty))
    return problems


def _unreadable(context: TurnContext) -> Iterator[tuple[str, str]]:
    messages = cast("object", context.messages)
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        yield "messages", f"of type {type(context.messages).__name__}, not a sequence"
    for name, kind in _OPTIONAL.items():
        if getattr(context, name) is not None:
            yield from _of_kind(name, _shortened(getattr(context, name)), kind)
    yield from _plain_problems(context)
    if context.outgoing_response is not None:
        try:
            check_prepared(context.outgoing_response)
        except InvalidInput as error:
            yield "outgoing_response", str(error)


def _shortened(value: object) -> object:
    """The same with short texts: a system may cut what is too long, so that alone is no reason to pass it over."""
    if not isinstance(value, LlmResponse | LlmError):
        return value
    fields = {name: getattr(value, name) for name in value.__struct_fields__ if name != "limit"}
    return msgspec.structs.replace(
        value, **{name: given[:8] for name, given in fields.items() if isinstance(given, str | tuple)}
    )


def repair(context: TurnContext, before: TurnContext) -> list[str]:
    """Put back what a system may not have left so; what that was."""
    problems: list[str] = []
    for name, problem in _problems(context, before):
        problems.append(f"{name}: {problem}; it was put back")
        setattr(context, name, getattr(before, name))
    return problems


def _problems(context: TurnContext, before: TurnContext) -> Iterator[tuple[str, str]]:
    for name in _FIXED:
        if getattr(context, name) is not getattr(before, name):
            yield name, "no system may replace it"
    for name, kind in _OPTIONAL.items():
        value = getattr(context, name)
        if value is not None and value is not getattr(before, name):
            yield from _of_kind(name, value, kind)
    yield from _plain_problems(context)
    if before.routing_outcome is not None and context.routing_outcome is None:
        yield "routing_outcome", "was taken away"
    yield from _response_problems(context, before)


def _plain_problems(context: TurnContext) -> Iterator[tuple[str, str]]:
    for name, kind in _PLAIN.items():
        if not isinstance(getattr(context, name), kind):
            yield name, f"not of type {kind.__name__}"
    if not _are_failures(context.system_errors):
        yield "system_errors", "not a list of SystemFailure"


def _are_failures(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, SystemFailure) for each in cast("list[object]", value))


def _response_problems(context: TurnContext, before: TurnContext) -> Iterator[tuple[str, str]]:
    response = context.outgoing_response
    if response is before.outgoing_response:
        return
    if response is None:
        yield "outgoing_response", "was taken away"
        return
    try:
        check_prepared(response)
    except InvalidInput as error:
        yield "outgoing_response", str(error)


def _of_kind(name: str, value: object, kind: type[Any]) -> Iterator[tuple[str, str]]:
    try:
        _convert(value, kind)
    except InvalidInput as error:
        yield name, str(error)


def check_prepared(response: object) -> None:
    """Whether a transport can send this.

    Raises:
        InvalidInput: not an `OutgoingResponse`, one whose fields are of other types, a blank one, or one too large.
    """
    checked: OutgoingResponse = _convert(response, OutgoingResponse)
    if checked.blank:
        raise InvalidInput("blank: a user would receive nothing")
    checked.check()


def _convert(value: object, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        raise InvalidInput(f"of type {type(value).__name__}, not {kind.__name__}")
    try:
        return msgspec.convert(msgspec.to_builtins(value), kind)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(str(error)) from error
