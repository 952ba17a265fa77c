"""The guards around custom systems: validation and repair of a context, and the cleaning of errors.

A system may leave a value of a wrong type in the context, or take away the response; both are put back, so no user
goes without an answer. Of an error only its type and one redacted, bounded line are kept, because `system_errors` and
logs leave the process: no stack trace, and no secret that the rules know.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING
from typing import Any, Final, cast

import msgspec

from tellback.contracts.limits import MAX_CODE_CHARS, MAX_ERROR_CHARS, MAX_FAILURES
from tellback.contracts.turns import LlmError, LlmResponse, OutgoingResponse, RoutingOutcome, SystemFailure
from tellback.errors import InvalidInput
from tellback.redaction import redact_text
from tellback.sanitize import blank_hidden, one_line
from tellback.truncation import truncate_chars
from tellback.turns.pipeline.context import TurnContext

_OPTIONAL: Final[dict[str, type[Any]]] = {
    "llm_response": LlmResponse,
    "llm_error": LlmError,
    "routing_outcome": RoutingOutcome,
}

_PLAIN_FIELDS: Final[dict[str, type[Any]]] = {"final_answer_ready": bool, "failure_code": str}

_FIXED_FIELDS: Final = ("messages", "turn")


def snapshot_context(context: TurnContext) -> TurnContext:
    """Copy the context, to restore it if a system fails."""
    # The structs in a context are frozen, so a shallow copy is enough; this list is what systems append to.
    before = copy.copy(context)
    before.system_errors = list(context.system_errors)
    return before


def restore_context(context: TurnContext, before: TurnContext) -> None:
    """Undo every change since the snapshot."""
    for name in TurnContext.__dataclass_fields__:
        setattr(context, name, getattr(before, name))
    context.system_errors = list(before.system_errors)


def sanitize_context(context: TurnContext) -> list[str]:
    """Reset the fields that no system could read; return a description of each problem.

    An invalid `llm_error` becomes a blank one, since the model still failed and its user needs the feedback.
    """
    blank: dict[str, Any] = {"llm_error": LlmError()}
    problems: list[str] = []
    for name, problem in _unreadable_fields(context):
        problems.append(f"{name}: {problem}; it was passed over")
        field = TurnContext.__dataclass_fields__[name]
        empty = field.default if field.default_factory is MISSING else field.default_factory()
        setattr(context, name, blank.get(name, empty))
    return problems


def _unreadable_fields(context: TurnContext) -> Iterator[tuple[str, str]]:
    messages = cast("object", context.messages)
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        yield "messages", f"of type {type(context.messages).__name__}, not a sequence"
    for name, kind in _OPTIONAL.items():
        if getattr(context, name) is not None:
            yield from _type_problems(name, _shorten_texts(getattr(context, name)), kind)
    yield from _plain_problems(context)
    if context.outgoing_response is not None:
        yield from _prepared_problems(context.outgoing_response)


def _shorten_texts(value: object) -> object:
    """Return a copy with short texts: a later system may shorten a text, so its length alone isn't an error here."""
    if not isinstance(value, LlmResponse | LlmError):
        return value
    fields = {name: getattr(value, name) for name in value.__struct_fields__ if name != "limit"}
    return msgspec.structs.replace(
        value, **{name: given[:8] for name, given in fields.items() if isinstance(given, str | tuple)}
    )


def repair_context(context: TurnContext, before: TurnContext) -> list[str]:
    """Restore the fields that a system left invalid; return a description of each problem."""
    problems: list[str] = []
    for name, problem in _context_problems(context, before):
        problems.append(f"{name}: {problem}; it was put back")
        setattr(context, name, getattr(before, name))
    return problems


def _context_problems(context: TurnContext, before: TurnContext) -> Iterator[tuple[str, str]]:
    for name in _FIXED_FIELDS:
        if getattr(context, name) is not getattr(before, name):
            yield name, "no system may replace it"
    for name, kind in _OPTIONAL.items():
        value = getattr(context, name)
        if value is not None and value is not getattr(before, name):
            yield from _type_problems(name, value, kind)
    yield from _plain_problems(context)
    if before.routing_outcome is not None and context.routing_outcome is None:
        yield "routing_outcome", "was taken away"
    yield from _response_problems(context, before)


def _plain_problems(context: TurnContext) -> Iterator[tuple[str, str]]:
    for name, kind in _PLAIN_FIELDS.items():
        if not isinstance(getattr(context, name), kind):
            yield name, f"not of type {kind.__name__}"
    if not _is_failure_list(context.system_errors):
        yield "system_errors", "not a list of SystemFailure"


def _is_failure_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, SystemFailure) for each in cast("list[object]", value))


def _response_problems(context: TurnContext, before: TurnContext) -> Iterator[tuple[str, str]]:
    response = context.outgoing_response
    if response is before.outgoing_response:
        return
    if response is None:
        yield "outgoing_response", "was taken away"
    else:
        yield from _prepared_problems(response)


def _prepared_problems(response: OutgoingResponse) -> Iterator[tuple[str, str]]:
    try:
        check_prepared(response)
    except InvalidInput as error:
        yield "outgoing_response", str(error)


def _type_problems(name: str, value: object, kind: type[Any]) -> Iterator[tuple[str, str]]:
    try:
        _convert_value(value, kind)
    except InvalidInput as error:
        yield name, str(error)


def check_prepared(response: object) -> None:
    """Check that a transport can send a response.

    Raises:
        InvalidInput: it isn't an `OutgoingResponse`, a field has another type, or it is blank or too large.
    """
    checked: OutgoingResponse = _convert_value(response, OutgoingResponse)
    if checked.is_blank:
        raise InvalidInput("blank: a user would receive nothing")
    checked.check()


def _convert_value(value: object, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        raise InvalidInput(f"of type {type(value).__name__}, not {kind.__name__}")
    try:
        # msgspec checks types only when it decodes; a struct that was built in Python may hold anything.
        return msgspec.convert(msgspec.to_builtins(value), kind)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(str(error)) from error


MAX_READ: Final = 64 << 10  # characters; an exception may quote a whole response, and redaction reads every character

_PYTHON: Final = "Traceback (most recent call last)"

# Lines of stack traces as Python, JavaScript, Java, Go, Rust and native debuggers print them, and the marks of Python's
# exception groups and carets. tests/support/leaking.py holds traces that must not get through.
_FRAME: Final = re.compile(
    r"\s*(Traceback \(|File \"|at \S|\.\.\. \d+ |Caused by|During handling|The above exception|goroutine \d"
    r"|stack backtrace|Stack trace|\d+: 0x|#\d+ |\+ |\| |[~^]+\s*$)"
)


def failure_from_exception(system: str, error: BaseException) -> SystemFailure:
    """Return the cleaned failure for an exception that a system raised."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - a custom exception's __str__ may raise anything
        said = "(its text cannot be read)"
    return clean_failure(SystemFailure(system=system, error=type(error).__name__, message=said))


def clean_failure(failure: SystemFailure) -> SystemFailure:
    """Return the failure redacted, without stack traces, and truncated."""
    return SystemFailure(
        system=error_line(failure.system, MAX_CODE_CHARS) or "unknown",
        error=error_line(failure.error, MAX_CODE_CHARS),
        message=error_line(failure.message, MAX_ERROR_CHARS),
    )


def clean_failures(failures: Iterable[SystemFailure]) -> tuple[SystemFailure, ...]:
    """Return the last failures, cleaned; the oldest are dropped above `MAX_FAILURES`."""
    return tuple(clean_failure(failure) for failure in list(failures)[-MAX_FAILURES:])


def clean_error(error: LlmError) -> LlmError:
    """Return the error redacted, without stack traces, and truncated."""
    return LlmError(code=error_line(error.code, MAX_CODE_CHARS), message=error_line(error.message, MAX_ERROR_CHARS))


def error_line(text: str, limit: int) -> str:
    """Return the most telling line of an error: the last of a Python traceback, or the first that is no frame."""
    # Redact before truncating: half a secret at the cut would no longer match the rules.
    whole = redact_text(text[:MAX_READ].encode(errors="replace").decode())
    lines = [line for line in whole.splitlines() if line.strip()]
    kept = [line for line in lines if not _FRAME.match(line)]
    if _PYTHON in whole:
        kept = [line for line in kept if not line.startswith((" ", "\t"))][-1:]
    return truncate_chars(one_line(blank_hidden("".join(kept[:1]))), limit)
