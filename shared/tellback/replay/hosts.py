"""A file whose conversations have a host process each, of which every n-th is killed at a random message.

What is checked at the end is what users would have seen: each message has one first answer in the outbox, of its host
or, where that died or had nothing to say, the fallback of the sweep.
"""

from __future__ import annotations

import random
import secrets
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

import msgspec

from tellback import clock
from tellback.contracts.turns import RoutingOutcome
from tellback.errors import TellbackError
from tellback.replay.host import READY, Part, name_of
from tellback.replay.reading import read
from tellback.replay.run import Reporter
from tellback.replay.transcript import (
    AgentAnswers,
    BadLine,
    Conversation,
    NobodyAnswers,
    Step,
    ToolReturned,
    UserSays,
)
from tellback.state.turns import turn_id

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.client.outbox import OutboxDelivery

AT_ONCE: Final = 4
"""Hosts that live at the same time."""
ANSWER_WITHIN: Final = 10.0
_ROUND: Final = 0.5  # seconds that the transport waits for a delivery before it looks around
_HOST_SECONDS: Final = 120.0
_AFTER: Final[dict[type[Step], str]] = {
    UserSays: "opened",
    ToolReturned: "called a tool",
    AgentAnswers: "answered",
    NobodyAnswers: "said nothing",
}

Why = Literal["host killed", "no answer in the transcript", "answer overdue"]


class HostFailed(TellbackError):
    """A host process ended otherwise than it should."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A host that was killed with SIGKILL, and the last that it did: of its messages that at `message`, from 0.

    After `opened` or `called a tool` the user's message stays owed; after `answered` it is not.
    """

    line: int
    conversation: str
    message: int
    after: str


@dataclass(frozen=True, slots=True)
class Fallback:
    """A user's message that the sweep answered; `late`: the host's own answer came after it."""

    line: int
    conversation: str
    message: int
    turn: str
    why: Why
    late: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A user's message that was played, and `why` its answer is a fallback, should it be one."""

    turn: str
    line: int
    conversation: str
    message: int
    why: Why


@dataclass(slots=True)
class HostsOutcome:
    """What users got. `unanswered` and `doubled` name turns with no first answer, or more than one: both stay empty."""

    run: str
    seed: int
    conversations: int = 0
    hosts: int = 0
    messages: int = 0
    answers: int = 0
    late: int = 0
    killed: list[Kill] = field(default_factory=list[Kill])
    fallbacks: list[Fallback] = field(default_factory=list[Fallback])
    unanswered: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    bad_lines: list[BadLine] = field(default_factory=list[BadLine])
    seconds: float = 0.0

    @property
    def matches(self) -> bool:
        """Whether every user message has exactly one first answer."""
        first = self.answers + len(self.fallbacks)
        return not self.unanswered and not self.doubled and first == self.messages


class HostsReplay:
    """One replay of one file by host processes."""

    def __init__(
        self,
        tb: Tellback,
        reporter: Reporter,
        *,
        kill_every: int,
        seed: int = 0,
        answer_within: float = ANSWER_WITHIN,
        patience: float,
    ) -> None:
        """Take the client; `patience` is how many seconds past the last deadline may bring no answer."""
        self._tb = tb
        self._reporter = reporter
        self._every = kill_every
        self._seed = seed
        self._within = min(answer_within, tb.context.settings.turn_limit)
        self._patience = self._within + patience
        self._outcome = HostsOutcome(secrets.token_hex(4), seed)
        self._channel = f"replay-{self._outcome.run}"  # its own: no other transport takes what is counted here
        self._asked: dict[str, Asked] = {}
        self._played = threading.Event()
        self._given_up = threading.Event()

    def run(self, file: BinaryIO) -> HostsOutcome:
        """Play every conversation, then be the transport until every message has its answer.

        Raises:
            Unavailable: Redis is away.
            HostFailed: a host ended otherwise than it should.
        """
        self._tb.context.database.now_ms()  # with Redis away this raises before any host starts
        start = clock.monotonic()
        with ThreadPoolExecutor(1, thread_name_prefix="replay-transport") as pool:
            transport = pool.submit(self._deliver)
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
        running: set[Future[list[Kill]]] = set()
        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="replay-hosts")
        try:
            for item in read(file):
                if isinstance(item, BadLine):
                    self._outcome.bad_lines.append(item)
                    self._reporter.bad(item)
                    continue
                running.add(pool.submit(self._host, item, self._fatal(item)))
                while len(running) >= 2 * AT_ONCE:
                    running = self._collect(running)
            while running:
                running = self._collect(running)
        finally:
            pool.shutdown(cancel_futures=True)

    def _fatal(self, conversation: Conversation) -> int | None:
        """Which step is the last of the conversation's host; None where it lives. The seed decides."""
        outcome = self._outcome
        outcome.conversations += 1
        fatal = None
        if outcome.conversations % self._every == 0 and conversation.steps:
            fatal = random.Random(f"{self._seed}:{outcome.conversations}").randrange(len(conversation.steps))  # noqa: S311 - no secret
        for asked in self._messages(conversation, fatal):
            self._asked[asked.turn] = asked
        outcome.messages = len(self._asked)
        return fatal

    def _messages(self, conversation: Conversation, fatal: int | None) -> Iterator[Asked]:
        name, steps = name_of(self._outcome.run, conversation), conversation.steps
        answers = {step.position: index for index, step in enumerate(steps) if isinstance(step, AgentAnswers)}
        for index, step in enumerate(steps):
            if not isinstance(step, UserSays):
                continue
            answer = answers.get(step.position)
            why: Why = "no answer in the transcript" if answer is None else "answer overdue"
            if fatal is not None and index <= fatal and (answer is not None and answer > fatal):
                why = "host killed"
            turn = turn_id(self._tb.context.layout, self._channel, name, str(step.position))
            yield Asked(turn, conversation.line, conversation.label, step.position, why)

    def _host(self, conversation: Conversation, fatal: int | None) -> list[Kill]:
        """Play one conversation; after its host was killed, another goes on with the user's next message."""
        if fatal is None:
            self._process(conversation, conversation.steps)
            return []
        self._process(conversation, conversation.steps[: fatal + 1], fatal=True)
        rest = conversation.steps[fatal + 1 :]
        begin = next((index for index, step in enumerate(rest) if isinstance(step, UserSays)), None)
        if begin is not None:
            self._process(conversation, rest[begin:])
        last = conversation.steps[fatal]
        return [Kill(conversation.line, conversation.label, last.position, _AFTER[type(last)])]

    def _process(self, conversation: Conversation, steps: Sequence[Step], *, fatal: bool = False) -> None:
        part = Part.of(
            self._tb.context.settings,
            self._channel,
            name_of(self._outcome.run, conversation),
            list(steps),
            answer_within=self._within,
            fatal=fatal,
        )
        command = [sys.executable, "-m", "tellback.replay.host"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603 - ours
            try:
                self._tend(process, part)
            finally:
                process.kill()
        self._outcome.hosts += 1

    def _tend(self, process: subprocess.Popen[bytes], part: Part) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(part) + b"\n")
        process.stdin.flush()
        if part.fatal:
            said = process.stdout.readline()
            process.kill()
            if said != READY:
                raise HostFailed(f"{part.name}: its host ended by itself, exit code {process.wait()}")
        elif process.wait(_HOST_SECONDS):
            raise HostFailed(f"{part.name}: its host ended with exit code {process.returncode}")

    def _collect(self, running: set[Future[list[Kill]]]) -> set[Future[list[Kill]]]:
        done, left = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            self._outcome.killed += future.result()
        self._reporter.played(self._outcome.conversations)
        return left

    def _deliver(self) -> None:
        """Settle what the outbox holds, until each message has a first answer or none has come for too long."""
        first: Counter[str] = Counter()
        fallen: list[str] = []
        late: set[str] = set()
        end = clock.monotonic() + self._patience
        while not self._given_up.is_set() and clock.monotonic() < end:
            if not self._played.is_set():
                end = clock.monotonic() + self._patience
            elif len(first) >= len(self._asked):
                break
            for delivery in self._tb.outbox(self._channel, wait=_ROUND):
                end = clock.monotonic() + self._patience
                self._take(delivery, first, fallen, late)
                self._reporter.counted(len(first), len(self._asked))
        for delivery in self._tb.outbox(self._channel):  # what came behind the last first answer
            self._take(delivery, first, fallen, late)
        self._sum_up(first, fallen, late)

    def _sum_up(self, first: Counter[str], fallen: list[str], late: set[str]) -> None:
        outcome = self._outcome
        outcome.answers, outcome.late = sum(first.values()) - len(fallen), len(late)
        outcome.unanswered = [turn for turn in self._asked if turn not in first]
        outcome.doubled = sorted(turn for turn, times in first.items() if times > 1 or turn not in self._asked)
        outcome.killed.sort(key=lambda kill: kill.line)
        known = [self._asked[turn] for turn in fallen if turn in self._asked]
        outcome.fallbacks = [
            Fallback(asked.line, asked.conversation, asked.message, asked.turn, asked.why, asked.turn in late)
            for asked in sorted(known, key=lambda asked: (asked.line, asked.message))
        ]

    def _take(self, delivery: OutboxDelivery, first: Counter[str], fallen: list[str], late: set[str]) -> None:
        if delivery.settle(RoutingOutcome(attempted=True, sent_text=True)) == "lost":
            return  # it comes again, or has come
        if delivery.kind == "late":
            late.add(delivery.turn_id)
            return
        first[delivery.turn_id] += 1
        if delivery.kind == "fallback":
            fallen.append(delivery.turn_id)
