"""A prompt's evaluation as a host uses it: publish tool calls, observe them, and take the feedback that they earn.

No call waits for an evaluation, and trouble with Redis never reaches the agent: events are spooled, and feedback comes
late or is dropped (requirement G-43). That is why taking feedback swallows errors that other calls raise, and why two
circuit breakers guard it: the client's for a Redis that is away, and the prompt's own for a mailbox that is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from tellback import clock
from tellback.backoff import Backoff
from tellback.client.agent_prompts import AgentPrompts
from tellback.client.client_context import ClientContext
from tellback.client.guidance_events import (
    FileWatch,
    Observations,
    build_budget_spent,
    build_context_changed,
    build_evaluation_begun,
    build_observer,
    build_tool_invoked,
    check_texts,
    seconds_left,
)
from tellback.client.wire_values import wire_call, wire_duration, wire_name, wire_status, wire_text
from tellback.contracts.guidance import DeliveryMode, Feedback, ProviderSpec, ToolInvoked
from tellback.contracts.limits import MAX_NAME_CHARS, MAX_SESSION_CHARS
from tellback.contracts.message import new_event_id
from tellback.errors import InvalidInput, TellbackError, Unavailable
from tellback.guidance.observations.completion import AnswerCheck
from tellback.guidance.observations.evidence_builder import build_evidence
from tellback.guidance.observations.feedback import ToolFeedback
from tellback.guidance.observations.observer import ToolObserver
from tellback.guidance.observations.tools import ToolDeclaration
from tellback.guidance.provider import FeedbackProviderConfig, provider_specs
from tellback.log import get_logger
from tellback.names import agent_evaluation
from tellback.state.call_deadline import CircuitBreaker
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.script_calls import FirstCall
from tellback.tracing import note_delivered

# Used only while this process can't block on the mailbox. With this factor a backoff is about a quarter of the wait
# before it, so feedback is taken soon after it is there; a doubled backoff would be as long as the wait before it.
BACKOFF: Final = Backoff(first=0.001, longest=0.02, factor=1.25)

_logger = get_logger("tellback.guidance")


class Prompt:
    """One evaluation of a prompt. Get one from `tb.prompt(...)`.

    It is safe across threads. Other processes join the same evaluation by passing its `evaluation` to `tb.prompt`.
    """

    def __init__(
        self,
        context: ClientContext,
        id_: EvaluationId,
        files: FileWatch | None = None,
        observer: ToolObserver | None = None,
        begin_agent: Callable[[str], Prompt] | None = None,
    ) -> None:
        self._context = context
        self._agents = AgentPrompts(begin_agent or (lambda name: Prompt(context, id_._replace(evaluation=name))))
        self._id = id_
        self._observer = observer or build_observer(context, id_.evaluation, (), None, Observations())
        self._files = files
        self._mailbox = Evaluations(context.quick_database, context.layout.of(id_.session))
        self._refused = CircuitBreaker()  # for this mailbox alone: other prompts of the client continue
        self._said = ""  # the log's line about feedback that does not come; said once until some comes
        self._unanswered: list[str] = []  # operations whose reply was lost; repeating one returns the same feedback

    @property
    def session(self) -> str:
        """The name of the session that the evaluation belongs to."""
        return self._id.session

    @property
    def name(self) -> str:
        """The prompt's name."""
        return self._id.prompt

    @property
    def evaluation(self) -> str:
        """The evaluation's name. Another process passes it to `tb.prompt(..., evaluation=...)` to join."""
        return self._id.evaluation

    def for_agent(self, agent: str) -> Prompt:
        """Return the prompt of a subagent: an evaluation of its own in the same session. Requirement G-76.

        It has the same providers, tools and question, and what is left of the deadline. The same `agent` always gets
        the same evaluation. What one agent did never counts for another.

        Raises:
            InvalidInput: `agent` is not text, or is empty.
            SpoolFull: Redis is unavailable and the spool is full.
        """
        name = agent_evaluation(self.evaluation, _checked_name(agent, "agent"), MAX_NAME_CHARS)
        return self._agents.named(name)

    def tool_invoked(
        self,
        tool: str,
        *,
        params: Mapping[str, Any] | None = None,
        status: str | None = None,
        result: object = None,
        error: str | None = None,
        duration_ms: float | None = None,
        call_id: str | None = None,
    ) -> None:
        """Report a completed tool call, whatever its outcome. This returns before anything is evaluated.

        Every completed call counts, also one with odd parameters, status or duration (requirement G-23). Secrets are
        redacted in this process; parameters, result and error are then truncated to 64 KB each. A result that is not
        text is sent as JSON. A `duration_ms` that is not a duration is left out. `status` is your word for the outcome,
        by default "error" if there is an error, otherwise "success".

        Raises:
            InvalidInput: the tool has no name.
            SpoolFull: Redis is unavailable and the spool is full.
        """
        arguments, found, failed = wire_call({} if params is None else params, result, error)
        session, prompt, evaluation = self._id
        event = ToolInvoked(
            event_id=new_event_id(),
            session=session,
            prompt=prompt,
            evaluation=evaluation,
            tool=wire_name(_checked_name(tool, "tool"), MAX_NAME_CHARS),
            params=arguments,
            status=wire_status(status, error),
            result=found,
            error=failed,
            duration_ms=wire_duration(duration_ms),
            call_id=None if call_id is None else wire_text(call_id)[:MAX_NAME_CHARS],
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
        """Classify a completed tool call, publish it, and return what the agent should read. Requirements G-51 to G-58.

        `result` and `error` are whatever the tool returned: text, JSON, an exception, an HTTP response, or a tool
        result of MCP, OpenAI or Anthropic. Give the agent `to_observation()` of the returned feedback in place of the
        bare result; programs read its `envelope`. `status` is your own word for the outcome, if you have one.
        `http_status` and `headers` are those of the call; you may pass them in `metadata` instead.

        The call is published as by `tool_invoked`, so don't report it twice. This returns at once and raises nothing,
        whatever the tool returned. If neither Redis nor the spool accepts the event, a log line says so.
        """
        evidence = build_evidence(
            tool,
            params,
            result,
            error,
            status=status,
            http_status=http_status,
            headers=headers,
            metadata=metadata,
        )
        seen = self._observer.observe_evidence(evidence)
        try:
            named = None if call_id is None else wire_text(call_id)[:MAX_NAME_CHARS]
            duration = wire_duration(duration_ms)
            self._publish_call(build_tool_invoked(self._id, seen, evidence, duration_ms=duration, call_id=named))
        except TellbackError as error_of_ours:
            _logger.warning("observation.not_published", evaluation=self.evaluation, reason=str(error_of_ours))
        return seen

    def check_answer(self, answer: object, *, todo: Iterable[str] = (), max_refusals: int = 2) -> AnswerCheck:
        """Check whether `answer` may end the task, for a Stop hook or before you send a final answer. Requirement G-72.

        The check names what is missing: an answer at all, open items in `todo`, a tool in `Observations.required_tools`
        that has not succeeded, a tool whose last call failed, and words of the question that neither a result nor the
        answer mentions. After `max_refusals` refusals in a row it passes whatever is missing, so no agent is held
        forever.
        """
        return self._observer.check_answer(answer, todo=check_texts("todo", todo), max_refusals=max_refusals)

    def verification_prompt(self, *, todo: Iterable[str] = ()) -> str:
        """Return a text that asks the agent to check its final answer: question, results so far, missing items."""
        return self._observer.verification_text(todo=check_texts("todo", todo))

    def observation_memory(self) -> bytes:
        """Return the record of attempts as JSON; `ObservationMemory.from_bytes` reads it.

        Pass the result as `Observations(memory=...)` to continue in another process.
        """
        return self._observer.memory_snapshot()

    def spent(self, *, tokens: int = 0, cost: Decimal | float | str = 0) -> None:
        """Report what this evaluation has spent since the last report, in tokens and in money of one currency.

        The reports of all processes add up exactly (requirement G-33). `BudgetFeedback` mentions the sum after the next
        tool call. A float is rounded to 12 decimal places.

        Raises:
            InvalidInput: an amount is not a number, is negative, or has too many digits to be summed exactly.
            SpoolFull: Redis is unavailable and the spool is full.
        """
        self._context.publisher.publish(build_budget_spent(self._id, tokens, cost))

    def context_changed(self, kind: str, name: str, detail: str | None = None) -> None:
        """Report a change to this evaluation: kind "file", "branch", "instructions" or a word of your own.

        `ContextChangeFeedback` mentions it after the next tool call. To report to all evaluations of a session, use
        `tb.context_changed`. Requirement G-34.

        Raises:
            InvalidInput: the kind or the name is not text, or is empty.
            SpoolFull: Redis is unavailable and the spool is full.
        """
        self._context.publisher.publish(build_context_changed(self._id.session, kind, name, detail, id_=self._id))

    def _publish_call(self, event: ToolInvoked) -> None:
        """Publish a tool call, after the files that exist by now: this call is the one that fires their triggers."""
        if self._files is not None:
            self._files.publish_new_files(self._context.publisher.publish)
        self._context.publisher.publish(event)

    def feedback(self, wait: float = 0.0) -> list[Feedback]:
        """Return the feedback that waits, oldest first, and remove it: nobody gets it twice. Requirements G-43 to G-46.

        This blocks until there is feedback, for at most `wait` seconds, plus `TELLBACK_FEEDBACK_DEADLINE` if Redis does
        not answer. While Redis is away the list is empty, and the feedback comes with a later call. Feedback for a tool
        call is dropped after three further calls; feedback that a timer left is not.

        Raises:
            InvalidInput: `wait` is not a number, or is negative.
        """
        given: Any = wait
        if not isinstance(given, int | float) or not given >= 0:
            raise InvalidInput(f"wait is {given!r}; use 0 or more seconds")
        asked: list[str] = []
        try:
            return self._wait_for_feedback(wait, asked)
        except BaseException:  # Ctrl-C, in a program that may continue: the next call returns what this one took
            self._unanswered += asked
            raise

    def _wait_for_feedback(self, wait: float, asked: list[str]) -> list[Feedback]:
        end = clock.monotonic() + wait
        taken: list[Feedback] | None = None
        if wait and not self._context.breaker.is_open:
            # The call that earns the feedback may still sit in this process's batching delay.
            taken = self._context.publisher.sending(
                self.session, self._context.quick_database, lambda first: self._take_feedback(asked, wait, first)
            )
        delays = BACKOFF.delays()
        while not taken and (left := end - clock.monotonic()) > 0:
            taken = self._take_feedback(asked, left)
            if taken is None:  # nothing was waited for
                taken = self._take_feedback(asked)
                clock.sleep(0 if taken else max(0, min(next(delays), end - clock.monotonic())))
        return (self._take_feedback(asked) or []) if taken is None else taken

    def _take_feedback(
        self, asked: list[str], wait: float = 0.0, first: FirstCall | None = None
    ) -> list[Feedback] | None:
        """Return and remove what comes within `wait` seconds; None if Redis is not asked, or does not answer.

        `first` is sent in the same round trip, if there is a wait. `asked` gets the operation, if its reply came.
        """
        if self._context.breaker.is_open or self._refused.is_open:
            return None  # an agent must not wait the whole call deadline again after each of its tool calls
        try:
            operation, wait = self._unanswered.pop(), 0.0  # its reply may be there already
        except IndexError:
            operation = secrets.token_hex(12)
        asked[:] = [operation]
        box, waiter = self._mailbox, self._context.feedback_waiter
        try:
            taken = (
                box.await_feedback(self._id, operation, waiter, wait, first)
                if wait
                else box.take_feedback(self._id, operation)
            )
        except Unavailable as away:
            self._unanswered.append(asked.pop())
            self._context.breaker.trip()
            self._say("feedback.postponed", str(away))
            return None
        except Exception as refusal:  # noqa: BLE001 - an access list, or not what we wrote: an agent can do nothing about it
            self._refused.trip()
            self._say("feedback.refused", f"{type(refusal).__name__}: {refusal}"[:500])
            return None
        self._said = ""
        if taken is None:
            self._unanswered.append(asked.pop())
        elif taken and (tracing := self._context.tracing) is not None:
            note_delivered(tracing, self.session, taken)
        return taken

    def _say(self, event: str, reason: str) -> None:
        if event != self._said:  # a call that waits three seconds for a Redis that refuses it asks seven times
            _logger.warning(event, evaluation=self.evaluation, reason=reason)
        self._said = event


def begin_prompt(
    context: ClientContext,
    session: str,
    name: str,
    *,
    feedback_providers: Iterable[FeedbackProviderConfig | ProviderSpec],
    deadline: datetime | timedelta | float | None,
    tools: Iterable[ToolDeclaration],
    question: str | None,
    evaluation: str | None,
    delivery: DeliveryMode,
    observations: Observations | None,
) -> Prompt:
    """Begin an evaluation, or join the one named `evaluation`. See `tellback.Tellback.prompt`."""
    if delivery not in ("first", "all"):
        raise InvalidInput(f"delivery is {delivery!r}; use 'first' or 'all'")
    id_ = EvaluationId(
        check_session(session),
        _checked_name(name, "prompt", MAX_NAME_CHARS),
        secrets.token_hex(8) if evaluation is None else _checked_name(evaluation, "evaluation", MAX_NAME_CHARS),
    )
    asked = provider_specs(feedback_providers)
    observed = observations or Observations()
    observer = build_observer(context, id_.evaluation, tools, question, observed)
    declared = tuple(observer.tools.values())
    seconds = seconds_left(deadline)
    ends_at = None if seconds is None else clock.monotonic() + seconds
    here = context.settings.host_name
    begun = build_evaluation_begun(id_, asked, delivery, seconds, observer.tools, question=question, host=here)
    context.admission.ask("sessions", id_.session)
    context.publisher.publish(begun)

    def begin_agent(agent: str) -> Prompt:
        left = None if ends_at is None else ends_at - clock.monotonic()
        own = msgspec.structs.replace(observed, memory=None)  # another agent made those attempts
        return begin_prompt(
            context, session, name, feedback_providers=asked, deadline=left, tools=declared, question=question,
            evaluation=agent, delivery=delivery, observations=own,
        )  # fmt: skip

    files = FileWatch(id_, asked) if any(spec.trigger.file_created for spec in asked) else None
    return Prompt(context, id_, files, observer, begin_agent)


def check_session(session: object) -> str:
    """Return the session's name.

    Raises:
        InvalidInput: it is not text of 1 to 512 characters.
    """
    return _checked_name(session, "session", MAX_SESSION_CHARS)


def _checked_name(value: object, what: str, longest: int | None = None) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{what} is {value!r}; use a text that is not empty")
    if longest is not None and len(value) > longest:
        raise InvalidInput(f"{what} has {len(value)} characters; use at most {longest}")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # half a surrogate pair
        raise InvalidInput(f"{what} is {value!r}, which is not valid Unicode: {error.reason}") from None
    return value
