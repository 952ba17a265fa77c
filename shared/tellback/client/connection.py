"""`tellback.connect`: the one object that an agent host holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from tellback.client.commands import DEFAULT_TIMEOUT, Job, gate, records, submit
from tellback.client.context import Context
from tellback.client.guidance import Prompt, begin_prompt, checked_session
from tellback.client.known import find_team
from tellback.client.observing import Observations
from tellback.client.outbox import OutboxDelivery, Reconcile, outbox
from tellback.client.reports import context_changed
from tellback.client.shared_turns import handed_over, join_turn, merge_turns
from tellback.client.signals import Bank
from tellback.client.turns import Turn, open_turn
from tellback.contracts.commands import CommandRecord, OnLost, Priority, Verdict
from tellback.contracts.guidance import Delivery, ProviderSpec
from tellback.guidance.observations.tools import ToolDeclaration
from tellback.guidance.provider import FeedbackProviderConfig
from tellback.messaging.publisher import Publisher
from tellback.settings import Settings, load
from tellback.state.database import Database
from tellback.state.dead import DeadLetters
from tellback.state.history import read_history


class Tellback:
    """A team's feedback plane, seen from an agent host. Safe across threads; use it as a context manager."""

    def __init__(self, context: Context) -> None:
        """Take what `connect` has made."""
        self.context = context

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what is buffered and give the connections back."""
        self.close()

    def close(self) -> None:
        """Send what is buffered and give the connections back."""
        self.context.publisher.close()
        self.context.database.close()
        self.context.quick.close()

    def flush(self) -> None:
        """Send every fact that is buffered; it is in Redis, or in the spool while Redis is away.

        Raises:
            SpoolFull: neither has room.
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
        """Hand a command to the workers; it ends in exactly one record. There is never a shell.

        `cwd` is a directory of the worker's host, within those that its policy allows. `timeout` is in seconds, from
        the start of the command. `note` is one line on what is expected, shown beside what happened. `host` asks for
        one host's workers. A retry names the attempt before as `parent`; `inputs` are commands whose output this one
        used. `env` is added to a minimal environment; `secret_env` names variables that the worker's host resolves and
        the record never shows. `on_lost="retry"` runs a command whose worker died again, at most twice, as a linked
        attempt. With `follow` its output can be followed while it runs: `Job.follow`.

        Raises:
            InvalidInput: an argument is wrong, or carries a secret that the rules know; the message names it.
            SpoolFull: Redis is away and so is the room to keep facts.
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
        """The newest records of a session, oldest first.

        Raises:
            InvalidInput: `last` is not within 1 and 200, the number that a session keeps.
            Unavailable: Redis is away.
        """
        return records(self.context, session, last)

    def gate(self, session: str, require: Sequence[Sequence[str]] = ()) -> Verdict:
        """Whether the records of a session allow to claim success, and why not.

        Refused: no records; a command of `require` that never ran; records that are gone; a failure or null exit that
        no later linked attempt with the same argv and cwd has turned into a success.

        Raises:
            InvalidInput: `require` is not a list of argument lists.
            Unavailable: Redis is away.
        """
        return gate(self.context, session, require)

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
        """Open the turn of a user's message, or find the one that this message opened before.

        A message id counts within its channel and conversation. `metadata["auto.mode"]` that is True, exactly, creates
        no obligation. `session` is where the history goes: else `metadata["session"]`, else the conversation.

        Raises:
            InvalidInput: an argument is wrong; the message names it.
            Unavailable: Redis is away: do not acknowledge the message to its platform.
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
        """The turn of this id, from any process: to answer it, tell of progress, or look at its state.

        Raises:
            InvalidInput: not the id of a turn.
            NotFound: turns are kept for seven days.
            Unavailable: Redis is away.
        """
        return join_turn(self.context, turn_id)

    def handed_over(self, *, to: str | None = None) -> list[Turn]:
        """Open turns that were handed over to a host and are with it still, the longest there first, at most 100.

        `to` is this host, where nothing is said. A turn stays in the list until it is closed or handed on.

        Raises:
            InvalidInput: `to` is not text of 1 to 512 bytes.
            Unavailable: Redis is away.
        """
        return handed_over(self.context, to)

    def merge_turns(self, turns: Iterable[Turn], *, into: Turn) -> None:
        """Let the turn `into` cover others of its conversation: its answer is the answer to all of them.

        They close as `merged`, in one step, all or none. What becomes of `into` becomes of them: its fallback is
        theirs, and so is its `no_reply`. It takes the nearest deadline of all, so a merge makes no user wait longer.
        Turns that are merged into it already stay so.

        Raises:
            InvalidInput: no turn or more than 100, not turns, `into` itself, or a turn of another conversation.
            NotFound: turns are kept for seven days.
            StateConflict: one of them is not open; nothing was merged.
            Unavailable: Redis is away; whether they were merged is unknown, and the call may be repeated.
        """
        merge_turns(self.context, turns, into=into)

    def outbox(
        self, channel: str, *, wait: float = 0.0, reconcile: Reconcile | None = None
    ) -> Iterator[OutboxDelivery]:
        """Deliveries of a channel for a transport to send and settle, in order within each conversation.

        Ends when nothing has come due for `wait` seconds (`math.inf`: never). Each delivery is taken when it is
        yielded; one that is not settled comes again when its lease ends, here or in another transport.

        `reconcile` asks the platform whether a delivery was sent of which nobody knows: it returns the outcome that
        settles it, or None where the platform does not know (yet).

        Raises:
            InvalidInput: an argument is wrong; the message names it.
            Unavailable: Redis is away; begin again later, nothing is lost.
        """
        return outbox(self.context, channel, wait=wait, reconcile=reconcile)

    @property
    def spooled(self) -> bool:
        """Whether facts of this process wait on the host's disk, for Redis or room in its streams."""
        return self.context.publisher.spooled

    @property
    def dead(self) -> DeadLetters:
        """The team's dead letters."""
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
        delivery: Delivery = "first",
        observations: Observations | None = None,
    ) -> Prompt:
        """Begin an evaluation of a prompt, with counters of its own; or join the one that `evaluation` names.

        `deadline` is an aware datetime, a timedelta, or seconds from now. Of several processes that join, the first
        configuration counts. With `delivery="first"` the first provider that is due wins a tool call and the others
        wait for the next one; with "all" each gives its own feedback. `tools` are names or definitions (a
        `tellback.Tool`, or the forms of OpenAI, Anthropic and MCP); from them and the `question` `prompt.observe` makes
        its suggestions, in the way that `observations` says.

        Raises:
            InvalidInput: an argument is wrong; the message names it.
            ConfigurationError: the templates of observations are wrong, or there is no such language.
            SpoolFull: Redis is away and so is the room to keep facts.
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
        """Tell every evaluation of a session that something changed, each once; not the one that `by` names.

        `kind` is "file", "branch", "instructions" or one of your own. `by` is the prompt that made the change, or the
        name of its evaluation. Evaluations that begin later are not told.

        Raises:
            InvalidInput: the session, the kind or the name is no text, or empty.
            SpoolFull: Redis is away and so is the room to keep facts.
        """
        maker = by.evaluation if isinstance(by, Prompt) else by or ""
        change = context_changed(checked_session(session), kind, name, detail, by=maker)
        self.context.publisher.publish(change)

    def bank(self, name: str) -> Bank:
        """The bank of this name; it begins with its first signal.

        Raises:
            InvalidInput: the name is not text of 1 to 512 characters.
        """
        return Bank(self.context, name)

    def history(self, session: str) -> list[dict[str, Any]]:
        """Everything stored for a session, in time order; each entry has `kind` and `at` (milliseconds, server time).

        Raises:
            Unavailable: Redis does not answer.
        """
        return read_history(self.context.database, self.context.layout, session)


def connect(url: str | None = None, *, team: str | None = None, settings: Settings | None = None) -> Tellback:
    """The feedback plane at `url`, else at what the `TELLBACK_*` settings say, for one team.

    While Redis is away facts go to the disk spool and decisions raise `Unavailable`.

    Raises:
        ConfigurationError: a setting is wrong, or the team's name is not allowed.
    """
    settings = settings or load(redis_url=url, team=team)
    database = Database(settings.redis_url)
    layout, place = find_team(database, settings)
    quick = Database(settings.redis_url, patience=settings.feedback_patience)
    return Tellback(Context(settings, database, quick, layout, Publisher(database, layout, settings, place)))
