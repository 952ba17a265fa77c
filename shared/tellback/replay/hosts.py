"""A replay with one host process for each conversation, every n-th of which is killed at a random step.

It acts as the transport and checks what users would have seen: each message has exactly one first answer in the outbox,
either its host's or, if the host was killed or the transcript has no answer, the sweep's fallback.
"""

from __future__ import annotations

import random
import secrets
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

from tellback import clock
from tellback.contracts.turns import RoutingOutcome
from tellback.errors import TellbackError
from tellback.replay.host import READY, HostAssignment, conversation_name
from tellback.replay.reading import play_in_threads
from tellback.replay.run import ReplayProgress, log_replay
from tellback.replay.transcript import (
    AgentAnswer,
    BadLine,
    Conversation,
    MissingAnswer,
    Step,
    ToolResult,
    UserMessage,
)
from tellback.state.audit import Author
from tellback.state.turns import turn_id

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.client.outbox import OutboxDelivery

MAX_PARALLEL_HOSTS: Final = 4
"""Host processes that run at the same time."""
ANSWER_WITHIN: Final = 10.0
_OUTBOX_WAIT: Final = 0.5  # seconds that the transport waits for a delivery before it checks whether to stop
_HOST_TIMEOUT: Final = 120.0
_AFTER: Final[dict[type[Step], str]] = {
    UserMessage: "opened",
    ToolResult: "called a tool",
    AgentAnswer: "answered",
    MissingAnswer: "said nothing",
}

FallbackReason = Literal["host killed", "no answer in the transcript", "answer overdue"]


@dataclass(frozen=True, slots=True)
class KilledHost:
    """A host that was killed with SIGKILL, and its last step: `after`, for the message at `message`, from 0.

    After `opened` or `called a tool` the user is still owed an answer; after `answered` not.
    """

    line: int
    conversation: str
    message: int
    after: str


@dataclass(frozen=True, slots=True)
class PlayedMessage:
    """A user's message that was played, and the reason `why` its answer would be a fallback.

    `late` is set if the host's own answer followed the fallback.
    """

    line: int
    conversation: str
    message: int
    turn: str
    why: FallbackReason
    late: bool = False


@dataclass(slots=True)
class HostsResult:
    """The answers that users got.

    `unanswered` and `doubled` name turns with no first answer or more than one; both should be empty.
    """

    run: str
    seed: int
    conversations: int = 0
    hosts: int = 0
    messages: int = 0
    answers: int = 0
    late: int = 0
    killed: list[KilledHost] = field(default_factory=list[KilledHost])
    fallbacks: list[PlayedMessage] = field(default_factory=list[PlayedMessage])
    unanswered: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    bad_lines: list[BadLine] = field(default_factory=list[BadLine])
    seconds: float = 0.0

    @property
    def is_match(self) -> bool:
        """Return True if every user message has exactly one first answer."""
        first = self.answers + len(self.fallbacks)
        return not self.unanswered and not self.doubled and first == self.messages


class HostsReplay:
    """One replay of one file by host processes, and by `author`.

    `timeout` is the time in seconds after the last deadline in which no answer comes before the replay gives up.
    """

    def __init__(
        self,
        tb: Tellback,
        reporter: ReplayProgress,
        *,
        kill_every: int,
        seed: int = 0,
        answer_within: float = ANSWER_WITHIN,
        timeout: float,
        author: Author | None = None,
    ) -> None:
        self._tb = tb
        self._author = author or Author.of()
        self._reporter = reporter
        self._every = kill_every
        self._seed = seed
        self._within = min(answer_within, tb.context.settings.turn_limit)
        self._timeout = self._within + timeout
        self._outcome = HostsResult(secrets.token_hex(4), seed)
        # A channel for this run alone: another transport must not take its deliveries.
        self._channel = f"replay-{self._outcome.run}"
        self._asked: dict[str, PlayedMessage] = {}
        self._played = threading.Event()
        self._given_up = threading.Event()

    def run(self, file: BinaryIO) -> HostsResult:
        """Play every conversation, and act as the transport until every message has its answer.

        Raises:
            Unavailable: Redis is unavailable.
            TellbackError: a host ended unexpectedly.
        """
        self._tb.context.database.now_ms()  # raises if Redis is unavailable, before any host starts
        start = clock.monotonic()
        with ThreadPoolExecutor(1, thread_name_prefix="replay-transport") as pool:
            transport = pool.submit(self._deliver_answers)
            try:
                self._play_all(file)
            except BaseException:
                self._given_up.set()
                raise
            finally:
                self._played.set()
            transport.result()
        self._outcome.seconds = clock.monotonic() - start
        return self._outcome

    def _play_all(self, file: BinaryIO) -> None:
        def play(item: Conversation) -> Callable[[], list[KilledHost]]:
            return partial(self._play_with_hosts, item, self._fatal_step(item))

        play_in_threads(file, MAX_PARALLEL_HOSTS, play, self._note_finished, self._note_bad)

    def _note_bad(self, line: BadLine) -> None:
        self._outcome.bad_lines.append(line)
        self._reporter.bad(line)

    def _fatal_step(self, conversation: Conversation) -> int | None:
        """Return the step after which the conversation's host is killed, or None; the seed decides."""
        outcome = self._outcome
        if not outcome.conversations:
            log_replay(self._tb, outcome.run, self._author)
        outcome.conversations += 1
        fatal = None
        if outcome.conversations % self._every == 0 and conversation.steps:
            # Seeded by the conversation's number: one more conversation in the file doesn't change the other kills.
            fatal = random.Random(f"{self._seed}:{outcome.conversations}").randrange(len(conversation.steps))  # noqa: S311 - no secret
        for asked in self._messages(conversation, fatal):
            self._asked[asked.turn] = asked
        outcome.messages = len(self._asked)
        return fatal

    def _messages(self, conversation: Conversation, fatal: int | None) -> Iterator[PlayedMessage]:
        name, steps = conversation_name(self._outcome.run, conversation), conversation.steps
        answers = {step.position: index for index, step in enumerate(steps) if isinstance(step, AgentAnswer)}
        for index, step in enumerate(steps):
            if not isinstance(step, UserMessage):
                continue
            answer = answers.get(step.position)
            why: FallbackReason = "no answer in the transcript" if answer is None else "answer overdue"
            if fatal is not None and index <= fatal and (answer is not None and answer > fatal):
                why = "host killed"
            turn = turn_id(self._tb.context.layout, self._channel, name, str(step.position))
            yield PlayedMessage(conversation.line, conversation.label, step.position, turn, why)

    def _play_with_hosts(self, conversation: Conversation, fatal: int | None) -> list[KilledHost]:
        """Play one conversation; after its host is killed, another continues with the user's next message."""
        if fatal is None:
            self._run_host(conversation, conversation.steps)
            return []
        self._run_host(conversation, conversation.steps[: fatal + 1], fatal=True)
        rest = conversation.steps[fatal + 1 :]
        # The new host knows no turn of the dead one, so it begins with a message of its own.
        begin = next((index for index, step in enumerate(rest) if isinstance(step, UserMessage)), None)
        if begin is not None:
            self._run_host(conversation, rest[begin:])
        last = conversation.steps[fatal]
        return [KilledHost(conversation.line, conversation.label, last.position, _AFTER[type(last)])]

    def _run_host(self, conversation: Conversation, steps: Sequence[Step], *, fatal: bool = False) -> None:
        part = HostAssignment.create(
            self._tb.context.settings,
            self._channel,
            conversation_name(self._outcome.run, conversation),
            list(steps),
            answer_within=self._within,
            fatal=fatal,
        )
        command = [sys.executable, "-P", "-m", "tellback.replay.host"]  # -P: no module of the current directory
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                self._feed_host(process, part)
            finally:
                process.kill()
        self._outcome.hosts += 1

    def _feed_host(self, process: subprocess.Popen[bytes], part: HostAssignment) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(part.to_line())
            process.stdin.flush()
        except BrokenPipeError:  # it is gone already, and its exit code says more
            with suppress(BrokenPipeError):
                process.stdin.close()
        if part.fatal:
            said = process.stdout.readline()
            process.kill()
            if said != READY:
                raise TellbackError(f"{part.name}: its host ended unexpectedly, exit code {process.wait()}")
            return
        try:
            code = process.wait(_HOST_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise TellbackError(f"{part.name}: its host has not ended after {_HOST_TIMEOUT:g} s") from None
        if code:
            raise TellbackError(f"{part.name}: its host ended with exit code {code}")

    def _note_finished(self, killed: Sequence[list[KilledHost]]) -> None:
        for each in killed:
            self._outcome.killed += each
        self._reporter.played(self._outcome.conversations)

    def _deliver_answers(self) -> None:
        """Settle deliveries until each message has a first answer, or none has come for too long."""
        first: Counter[str] = Counter()
        fallbacks: list[str] = []
        late: set[str] = set()
        end = clock.monotonic() + self._timeout
        while not self._given_up.is_set() and clock.monotonic() < end:
            if not self._played.is_set():  # hosts still send messages, so the time has not begun to run
                end = clock.monotonic() + self._timeout
            elif len(first) >= len(self._asked):
                break
            for delivery in self._tb.outbox(self._channel, wait=_OUTBOX_WAIT):
                end = clock.monotonic() + self._timeout
                self._take_delivery(delivery, first, fallbacks, late)
                self._reporter.counted(len(first), len(self._asked))
        for delivery in self._tb.outbox(self._channel):  # late answers behind the last first answer
            self._take_delivery(delivery, first, fallbacks, late)
        self._summarize(first, fallbacks, late)

    def _summarize(self, first: Counter[str], fallbacks: list[str], late: set[str]) -> None:
        outcome = self._outcome
        outcome.answers, outcome.late = sum(first.values()) - len(fallbacks), len(late)
        outcome.unanswered = [turn for turn in self._asked if turn not in first]
        outcome.doubled = sorted(turn for turn, times in first.items() if times > 1 or turn not in self._asked)
        outcome.killed.sort(key=lambda kill: kill.line)
        known = [self._asked[turn] for turn in fallbacks if turn in self._asked]
        outcome.fallbacks = [
            replace(asked, late=asked.turn in late)
            for asked in sorted(known, key=lambda asked: (asked.line, asked.message))
        ]

    def _take_delivery(
        self, delivery: OutboxDelivery, first: Counter[str], fallbacks: list[str], late: set[str]
    ) -> None:
        if delivery.settle(RoutingOutcome(attempted=True, sent_text=True)) == "lost":
            return  # its lease expired: it comes again, or another call has counted it
        if delivery.kind == "late":
            late.add(delivery.turn_id)
            return
        first[delivery.turn_id] += 1
        if delivery.kind == "fallback":
            fallbacks.append(delivery.turn_id)
