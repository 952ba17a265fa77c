"""What a host says of a turn's end, checked, and cleaned of what must not leave the host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from tellback.client.turn_checks import check_struct
from tellback.contracts.llm import (
    AUTO_MODE,
    VOICE,
    AnyMessage,
    LlmError,
    LlmResponse,
    SystemFailure,
    TurnMessage,
    metadata_of,
    role_of,
)
from tellback.contracts.message import new_event_id
from tellback.contracts.turns import OutgoingResponse, TurnFinished, TurnOrigin
from tellback.errors import InvalidInput
from tellback.state.turns import Origin, TurnRef
from tellback.turns.pipeline.failures import cleaned_error, cleaned_failures, note

MAX_KEYS: Final = 20
MAX_KEY: Final = 64
MAX_VALUE: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One way in which a turn ends, as a fact tells it."""

    response: OutgoingResponse | None = None
    error_code: str | None = None
    late_within: float | None = None
    llm_response: LlmResponse | None = None
    llm_error: LlmError | None = None
    final_answer_ready: bool = False
    system_errors: tuple[SystemFailure, ...] = ()
    messages: tuple[TurnMessage, ...] = ()

    def fact(self, turn: TurnRef, origin: Origin) -> TurnFinished:
        """The fact; with its origin the workers can make a turn again that Redis has lost.

        Raises:
            InvalidInput: it says nothing, or two things at once.
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
    """A model's response that an outbox can hold.

    Raises:
        InvalidInput: it is not; the message names the field.
    """
    if isinstance(response, LlmResponse) and isinstance(cast("object", response.finish_reason), str):
        response = msgspec.structs.replace(response, finish_reason=note(response.finish_reason, MAX_KEY))
    checked = check_struct("llm_response", response, LlmResponse)
    OutgoingResponse(text=checked.text, voice=checked.voice, attachments=checked.attachments).check()
    return checked


def check_llm_error(error: object) -> LlmError:
    """An error without secrets and stack traces; it is cut, never refused for its length."""
    if not isinstance(error, LlmError) or not _are_texts(error):
        raise InvalidInput(f"llm_error: an LlmError of texts, not {type(error).__name__}")
    return cleaned_error(error)


def check_failures(failures: Iterable[SystemFailure]) -> tuple[SystemFailure, ...]:
    """The last failures, cleaned."""
    if not isinstance(cast("object", failures), Iterable):
        raise InvalidInput(f"system_errors: SystemFailures, not {type(failures).__name__}")
    found: list[Any] = list(failures)
    for failure in found:
        if not isinstance(failure, SystemFailure) or not _are_texts(failure):
            raise InvalidInput(f"system_errors: SystemFailures of texts, not {type(failure).__name__}")
    return cleaned_failures(found)


def _are_texts(value: msgspec.Struct) -> bool:
    return all(isinstance(each, str) for each in msgspec.structs.astuple(value))


def check_messages(messages: Sequence[AnyMessage]) -> tuple[TurnMessage, ...]:
    """The user's last message and the last one of all, without their texts.

    Raises:
        InvalidInput: one of them is no message.
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


def _without_text(message: AnyMessage) -> TurnMessage:
    found = metadata_of(message)
    names = [*(name for name in (AUTO_MODE, VOICE) if name in found), *(name for name in found if _fits(name))]
    plain: dict[str, Any] = {}
    for name in names:
        value = found[name]
        if len(plain) < MAX_KEYS and isinstance(value, bool | int | float | str):
            plain.setdefault(name, note(value, MAX_VALUE) if isinstance(value, str) else value)
    return TurnMessage(role=note(role_of(message), MAX_KEY), metadata=plain)


def _fits(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= MAX_KEY and note(name, MAX_KEY) == name
