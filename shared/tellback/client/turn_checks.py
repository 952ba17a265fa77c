"""Checks of the arguments and results of calls on turns, and the pipeline that runs in the host's process.

Each refusal is an `InvalidInput` that names the argument. All checks run before anything is sent, so a refused call has
no effect (requirements T-3 and T-9).

Responses are refused if an outbox can't hold them, since a truncated answer would be another answer. Errors are never
refused for their length, since a user still waits: they are truncated to one redacted line without a stack trace
(requirement T-32). Of the conversation only roles and metadata leave the host, never a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import msgspec

from tellback.contracts.limits import MAX_CODE_CHARS, MAX_REFERENCE_BYTES
from tellback.contracts.message import new_event_id
from tellback.contracts.turns import (
    AUTO_MODE,
    MAX_LATE,
    VOICE,
    AnswerResult,
    HostMessage,
    LlmError,
    LlmResponse,
    OutgoingResponse,
    RoutingOutcome,
    SystemFailure,
    TurnFinished,
    TurnMessage,
    TurnOrigin,
    metadata_of,
    role_of,
)
from tellback.errors import InvalidInput, NotFound, TellbackError
from tellback.redaction import redact_text
from tellback.settings import Settings
from tellback.state.turn_view import LostTurnOrigin, TurnRef
from tellback.turns.fallback_text import MAX_TAG
from tellback.turns.pipeline.checks import clean_error, clean_failures, error_line
from tellback.turns.pipeline.context import AgentSystem, TurnAbout, TurnContext
from tellback.turns.pipeline.runner import TurnPipeline

Struct = TypeVar("Struct", bound=msgspec.Struct)


def check_text(name: str, value: object, max_bytes: int | None) -> str:
    """Return text that can be stored. With `max_bytes`, it must have from 1 to that many bytes as UTF-8."""
    if not isinstance(value, str):
        raise InvalidInput(f"{name}: a text, not {type(value).__name__}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name}: not valid Unicode text ({error.reason})") from error
    if max_bytes is not None and not 0 < size <= max_bytes:
        raise InvalidInput(f"{name}: 1 to {max_bytes} bytes as UTF-8, not {size}")
    return value


def check_name(name: str, value: object) -> str:
    """Return a name that is part of keys and ids: 1 to 512 bytes without a NUL."""
    text = check_text(name, value, MAX_REFERENCE_BYTES)
    if "\0" in text:  # NUL separates the parts from which a turn's id is computed
        raise InvalidInput(f"{name}: must not contain a NUL character")
    return text


def check_language(language: object) -> str:
    """Return a language tag, which need not be a shipped language; None becomes an empty text."""
    if language is None:
        return ""
    text = check_text("language", language, None)
    if len(text) > MAX_TAG:
        raise InvalidInput(f"language: a tag of at most {MAX_TAG} characters, like 'de' or 'pt-BR'")
    return text


def check_seconds(name: str, value: object, limit: float) -> float:
    """Return the seconds within which a user must be answered: above 0, up to `limit`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= limit:
        raise InvalidInput(f"{name}: seconds above 0 and up to turn_limit ({limit:g}), not {value!r}")
    return float(value)


def check_late_within(value: object) -> float | None:
    """Return the seconds after a fallback in which a late answer is still sent; None leaves it to the setting."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_LATE:
        raise InvalidInput(f"late_within: seconds, 0 to {MAX_LATE}, or None for the setting, not {value!r}")
    return float(value)


def check_wait(value: object) -> float:
    """Return the seconds to wait for a delivery; infinity is allowed."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidInput(f"wait: seconds, 0 or more, not {value!r}")
    return float(value)


def check_flag(name: str, value: object) -> bool:
    """Return True or False; a truthy value is refused, since no worker could decode the message."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name}: True or False, not {value!r:.60}")
    return value


def check_metadata(metadata: object) -> Mapping[str, Any]:
    """Return the message's metadata; None becomes an empty mapping."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidInput(f"metadata: a mapping, not {type(metadata).__name__}")
    return cast("Mapping[str, Any]", metadata)


def check_code(code: object) -> str:
    """Return an error's code for operators, redacted: 1 to 200 bytes."""
    return redact_text(check_text("code", code, MAX_CODE_CHARS))


def check_response(response: object) -> OutgoingResponse:
    """Return a response that an outbox can hold and a transport can send. Requirement T-9."""
    checked = check_struct("response", response, OutgoingResponse, "; OutgoingResponse.text_only('...') makes one")
    if checked.is_blank:
        raise InvalidInput("response: blank; use no_reply(reason=...) for intended silence")
    checked.check()
    return checked


def check_struct(name: str, value: object, kind: type[Struct], hint: str = "") -> Struct:
    """Return a struct whose fields have their declared types; msgspec checks those when decoding, not in `__init__`."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{name}: a value of type {kind.__name__}, not {type(value).__name__}{hint}")
    try:
        return msgspec.convert(msgspec.to_builtins(value), kind)
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        raise InvalidInput(f"{name}: {error}") from error


# The metadata of a message that leaves the host: enough for flags such as `voice`, too little to carry the message.
MAX_KEYS: Final = 20

MAX_KEY: Final = 64

MAX_VALUE: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnding:
    """The end of a turn as its event reports it: an answer, a failure, or what the pipeline makes an answer of."""

    response: OutgoingResponse | None = None
    error_code: str | None = None
    late_within: float | None = None
    llm_response: LlmResponse | None = None
    llm_error: LlmError | None = None
    final_answer_ready: bool = False
    system_errors: tuple[SystemFailure, ...] = ()
    messages: tuple[TurnMessage, ...] = ()

    def to_event(self, turn: TurnRef, origin: LostTurnOrigin) -> TurnFinished:
        """Build the event. From its origin, workers restore a turn that Redis has lost (requirement T-16).

        Raises:
            InvalidInput: there is no result, or both an answer and something to make one of.
        """
        return TurnFinished(
            event_id=new_event_id(),
            turn=turn.id,
            channel=turn.channel,
            conversation=turn.conversation,
            response=self.response,
            error_code=self.error_code,
            late_within=self.late_within,
            llm_response=self.llm_response,
            llm_error=self.llm_error,
            final_answer_ready=self.final_answer_ready,
            system_errors=self.system_errors,
            messages=self.messages,
            origin=TurnOrigin(
                message_id=origin.message_id,
                session=turn.session,
                opened_at=origin.opened_at,
                language=origin.language,
                auto=origin.auto,
            ),
        )


def check_llm_response(response: object) -> LlmResponse:
    """Return a model's response whose text, voice and attachments an outbox can hold.

    Raises:
        InvalidInput: it is not such a response; the message names the field.
    """
    # Truncated, not refused: a user must not go without an answer because its finish reason is long.
    if isinstance(response, LlmResponse) and isinstance(cast("object", response.finish_reason), str):
        response = msgspec.structs.replace(response, finish_reason=error_line(response.finish_reason, MAX_KEY))
    checked = check_struct("llm_response", response, LlmResponse)
    OutgoingResponse(text=checked.text, voice=checked.voice, attachments=checked.attachments).check()
    return checked


def check_llm_error(error: object) -> LlmError:
    """Return an error without secrets and stack traces, truncated."""
    if not isinstance(error, LlmError) or not _is_text_mapping(error):
        raise InvalidInput(f"llm_error: an LlmError of texts, not {type(error).__name__}")
    return clean_error(error)


def check_failures(failures: Iterable[SystemFailure]) -> tuple[SystemFailure, ...]:
    """Return the last failures, redacted and truncated."""
    if not isinstance(cast("object", failures), Iterable):
        raise InvalidInput(f"system_errors: SystemFailures, not {type(failures).__name__}")
    found: list[Any] = list(failures)
    for failure in found:
        if not isinstance(failure, SystemFailure) or not _is_text_mapping(failure):
            raise InvalidInput(f"system_errors: SystemFailures of texts, not {type(failure).__name__}")
    return clean_failures(found)


def _is_text_mapping(value: msgspec.Struct) -> bool:
    return all(isinstance(each, str) for each in msgspec.structs.astuple(value))


def check_messages(messages: Sequence[HostMessage]) -> tuple[TurnMessage, ...]:
    """Return the user's last message and the last message of all, both without their texts.

    The last one decides about auto mode, and the user's last one about voice; the pipeline reads no others.

    Raises:
        InvalidInput: `messages` is not a sequence of messages.
    """
    given: Sequence[Any] = messages
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__getitem__"):
        raise InvalidInput(f"messages: a sequence of messages, not {type(given).__name__}")
    if not len(given):
        return ()
    for message in given:
        if not isinstance(message, TurnMessage | Mapping):
            raise InvalidInput(f"messages: each a TurnMessage or a mapping, not {type(message).__name__}")
    last = len(given) - 1
    said = next((index for index in range(last, -1, -1) if role_of(given[index]) == "user"), last)
    return tuple(_without_text(given[index]) for index in sorted({said, last}))


def _without_text(message: HostMessage) -> TurnMessage:
    found = metadata_of(message)
    # The two names that the pipeline reads come first, so that twenty other keys can't push them out.
    names = [*(name for name in (AUTO_MODE, VOICE) if name in found), *(name for name in found if _fits_key(name))]
    plain: dict[str, Any] = {}
    for name in names:
        value = found[name]
        if len(plain) < MAX_KEYS and isinstance(value, bool | int | float | str):
            plain.setdefault(name, error_line(value, MAX_VALUE) if isinstance(value, str) else value)
    return TurnMessage(role=error_line(role_of(message), MAX_KEY), metadata=plain)


def _fits_key(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= MAX_KEY and error_line(name, MAX_KEY) == name


# Answers that the outbox has, or will have once Redis is back.
QUEUED_ANSWERS: Final = frozenset({"accepted", "replaced", "late", "spooled"})


def default_pipeline(settings: Settings, systems: Iterable[AgentSystem] = ()) -> TurnPipeline:
    """Return a pipeline of the built-in systems, as the settings configure them, and of others beside them.

    Raises:
        ConfigurationError: a catalog or a language of the settings is wrong.
    """
    return TurnPipeline(
        systems,
        words=settings.turn_texts,
        interpret_errors=settings.interpret_errors,
        voice_channels=settings.spoken_channels,
    )


def run_turn(
    pipeline: TurnPipeline,
    context: TurnContext,
    about: TurnAbout,
    answer: Callable[[OutgoingResponse, str], AnswerResult],
) -> TurnContext:
    """Run the pipeline. `answer` puts a response into the outbox; its second argument is a failure's code, or empty."""
    if isinstance(cast("object", context), TurnContext):  # anything else is refused by the pipeline
        context.turn = about

    def queue(response: OutgoingResponse) -> RoutingOutcome:
        failed = context.llm_error.code or "unknown" if context.llm_error is not None else ""
        try:
            answered = answer(response, context.failure_code or failed)
        except TellbackError as error:
            permanent = isinstance(error, InvalidInput | NotFound)
            return RoutingOutcome(attempted=False, permanent=permanent, error=str(error))
        if answered in QUEUED_ANSWERS:
            return RoutingOutcome(attempted=False, queued=True)
        return RoutingOutcome(attempted=False, permanent=True, error=f"the outbox did not take it: {answered}")

    return pipeline.run(context, queue)
