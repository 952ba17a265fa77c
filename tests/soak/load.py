"""A host of the soak: agents that begin a session again and again, or a transport that delivers what they answer.

It reads lines: `run SECONDS` begins load, in which each agent starts a session every so many seconds, and `rest` ends
it and prints the counts as JSON. The process stays between them, since its memory and files are measured too.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import threading
import time
from collections import Counter
from typing import Final

from tests.soak import AGENTS, CALLS, QUERIES
from tests.soak.lifetimes import shorten

shorten()  # before the modules that read the lifetimes

from tellback import (  # noqa: E402 - they read the lifetimes
    DeadlineFeedback,
    FeedbackProviderConfig,
    FeedbackTrigger,
    OutgoingResponse,
    RoutingOutcome,
    SignalItem,
    Tellback,
    connect,
)

CHANNEL: Final = "soak"
# So different that each makes a query cluster.
ASKED: Final = [
    f"How do I {verb} {thing}?" for verb in ("bake", "sell", "photograph", "repair") for thing in ("bread", "a car")
]
FACTS: Final = [f"fact-{number}" for number in range(200)]  # a bank keeps its facts, so their number is bounded
PROVIDERS: Final = [FeedbackProviderConfig(DeadlineFeedback(), FeedbackTrigger(every_n_calls=5))]


def session(tb: Tellback, name: str, chance: random.Random) -> None:
    """One session with all four loops."""
    query = chance.choice(ASKED[:QUERIES])
    prompt = tb.prompt(name, "soak", feedback_providers=PROVIDERS, deadline=600)
    for number in range(CALLS):
        prompt.tool_invoked("search", params={"query": f"{query} {number}"}, result="a line of output\n" * 20)
    fate = chance.random()
    turn = tb.open_turn(
        channel=CHANNEL, conversation=name, message_id="m1", text=query, answer_within=2.0 if fate < 0.1 else 60.0
    )
    job = tb.submit(["echo", name], session=name)
    bank = tb.bank("soak")
    chosen = chance.sample(FACTS, 3)
    bank.signal([SignalItem(fact_id=fact, signal_type="helpful", query=query) for fact in chosen], session=name)
    bank.recall(query, [(fact, 0.8) for fact in chance.sample(FACTS, 10)], boost_by_usefulness=True, wait=10.0)
    answer = OutgoingResponse.text_only(f"An answer to {query}")
    if fate >= 0.5:
        turn.respond(answer)
    elif fate >= 0.1:
        turn.finish(answer)  # below that, nobody answers, and the sweep sends the fallback
    job.wait(timeout=60)
    prompt.feedback(wait=5.0)


class AgentThreads:
    """The threads of a host, which work while there is load."""

    def __init__(self, tb: Tellback, host: int) -> None:
        self._tb, self._host = tb, host
        self._every = math.inf
        self._load = threading.Event()
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        for number in range(AGENTS):
            threading.Thread(target=self._run, args=(number,), daemon=True).start()

    def work(self, every: float) -> None:
        """Begin load."""
        self._every = every
        self._load.set()

    def rest(self) -> None:
        """End load; sessions under way end by themselves."""
        self._load.clear()

    def _run(self, number: int) -> None:
        chance = random.Random(1_000 * self._host + number)
        made = 0
        while True:
            self._load.wait()
            due = time.monotonic() + self._every * chance.uniform(0.5, 1.5)
            made += 1
            try:
                session(self._tb, f"s{self._host}.{number}.{made}", chance)
            except Exception as error:  # noqa: BLE001 - counted, and shown with the verdict
                self._count(f"failed: {type(error).__name__}: {error}"[:200])
            else:
                self._count("sessions")
            while self._load.is_set() and time.monotonic() < due:
                time.sleep(0.02)

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1


def deliver(tb: Tellback) -> None:
    """Send what the outbox has, as a transport does."""
    for delivery in tb.outbox(CHANNEL, wait=math.inf):
        delivery.settle(RoutingOutcome(attempted=True, sent_text=True))


def main() -> None:
    """Do what standard input says, until it ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["agents", "transport"])
    parser.add_argument("--host", type=int, default=0)
    given = parser.parse_args()
    with connect() as tb:
        if given.role == "transport":
            threading.Thread(target=deliver, args=(tb,), daemon=True).start()
            sys.stdin.read()
            return
        agents = AgentThreads(tb, given.host)
        for line in sys.stdin:
            word, *rest = line.split()
            if word == "run":
                agents.work(float(rest[0]))
            else:
                agents.rest()
                print(json.dumps(agents.counts), flush=True)


if __name__ == "__main__":
    main()
