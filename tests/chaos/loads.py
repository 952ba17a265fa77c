"""The load that one life of a host makes in each of the four loops, on a thread each, written into the history.

A published event is durable when a `flush` that began after it has returned: it is in Redis or on this host's disk. An
event that was refused (`SpoolFull`) must have no effect. All others of a life that dies are unknown, and because a
process' events keep their order, they have had their effect up to one of them and none after it.
"""

from __future__ import annotations

import random
import threading
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final, Literal

from tellback import (
    FeedbackProviderConfig,
    FeedbackTrigger,
    OutgoingResponse,
    SignalItem,
    StateConflict,
    StaticFeedback,
    Tellback,
    clock,
)
from tellback.client.turns import Turn
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.contracts.signal_types import SignalType
from tellback.errors import NotFound, SpoolFull, Unavailable
from tellback.state.turns import turn_id
from tests.chaos.history import History

SECRET: Final = "ghp_CHAOS"  # the secrets of a run begin so; the rules know them as tokens of GitHub
FIRE_EVERY: Final = 10
EVALUATIONS: Final = 4
"""Evaluations that all hosts share; in the last one a custom provider raises at each call."""
BANKS: Final = 2
QUERIES: Final = 24
CHANNEL: Final = "chat"
RUNS: Final = "runs"
"""The file to which commands write that they begin, continue and end."""
SCRIPT: Final = """
echo "$0 $$" >> runs
i=0
while [ $i -lt $1 ]; do sleep 0.2; echo "$0 $$" >> runs; i=$((i+1)); done
printf '%s%s\\n' "$2" "$3"
exit $4
"""


def secret_of(who: str, n: int) -> str:
    """Return a secret of this operation, which no other has."""
    digits = f"{zlib.crc32(f'{who}.{n}'.encode()):08X}"
    return f"{SECRET}{digits}".ljust(40, "X")


def kind_of(n: int) -> SignalType:
    """Return the type of a life's nth signal: an irregular sequence whose score shows how many were applied."""
    return "used" if zlib.crc32(n.to_bytes(4, "big")) & 1 else "ignored"


def evaluation_of(number: int) -> tuple[str, str, str]:
    """Return session, prompt and name of a shared evaluation."""
    return f"fleet-{number}", "p", "shared"


class Load(ABC):
    """One loop's load: operations at a rate, until the host is asked to end."""

    loop: str
    per_second: float

    def __init__(self, tb: Tellback, history: History, stop: threading.Event) -> None:
        self.tb = tb
        self.history = history
        self.stop = stop
        self.who = history.who
        self.dice = random.Random(self.who + self.loop)
        self.n = 0

    def run(self) -> None:
        """Make operations, then flush until everything is durable, and say that the life has ended."""
        try:
            self.begin()
            while not self.stop.wait(self.dice.uniform(0.2, 1.8) / self.per_second):
                self.n += 1
                self.operate()
            while not self.flush():
                clock.sleep(0.2)
            self.history.note(self.loop, "ended", self.n, "returned")
        except BaseException as error:
            self.history.note(self.loop, "crashed", self.n, "returned", error=f"{type(error).__name__}: {error}")
            raise

    def begin(self) -> None:  # noqa: B027 - most loads need nothing
        """Prepare what operations need."""

    @abstractmethod
    def operate(self) -> None:
        """Make one operation, the `n`th."""

    def flush(self) -> bool:
        """Make everything that this loop has published durable; return False if that could not be done now."""
        through = self.n
        self.history.note(self.loop, "flush", through, "invoked")
        try:
            self.tb.flush()
        except SpoolFull:
            self.history.note(self.loop, "flush", through, "unknown")
            return False
        self.history.note(self.loop, "flush", through, "returned")
        return True

    def count(self, op: str, phase: Literal["invoked", "returned", "refused", "unknown"], **detail: object) -> None:
        """Note a phase of the nth operation."""
        self.history.note(self.loop, op, self.n, phase, **detail)

    def text(self) -> str:
        """Return a text which in one operation of four has a secret of its own."""
        return f"result {self.n} " + (secret_of(self.who, self.n) if self.n % 4 == 0 else "and nothing else")


class GuidanceLoad(Load):
    """Tool calls to evaluations that all hosts share; one in eight is published twice."""

    loop = "guidance"
    per_second = 20.0

    def begin(self) -> None:
        every = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=FIRE_EVERY))
        from tests.support.providers import Raises

        raises = FeedbackProviderConfig(Raises(), FeedbackTrigger(every_n_calls=1))
        self.prompts = [
            self.tb.prompt(
                session,
                prompt,
                evaluation=name,
                feedback_providers=[every, raises] if number == EVALUATIONS - 1 else [every],
                delivery="all",
            )
            for number in range(EVALUATIONS)
            for session, prompt, name in [evaluation_of(number)]
        ]

    def operate(self) -> None:
        number = self.n % EVALUATIONS
        session, prompt, name = evaluation_of(number)
        self.count("publish", "invoked", evaluation=number)
        try:
            if self.n % 8:
                self.prompts[number].tool_invoked(f"t-{self.who}", params={"n": self.n}, result=self.text())
            else:
                event = ToolInvoked(
                    event_id=new_event_id(), session=session, prompt=prompt, evaluation=name, tool=f"t-{self.who}"
                )
                for _ in range(2):
                    self.tb.context.publisher.publish(event)
        except SpoolFull:
            # The first of two may be in the buffer though the second was refused.
            self.count("publish", "refused" if self.n % 8 else "unknown")
            return
        self.count("publish", "returned")
        if self.n % 7 == 0:
            self.flush()
        if self.n % 20 == 0:
            self.count("feedback", "invoked", evaluation=number)
            taken = sum(each.provider_name == "StaticFeedback" for each in self.prompts[number].feedback(wait=0.05))
            self.count("feedback", "returned", evaluation=number, taken=taken)


class SignalsLoad(Load):
    """Batches that move two facts of this life and one that all share; one in six is published twice."""

    loop = "signals"
    per_second = 6.0

    def operate(self) -> None:
        kind, query = kind_of(self.n), QUERY_WORDS[self.dice.randrange(QUERIES)]
        bank = self.tb.bank(bank_of(self.who))
        items = [
            SignalItem(
                fact_id=fact,
                signal_type=kind,
                query=query,
                confidence=0.5 if kind == "used" else 1.0,
                context=self.text(),
                signal_id=f"{self.who}.{self.n}.{fact}",
            )
            for fact in (f"{self.who}.a", f"{self.who}.b", "shared")
        ]
        self.count("publish", "invoked")
        try:
            for _ in range(2 if self.n % 6 == 0 else 1):
                bank.signal(items, session=f"sig-{self.who}")
        except SpoolFull:
            self.count("publish", "refused" if self.n % 6 else "unknown")
            return
        self.count("publish", "returned")
        if self.n % 3 == 0:
            self.flush()


def bank_of(who: str) -> str:
    """Return the bank that this life signals to."""
    return f"bank-{zlib.crc32(who.encode()) % BANKS}"


QUERY_WORDS: Final = [
    f"how do I {verb} {thing}"
    for verb in ("cook", "repair", "sell", "paint")
    for thing in ("a boat", "rice", "my bicycle", "the roof", "an old violin", "winter tyres")
]


class CommandsLoad(Load):
    """Commands that write when they begin and end, some of which fail, print a secret, are cancelled or tried again."""

    loop = "commands"
    per_second = 0.7

    def __init__(self, tb: Tellback, history: History, stop: threading.Event, folder: Path) -> None:
        super().__init__(tb, history, stop)
        self._folder = folder

    def operate(self) -> None:
        label, session = f"{self.who}.{self.n}", f"run-{self.who}-{self.n // 40}"
        steps = self.dice.choice((0, 0, 1, 2, 10))
        code = 3 if self.dice.random() < 0.1 else 0
        secret = secret_of(self.who, self.n)
        on_lost: Literal["retry", "record"] = "retry" if self.dice.random() < 0.4 else "record"
        argv = ["sh", "-c", SCRIPT, label, str(steps), secret[:4], secret[4:], str(code)]
        self.count("submit", "invoked", label=label, session=session, on_lost=on_lost, code=code)
        try:
            job = self.tb.submit(argv, session=session, cwd=self._folder, timeout=60, on_lost=on_lost)
        except SpoolFull:
            self.count("submit", "refused")
            return
        self.count("submit", "returned", command_id=job.command_id)
        self.flush()
        if self.dice.random() < 0.05:
            self.count("cancel", "invoked")
            try:
                job.cancel()
            except Unavailable:
                self.count("cancel", "unknown")
            else:
                self.count("cancel", "returned")


class TurnsLoad(Load):
    """Turns that are answered, answered twice, finished by workers, failed, closed or left to the sweep."""

    loop = "turns"
    per_second = 3.0

    def operate(self) -> None:
        conversation, message = f"c-{self.who}-{self.n % 5}", str(self.n)
        turn = turn_id(self.tb.context.layout, CHANNEL, conversation, message)
        self.count("open", "invoked", turn=turn)
        opened = self._open(conversation, message)
        if opened is None:
            self.count("open", "unknown")
            return
        self.count("open", "returned")
        say = self.dice.choices(
            ("respond", "respond twice", "finish", "fail", "no_reply", "leave"), (50, 15, 15, 5, 5, 10)
        )[0]
        if say == "leave":
            return
        if self.dice.random() < 0.1:  # sometimes after the deadline
            self.stop.wait(self.dice.uniform(0.5, 4))
        for _ in range(2 if say == "respond twice" else 1):
            self._end(opened, say.split()[0])

    def _open(self, conversation: str, message: str) -> Turn | None:
        for _ in range(4):
            try:
                return self.tb.open_turn(
                    channel=CHANNEL,
                    conversation=conversation,
                    message_id=message,
                    text=self.text(),
                    answer_within=self.dice.uniform(1.5, 8),
                )
            except Unavailable:
                self.stop.wait(0.5)
        return None

    def _end(self, turn: Turn, how: str) -> None:
        self.count(how, "invoked", turn=turn.id)
        result = "done"
        try:
            if how == "respond":
                result = turn.respond(OutgoingResponse.text_only(f"answer {self.n}"))
            elif how == "finish":
                turn.finish(OutgoingResponse.text_only(f"answer {self.n} of a worker"))
            elif how == "fail":
                result = turn.fail(code="chaos")
            else:
                turn.no_reply(reason="chaos")
        except (StateConflict, NotFound) as refusal:
            self.count(how, "refused", turn=turn.id, error=type(refusal).__name__)
        except Unavailable:
            self.count(how, "unknown", turn=turn.id)
        else:
            self.count(how, "returned", turn=turn.id, result=result)
