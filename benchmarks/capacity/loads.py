"""The loads: for each, how it is published, and how many units of it are still to be applied."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchmarks.signals import queries
from tellback import FeedbackProviderConfig, FeedbackTrigger, OutgoingResponse, SignalItem, StaticFeedback, Tellback
from tellback.names import Family
from tellback.state.keys import stream_of
from tellback.state.script_calls import Command

SESSIONS: Final = 16
CALLS: Final = 20
"""Tool calls of a session, as the soak's agents make them."""
BANKS: Final = 8
KNOWN: Final = 64
"""Queries that a bank knows before signals of known queries are measured."""
_COUNT = itertools.count()

Publish = Callable[[Tellback, int], None]


@dataclass(frozen=True, slots=True)
class CapacityLoad:
    """One kind of work: its unit, how many a run makes, and the worker that applies it."""

    name: str
    unit: str
    amount: int
    family: Family
    publish: Publish
    pool: str = "prefork"
    alone: bool = False
    """One unit at a time, each when the one before has had its effect."""

    def remaining(self, tb: Tellback, published: int) -> int:
        """Return how many units or events of those published have had no effect yet."""
        layout = tb.context.layout
        if self.family is Family.COMMANDS:
            keys = [layout.of(name).key("recorded", name) for name in _COMMAND_SESSIONS]
            found = self._asked(tb, [("GET", key) for key in keys])
            return published - sum(int(count or 0) for count in found)
        return sum(self._asked(tb, [("XLEN", stream_of(shard, self.family)) for shard in layout.all]))

    def _asked(self, tb: Tellback, commands: list[Command]) -> list[int]:
        OWN_CALLS[0] += len(commands)
        return tb.context.database.pipeline(commands)


OWN_CALLS: Final = [0]
"""Calls of Redis that the measuring makes; they are no load's."""
_COMMAND_SESSIONS: Final[list[str]] = []


def _events(tb: Tellback, amount: int) -> None:
    _sessions_of(tb, SESSIONS, amount // SESSIONS)


def _sessions(tb: Tellback, amount: int) -> None:
    _sessions_of(tb, amount, CALLS)


def _sessions_of(tb: Tellback, sessions: int, calls: int) -> None:
    reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=10))
    stamp = time.time_ns()
    prompts = [tb.prompt(f"session-{stamp}-{n}", "p", feedback_providers=[reminder]) for n in range(sessions)]
    for n in range(calls):
        for prompt in prompts:
            prompt.tool_invoked("search", params={"query": "ruby creator", "page": n}, result="found", duration_ms=12)
    tb.flush()


def _event(tb: Tellback, amount: int) -> None:
    del amount
    prompt = tb.prompt(f"alone-{next(_COUNT) % SESSIONS}", "p", evaluation="e")
    prompt.tool_invoked("search", params={"query": "ruby creator"}, result="found", duration_ms=12)
    tb.flush()


def _commands(tb: Tellback, amount: int) -> None:
    stamp = time.time_ns()
    names = [f"run-{stamp}-{n}" for n in range(SESSIONS)]
    _COMMAND_SESSIONS[:] = names
    for n in range(amount):
        tb.submit(["true"], session=names[n % SESSIONS])
    tb.flush()


def _turns(tb: Tellback, amount: int) -> None:
    stamp = time.time_ns()
    answer = OutgoingResponse.text_only("It left the warehouse this morning.")
    for n in range(amount):
        turn = tb.open_turn(
            channel="chat", conversation=f"{stamp}-{n}", message_id="m", text="Can you tell me where my order is?"
        )
        turn.finish(answer)
    tb.flush()


def _known(tb: Tellback, amount: int) -> None:
    _signal(tb, [f"How do I restart service number {n % KNOWN}?" for n in range(amount)])


def _distinct(tb: Tellback, amount: int) -> None:
    _signal(tb, queries(amount))


def _signal(tb: Tellback, asked: list[str]) -> None:
    for bank in range(BANKS):
        items = [
            SignalItem(fact_id=f"fact-{n % 100}", signal_type="used", query=query)
            for n, query in enumerate(asked)
            if n % BANKS == bank
        ]
        tb.bank(f"bank-{bank}").signal(items)
    tb.flush()


def _facts(tb: Tellback, amount: int) -> None:
    for text in queries(amount):
        n = next(_COUNT)
        tb.bank(f"facts-{n % BANKS}").remember(f"f{n}", f"{text} Somebody found that out.")
    tb.flush()


def _recalls(tb: Tellback, amount: int) -> None:
    """One after the other: a recall waits for its reply."""
    candidates = [(f"fact-{n}", 1 - n / 100) for n in range(100)]
    for query in queries(amount):
        tb.bank("bank-0").recall(query, candidates=candidates, boost_by_usefulness=True, wait=60)


LOADS: Final = (
    CapacityLoad("event", "a tool call, with others", 24_000, Family.EVENTS, _events),
    CapacityLoad("lone event", "a tool call by itself", 150, Family.EVENTS, _event, alone=True),
    CapacityLoad("session", f"a session of {CALLS} tool calls", 500, Family.EVENTS, _sessions),
    CapacityLoad("command", "`true`, from submission to record", 400, Family.COMMANDS, _commands),
    CapacityLoad("turn", "opened, finished, answered by a worker", 1_500, Family.TURNS, _turns),
    CapacityLoad("signal", "of a query that the bank knows", 24_000, Family.SIGNALS, _known, "threads"),
    CapacityLoad(
        "query cluster", "a signal of a query that it does not know", 800, Family.SIGNALS, _distinct, "threads"
    ),
    CapacityLoad("fact", "remembered, with a text of some 90 bytes", 800, Family.SIGNALS, _facts, "threads"),
    CapacityLoad("recall", "of 100 candidates, through a worker", 150, Family.RECALLS, _recalls, "threads", alone=True),
)
