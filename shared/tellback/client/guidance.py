"""Guidance as an agent host sees it: a prompt, its tool calls, the feedback that they earned.

Sources: feedback-providers, actionable-feedback. Nothing here waits for an evaluation, and no trouble with Redis
reaches the agent: facts are spooled, feedback comes late.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from tellback import clock
from tellback.client.context import Context
from tellback.client.observing import Observations, invocation, observer_of
from tellback.client.plain import plain_name, plain_params, plain_text
from tellback.client.reports import FileWatch, budget_spent, context_changed, without_secrets
from tellback.contracts.codec import decode, encode
from tellback.contracts.guidance import Delivery, EvaluationBegun, Feedback, ProviderSpec, ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.errors import InvalidInput, MessageError, TellbackError, Unavailable
from tellback.guidance.bounds import cut_text
from tellback.guidance.observations.completion import AnswerCheck
from tellback.guidance.observations.feedback import ToolFeedback
from tellback.guidance.observations.gathering import evidence_of
from tellback.guidance.observations.observer import Observer
from tellback.guidance.observations.tools import ToolDeclaration, announced
from tellback.guidance.provider import FeedbackProviderConfig, specs_of
from tellback.log import get_logger
from tellback.redaction import redact_value
from tellback.state.away import Away
from tellback.state.evaluations import EvaluationId, Evaluations

NAME_MAX: Final = 256
SESSION_MAX: Final = 512
STATUS_MAX: Final = 64
LONGEST_CALL_MS: Final = 2**53
QUESTION_BYTES: Final = 8 << 10
FIRST_NAP: Final = 0.001
LONGEST_NAP: Final = 0.02
NAP_GROWTH: Final = 1.25  # a nap is then a small part of the wait so far

_log = get_logger("tellback.guidance")


class Prompt:
    """One evaluation of a prompt. Safe across threads; other processes join it by its `evaluation`."""

    def __init__(
        self, context: Context, id_: EvaluationId, files: FileWatch | None = None, observer: Observer | None = None
    ) -> None:
        """Take the client's context, what names the evaluation, the files that its triggers wait for, its observer."""
        self._context = context
        self._id = id_
        self._observer = observer or observer_of(context, id_.evaluation, (), None, Observations())
        self._files = files or FileWatch(id_, ())
        self._mailbox = Evaluations(context.quick, context.layout.of(id_.session))
        self._refused = Away()  # what is wrong with this mailbox alone
        self._unanswered: list[str] = []  # operations whose reply did not come: asked again, they give the same answer

    @property
    def session(self) -> str:
        """The session."""
        return self._id.session

    @property
    def name(self) -> str:
        """The prompt's name."""
        return self._id.prompt

    @property
    def evaluation(self) -> str:
        """What another process passes to `tb.prompt(..., evaluation=...)` to join."""
        return self._id.evaluation

    def tool_invoked(
        self,
        tool: str,
        *,
        params: Mapping[str, Any] | None = None,
        status: str = "success",
        result: object = None,
        error: str | None = None,
        duration_ms: float | None = None,
        call_id: str | None = None,
    ) -> None:
        """Tell that a tool call has completed, whatever its outcome. Returns before anything is evaluated.

        Secrets are redacted here; then the parameters, the result and the error are cut at 64 KB each. A result that is
        no text is sent as JSON.

        Raises:
            InvalidInput: the tool has no name.
            SpoolFull: Redis is away and so is the room to keep facts.
        """
        event = ToolInvoked(
            event_id=new_event_id(),
            session=self._id.session,
            prompt=self._id.prompt,
            evaluation=self._id.evaluation,
            tool=plain_name(_named(tool, "tool"), NAME_MAX),
            params=plain_params(params) if params else {},
            status=_status(status),
            result=None if result is None else plain_text(result),
            error=None if error is None else plain_text(error),
            duration_ms=_milliseconds(duration_ms),
            call_id=None if call_id is None else plain_text(call_id)[:NAME_MAX],
        )
        self._publish_call(event)

    def observe(
        self,
        tool: str,
        *,
        params: Mapping[str, Any] | None = None,
        result: object = None,
        error: object = None,
        status: str | None = None,
        duration_ms: float | None = None,
        call_id: str | None = None,
        http_status: int | None = None,
        headers: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ToolFeedback:
        """What a completed tool call came to, and what to do next; tells the workers of it, as `tool_invoked` does.

        `result` and `error` are whatever the tool gave: text, JSON, an exception, an HTTP response, an MCP, OpenAI or
        Anthropic tool result. `seen.to_observation()` is what the agent reads in their place, `seen.envelope` the same
        for programs. `status` is the host's own word, if it has one; `http_status` and `headers` (or those two in
        `metadata`) are those of the call. Returns at once, and raises nothing over what a tool returned: with no Redis
        and no room in the spool the call goes unreported, and a log line says so.
        """
        evidence = evidence_of(
            tool,
            params,
            result,
            error,
            status=status,
            http_status=http_status,
            headers=headers,
            metadata=metadata,
        )
        seen = self._observer.see(evidence)
        try:
            named = None if call_id is None else plain_text(call_id)[:NAME_MAX]
            duration = _milliseconds(duration_ms)
            self._publish_call(invocation(self._id, seen, evidence, duration_ms=duration, call_id=named))
        except TellbackError as error_of_ours:
            _log.warning("observation.not_published", evaluation=self.evaluation, reason=str(error_of_ours))
        return seen

    def check_answer(self, answer: object, *, todo: Iterable[str] = (), max_refusals: int = 2) -> AnswerCheck:
        """What is missing before `answer` may end the task; for a Stop hook or before a final answer is sent on.

        Missing are: an answer; open items of `todo`; tools that `Observations.required_tools` names and that have not
        succeeded; tools whose last call failed; words of the question that neither a result nor the answer mentions.
        It refuses at most `max_refusals` times in a row: then `passed` is True, whatever is missing.
        """
        return self._observer.check_answer(answer, todo=todo, max_refusals=max_refusals)

    def verification_prompt(self, *, todo: Iterable[str] = ()) -> str:
        """What to ask the agent before its final answer: the question, the results in hand, what is missing."""
        return self._observer.verification(todo=todo)

    def observation_memory(self) -> bytes:
        """What was tried, as JSON: `Observations(memory=ObservationMemory.from_bytes(...))` goes on with it."""
        return self._observer.snapshot()

    def spent(self, *, tokens: int = 0, cost: Decimal | float | str = 0) -> None:
        """Tell what this evaluation has used since the last report, in tokens and in money of one currency.

        Reports of all processes add up exactly; `BudgetFeedback` speaks of the sum with the next tool call. A float is
        rounded to 12 digits after the point.

        Raises:
            InvalidInput: no amount, negative, or too fine or large to be added up.
            SpoolFull: Redis is away and so is the room to keep facts.
        """
        self._context.publisher.publish(budget_spent(self._id, tokens, cost))

    def context_changed(self, kind: str, name: str, detail: str | None = None) -> None:
        """Tell this evaluation that something changed: kind "file", "branch", "instructions" or one of your own.

        `ContextChangeFeedback` tells the agent with its next tool call. `tb.context_changed` tells a whole session.

        Raises:
            InvalidInput: the kind or the name is no text, or empty.
            SpoolFull: Redis is away and so is the room to keep facts.
        """
        self._context.publisher.publish(context_changed(self._id.session, kind, name, detail, id_=self._id))

    def _publish_call(self, event: ToolInvoked) -> None:
        """Publish a tool call; before it the files that exist by now, so that this call can fire their triggers."""
        self._files.look(self._context.publisher.publish)
        self._context.publisher.publish(event)

    def feedback(self, wait: float = 0.0) -> list[Feedback]:
        """The feedback not delivered yet, oldest first; what this returns nobody else gets.

        Blocks until there is some, for at most `wait` seconds, and beyond that for at most the setting
        `feedback_patience` where Redis does not answer. With Redis away it is empty: what was earned comes later.
        Feedback that is more than three tool calls old is dropped.

        Raises:
            InvalidInput: `wait` is no number, or negative.
        """
        given: Any = wait
        if not isinstance(given, int | float) or not given >= 0:
            raise InvalidInput(f"wait is {given!r}; use 0 or more seconds")
        end = clock.monotonic() + wait
        if wait:
            self._context.publisher.hurry()
        nap = FIRST_NAP
        while (left := end - clock.monotonic()) > 0:
            rung = self._await_bell(left)
            taken = self._take()
            if taken:
                return taken
            if not rung:
                clock.sleep(max(0, min(nap, end - clock.monotonic())))
                nap = min(NAP_GROWTH * nap, LONGEST_NAP)
        return self._take()

    def _await_bell(self, seconds: float) -> bool:
        """Whether it was possible to wait for the mailbox to have something, rather than to ask again and again."""
        if self._context.away.lasts:
            return False
        try:
            return self._context.doorbell.wait(self._mailbox.mailbox(self._id), seconds)
        except Unavailable as away:
            self._postpone(away)
            return False

    def _take(self) -> list[Feedback]:
        if self._context.away.lasts or self._refused.lasts:
            return []  # an agent must not pay the patience again for each of its calls
        try:
            operation = self._unanswered.pop()
        except IndexError:
            operation = secrets.token_hex(12)
        try:
            return self._mailbox.take_feedback(self._id, operation)
        except Unavailable as away:
            self._unanswered.append(operation)
            self._postpone(away)
            return []
        except Exception as refusal:  # noqa: BLE001 - an access list, or not what we wrote: an agent can do nothing about it
            self._refused.begin()
            reason = f"{type(refusal).__name__}: {refusal}"[:500]
            _log.warning("feedback.refused", evaluation=self.evaluation, reason=reason)
            return []

    def _postpone(self, away: Unavailable) -> None:
        self._context.away.begin()
        _log.warning("feedback.postponed", evaluation=self.evaluation, reason=str(away))


def begin_prompt(
    context: Context,
    session: str,
    name: str,
    *,
    feedback_providers: Iterable[FeedbackProviderConfig | ProviderSpec] = (),
    deadline: datetime | timedelta | float | None = None,
    tools: Iterable[ToolDeclaration] = (),
    question: str | None = None,
    evaluation: str | None = None,
    delivery: Delivery = "first",
    observations: Observations | None = None,
) -> Prompt:
    """Begin an evaluation with counters of its own, or join the one named `evaluation`.

    Raises:
        InvalidInput: an argument is wrong; the message names it.
        ConfigurationError: the templates of observations are wrong, or there is no such language.
        SpoolFull: Redis is away and so is the room to keep facts.
    """
    if delivery not in ("first", "all"):
        raise InvalidInput(f"delivery is {delivery!r}; use 'first' or 'all'")
    id_ = EvaluationId(
        checked_session(session),
        _named(name, "prompt", NAME_MAX),
        secrets.token_hex(8) if evaluation is None else _named(evaluation, "evaluation", NAME_MAX),
    )
    asked = specs_of(feedback_providers)
    specs = [without_secrets(spec) for spec in asked]
    observer = observer_of(context, id_.evaluation, tools, question, observations or Observations())
    begun = EvaluationBegun(
        event_id=new_event_id(),
        session=id_.session,
        prompt=id_.prompt,
        evaluation=id_.evaluation,
        providers=[
            ProviderSpec(name=spec.name, trigger=spec.trigger, fields=redact_value(spec.fields)) for spec in specs
        ],
        delivery=delivery,
        deadline_in=_seconds_left(deadline),
        tools=announced(observer.tools),
        question=None if question is None else cut_text(plain_text(question), QUESTION_BYTES),
    )
    try:
        decode(encode(begun), begun.family)
    except MessageError as error:  # a worker would refuse it, where the caller does not see it
        raise InvalidInput(f"the prompt's configuration cannot be sent: {error.reason}") from error
    context.publisher.publish(begun)
    return Prompt(context, id_, FileWatch(id_, asked), observer)


def checked_session(session: object) -> str:
    """The session's name.

    Raises:
        InvalidInput: no text of 1 to 512 characters.
    """
    return _named(session, "session", SESSION_MAX)


def _named(value: object, what: str, longest: int | None = None) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{what} is {value!r}; use a text that is not empty")
    if longest is not None and len(value) > longest:
        raise InvalidInput(f"{what} has {len(value)} characters; use at most {longest}")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # half a surrogate pair
        raise InvalidInput(f"{what} is {value!r}, which is not valid Unicode: {error.reason}") from None
    return value


def _status(status: object) -> str:
    """The host's word; whatever it is, a tool call must not fail over it."""
    return plain_name(status, STATUS_MAX) if isinstance(status, str) else plain_text(status)[:STATUS_MAX]


def _milliseconds(duration: float | None) -> int | None:
    """Whole milliseconds; None where it is no duration, since a tool call must not fail over it."""
    given: Any = duration
    return round(given) if isinstance(given, int | float) and 0 <= given < LONGEST_CALL_MS else None


def _seconds_left(deadline: datetime | timedelta | float | None) -> float | None:
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
