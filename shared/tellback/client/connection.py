"""`tellback.connect` and the client that it returns, the one object that an agent host holds.

Each method checks its arguments in the file of its loop, so this module is signatures and documentation only.
`tellback.aio` is generated from these classes: a new public method appears there as well (requirement A-76).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self

from tellback.backoff import sleep_between
from tellback.client.banks import Bank
from tellback.client.client_context import ClientContext, check_settings, check_url, find_team, locate_team
from tellback.client.commands import Job, gate, records, submit, waive
from tellback.client.guidance import Prompt, begin_prompt, check_session
from tellback.client.guidance_events import Observations, build_context_changed
from tellback.client.outbox import OutboxDelivery, Reconcile, poll_outbox
from tellback.client.turns import Turn, join_turn, list_handed_over, merge_turns, open_turn
from tellback.contracts.commands import DEFAULT_TIMEOUT, CommandRecord, OnLost, Priority, Verdict
from tellback.contracts.guidance import DeliveryMode, ProviderSpec
from tellback.guidance.observations.tools import ToolDeclaration
from tellback.guidance.provider import FeedbackProviderConfig
from tellback.messaging.publisher import Publisher
from tellback.messaging.team_cache import SpoolLocation
from tellback.own_passwords import remember_passwords
from tellback.settings import Settings, load
from tellback.state.call_deadline import CircuitBreaker
from tellback.state.confirmation import Confirmation
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.keys import Layout
from tellback.state.records import read_history
from tellback.unknown_variables import log_mistyped_variables


class Tellback:
    """The client of one team. Call `tellback.connect()` to get one, and use it as a context manager.

    It is safe across threads, and in a child process after a fork. Calls are of two kinds. Those that publish events
    return at once; while Redis is away, the events wait on this host's disk and are sent later. Decisions, such as
    `open_turn`, need a reply from Redis and raise `Unavailable` without one. Lost replies are retried with one effect.
    """

    def __init__(self, context: ClientContext) -> None:
        self.context = context

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        self.close()

    def close(self) -> None:
        """Send all buffered events, then close the connections. It is safe to call this again.

        Events that neither Redis nor the spool accepts are lost, and an error is logged. To handle that case yourself,
        call `flush` first.

        You may call this and `flush` in a signal handler. If the signal came while this thread was sending, they write
        the events to the spool instead, and the client stays open until the interpreter ends.
        """
        self.context.publisher.close()
        self.context.database.close()
        self.context.quick_database.close()

    def flush(self) -> None:
        """Send all buffered events now. When this returns, they are in Redis, or in the spool while Redis is away.

        You rarely need this: events are sent in the background after `TELLBACK_PUBLISH_DELAY` seconds.

        Raises:
            SpoolFull: Redis is unavailable and the spool is full. The events stay in memory and are tried again.
        """
        self.context.publisher.flush()

    def submit(
        self,
        argv: Sequence[str],
        *,
        session: str,
        cwd: str | os.PathLike[str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        note: str | None = None,
        host: str | None = None,
        parent: str | None = None,
        inputs: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        secret_env: Sequence[str] = (),
        on_lost: OnLost = "record",
        priority: Priority = "normal",
        follow: bool = False,
    ) -> Job:
        """Submit a command to the workers. It ends in exactly one record (requirement C-25). No shell is involved.

        `cwd` is a directory on the worker's host that its policy allows. `timeout` is in seconds from the start of the
        command. `note` is one line that says what you expect; the record shows it beside the outcome. `host` limits the
        command to one host's workers. For a retry, pass the id of the previous attempt as `parent`; `inputs` are ids of
        commands whose output this one used. `env` extends a minimal environment; `secret_env` names variables that the
        worker's host supplies and no record shows. With `on_lost="retry"`, a command whose worker died runs again as a
        linked attempt, at most twice. With `follow=True`, `Job.follow` yields its output while it runs.

        Raises:
            InvalidInput: an argument is wrong or contains a known kind of secret; the message names the argument.
            SpoolFull: Redis is unavailable and the spool is full.
            Unavailable: the team has as many sessions as an operator allows.
        """
        return submit(
            self.context,
            argv,
            session=session,
            cwd=cwd,
            timeout=timeout,
            note=note,
            host=host,
            parent=parent,
            inputs=inputs,
            env=env,
            secret_env=secret_env,
            on_lost=on_lost,
            priority=priority,
            follow=follow,
        )

    def records(self, session: str, last: int = 20) -> list[CommandRecord]:
        """Return the newest `last` records of a session, oldest first. Requirement C-30.

        Raises:
            InvalidInput: `session` is not text of 1 to 512 characters, or `last` is not from 1 to 200.
            Unavailable: Redis does not answer.
        """
        return records(self.context, session, last)

    def gate(self, session: str, require: Sequence[Sequence[str]] = ()) -> Verdict:
        """Check whether the recorded commands of a session justify claiming success.

        The verdict is a refusal, with its reasons, if the session has no records, if a command in `require` never ran,
        if records were evicted, or if a command failed or has no exit code. Only a later success clears a failure: it
        must be linked to it by `parent` and have the same arguments and directory. Requirements C-52 to C-55.

        Args:
            session: the session to check.
            require: commands that must have run, each a list of arguments.

        Raises:
            InvalidInput: `session` is not text of 1 to 512 characters, or `require` is not a list of argument lists.
            Unavailable: Redis does not answer.
        """
        return gate(self.context, session, require)

    def waive(self, session: str, command_id: str, *, reason: str, by: str = "") -> CommandRecord:
        """Declare that a failure or null exit of a session does not count, and return its record with the waiver.

        The gate then passes over the record and says who waived it and why; so do the record, the session's history and
        the audit log. A second waiver of one record replaces the first. `by` is this process's user and host by
        default. Requirement C-74.

        Raises:
            InvalidInput: the session or reason is empty, a text is too long, or the command succeeded.
            NotFound: the session keeps no record of this command.
            Unavailable: Redis does not answer.
        """
        return waive(self.context, session, command_id, reason, by)

    def open_turn(
        self,
        *,
        channel: str,
        conversation: str,
        message_id: str,
        text: str,
        language: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        answer_within: float = 30.0,
        session: str | None = None,
    ) -> Turn:
        """Open a turn for a user's message. If the message has one already, return that, with `duplicate` set.

        The turn is owed an answer within `answer_within` seconds; after that, the workers send a fallback. To end it,
        see the table "How to end a turn" in the guide to turns. Message ids are unique per channel and conversation.
        If `metadata["auto.mode"]` is exactly `True`, nobody waits for an answer and no fallback is sent. The history
        is kept under `session`, by default `metadata["session"]` or else the conversation. Requirements T-1 to T-4.

        Raises:
            InvalidInput: an argument is wrong; the message names it. Nothing was opened.
            Unavailable: Redis does not answer. Do not acknowledge the message to its platform.
        """
        return open_turn(
            self.context,
            channel=channel,
            conversation=conversation,
            message_id=message_id,
            text=text,
            language=language,
            metadata=metadata,
            answer_within=answer_within,
            session=session,
        )

    def turn(self, turn_id: str) -> Turn:
        """Return the turn with this id. Any process of any host may answer it. Requirement T-51.

        Raises:
            InvalidInput: `turn_id` is not the id of a turn.
            NotFound: there is no such turn. Turns are kept for seven days.
            Unavailable: Redis does not answer.
        """
        return join_turn(self.context, turn_id)

    def handed_over(self, *, to: str | None = None) -> list[Turn]:
        """Return the open turns that are handed over to a host, the oldest handover first, at most 100.

        `to` defaults to this host, as `TELLBACK_HOST` names it. A turn stays in the list until it is closed or handed
        over again, so you see it in each call until then.

        Raises:
            InvalidInput: `to` is not text of 1 to 512 bytes.
            Unavailable: Redis does not answer.
        """
        return list_handed_over(self.context, to)

    def merge_turns(self, turns: Iterable[Turn], *, into: Turn) -> None:
        """Merge turns of one conversation into one of them, whose answer then answers all. Requirements T-53 and T-54.

        The `turns` close as `merged`, all of them or none. Whatever ends `into` ends them too: its answer, its fallback
        or its `no_reply`. `into` takes the earliest deadline of all, so no user waits longer. Merging a turn again into
        the same turn has no effect.

        Raises:
            InvalidInput: there are no turns, or over 100, one is not a turn, is `into`, or is of another conversation.
            NotFound: one of them does not exist. Turns are kept for seven days.
            StateConflict: one of them is not open. Nothing was merged.
            Unavailable: Redis does not answer. The turns may or may not be merged; you can repeat the call.
        """
        merge_turns(self.context, turns, into=into)

    def outbox(
        self, channel: str, *, wait: float = 0.0, reconcile: Reconcile | None = None
    ) -> Iterator[OutboxDelivery]:
        """Yield the deliveries of a channel for a transport to send and settle. Requirements T-56 to T-59.

        Deliveries of one conversation come in order. You hold a delivery under a lease from the moment it is yielded.
        If you don't settle it, it is yielded again after the lease ends, here or to another transport. The loop ends
        after `wait` seconds without a delivery; pass `math.inf` to run forever.

        `reconcile` is called with a delivery that may or may not have been sent. It asks the platform and returns the
        outcome, or None if the platform does not know (yet).

        Raises:
            InvalidInput: an argument is wrong; the message names it.
            Unavailable: Redis does not answer. Start again later; nothing is lost.
        """
        return sleep_between(poll_outbox(self.context, channel, wait=wait, reconcile=reconcile, may_block=True))

    @property
    def spooled(self) -> bool:
        """Return True while events of this process wait on the host's disk for Redis, or for room in a stream."""
        return self.context.publisher.spooled

    @property
    def dead(self) -> DeadLetters:
        """The team's dead letters: entries that could not be applied."""
        return DeadLetters(self.context.database, self.context.layout)

    def prompt(
        self,
        session: str,
        name: str,
        *,
        feedback_providers: Iterable[FeedbackProviderConfig | ProviderSpec] = (),
        deadline: datetime | timedelta | float | None = None,
        tools: Iterable[ToolDeclaration] = (),
        question: str | None = None,
        evaluation: str | None = None,
        delivery: DeliveryMode = "first",
        observations: Observations | None = None,
    ) -> Prompt:
        """Begin an evaluation of a prompt, or join the one named `evaluation`. Requirements G-21 and G-22.

        Each evaluation has counters of its own. If several processes join one, the first configuration counts.
        `deadline` is an aware datetime, a timedelta, or seconds from now. With `delivery="first"`, one provider that is
        due speaks after a tool call, and the others wait for the next call; with "all", every one speaks. `tools` are
        names or definitions: a `tellback.Tool`, or what OpenAI, Anthropic or MCP use. `prompt.observe` builds its
        suggestions from `tools` and `question`, and `observations` configures how.

        Raises:
            InvalidInput: an argument is wrong; the message names it.
            ConfigurationError: the observation templates are wrong, or the language does not exist.
            SpoolFull: Redis is unavailable and the spool is full.
            Unavailable: the team has as many sessions as an operator allows.
        """
        return begin_prompt(
            self.context,
            session,
            name,
            feedback_providers=feedback_providers,
            deadline=deadline,
            tools=tools,
            question=question,
            evaluation=evaluation,
            delivery=delivery,
            observations=observations,
        )

    def context_changed(
        self, session: str, kind: str, name: str, detail: str | None = None, *, by: Prompt | str | None = None
    ) -> None:
        """Report a change to every evaluation of a session except the one in `by`. Requirement G-34.

        `kind` is "file", "branch", "instructions" or a word of your own. `by` is the prompt that made the change, or
        the name of its evaluation. Evaluations that begin later do not see the change.

        Raises:
            InvalidInput: the session, the kind or the name is empty or not text, or `by` is not an evaluation's name.
            SpoolFull: Redis is unavailable and the spool is full.
        """
        maker = by.evaluation if isinstance(by, Prompt) else by or ""
        self.context.publisher.publish(build_context_changed(check_session(session), kind, name, detail, by=maker))

    def bank(self, name: str) -> Bank:
        """Return the bank with this name. The first signal or fact creates it; this call sends nothing.

        Raises:
            InvalidInput: the name is not text of 1 to 512 characters, or contains a known kind of secret.
        """
        return Bank(self.context, name)

    def history(self, session: str) -> list[dict[str, Any]]:
        """Return the history of a session from all loops, in time order. Requirement A-80.

        Each entry has a `kind`, and `at` in milliseconds since the epoch by the server's clock.

        Raises:
            InvalidInput: `session` is not text of 1 to 512 characters.
            Unavailable: Redis does not answer.
        """
        return read_history(self.context.database, self.context.layout, check_session(session))


def connect(url: str | None = None, *, team: str | None = None, settings: Settings | None = None) -> Tellback:
    """Connect to Tellback and return the client of one team.

    Arguments override the `TELLBACK_*` environment variables, which override the defaults (requirement A-79). If you
    pass `settings`, they count alone. This call succeeds while Redis is away: events then go to the disk spool, and
    decisions raise `Unavailable`.

    Raises:
        ConfigurationError: a setting is wrong, or the team's name is not allowed.
    """
    if settings is None:
        log_mistyped_variables()
        return _open(load(redis_url=check_url(url), team=team), locate_team)
    return _open(check_settings(settings), locate_team)


def connect_for_command(
    url: str | None,
    *,
    team: str | None,
    create: bool,
    required: bool = True,
    created: Callable[[], object] | None = None,
    database: type[Database] = Database,
) -> Tellback:
    """Connect for a command of the command line, which waits once for a Redis that hangs.

    Without `create`, a missing team that is not `required` is an empty one; with it, `created` is called for one.

    Raises:
        NotFound: there is no such team, and it is `required`.
        ConfigurationError: a setting is wrong.
    """
    locate = partial(locate_team, created=created) if create else partial(find_team, required=required)
    return _open(load(redis_url=url, team=team), locate, CircuitBreaker(), database)


def _open(
    settings: Settings,
    locate: Callable[[Database, Settings], tuple[Layout, SpoolLocation]],
    breaker: CircuitBreaker | None = None,
    database_class: type[Database] = Database,
) -> Tellback:
    remember_passwords(settings.redis_url)
    database = database_class(settings.redis_url, confirmation=Confirmation.of(settings), breaker=breaker)
    try:
        layout, place = locate(database, settings)
    except BaseException:
        database.close()
        raise
    # A second pool, so that the short call deadline of `prompt.feedback` never cuts off a decision.
    quick = Database(settings.redis_url, call_deadline=settings.feedback_deadline)
    return Tellback(ClientContext(settings, database, quick, layout, Publisher(database, layout, settings, place)))
