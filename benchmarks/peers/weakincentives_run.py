"""Runs in the environment of the peer: tool calls recorded and evaluated by `weakincentives`; prints JSON.

It imports nothing of ours. The two providers are due every ten calls, as on our side. Its contract checks, which copy
the session with each event, are suspended as its documentation offers: with them a call takes milliseconds.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

# By name, since type checkers run where this package is not.
feedback: Any = import_module("weakincentives.prompt.feedback")
dbc_suspended: Any = import_module("weakincentives.dbc").dbc_suspended
Deadline: Any = import_module("weakincentives.deadlines").Deadline
DeadlineFeedback: Any = import_module("weakincentives.prompt.feedback_providers").DeadlineFeedback
ToolInvoked: Any = import_module("weakincentives.runtime.events").ToolInvoked
Session: Any = import_module("weakincentives.runtime.session").Session

EVERY = 10
WINDOW = 100
THREADS = 8
CALLS = 500


@dataclass(frozen=True)
class Reminder:
    """Fixed text, which this package's first releases do not have."""

    name: str = "StaticFeedback"

    def should_run(self, *, context: object) -> bool:  # noqa: ARG002 - the protocol's signature
        return True

    def provide(self, *, context: object) -> Any:  # noqa: ARG002 - the protocol's signature
        return feedback.Feedback(provider_name=self.name, summary="Mind the goal.")


class PeerAgent:
    """One evaluation of a prompt."""

    def __init__(self, *providers: Any) -> None:
        trigger = feedback.FeedbackTrigger(every_n_calls=EVERY)
        self._session = Session()
        self._prompt: Any = SimpleNamespace(
            name="p",
            ns="n",
            key="p",
            feedback_providers=tuple(
                feedback.FeedbackProviderConfig(provider=one, trigger=trigger) for one in providers
            ),
        )
        self._deadline = Deadline(expires_at=datetime.now(UTC) + timedelta(hours=1))

    def call(self, number: int) -> bool:
        """Record a tool call and evaluate it; whether it earned feedback."""
        self.record(number)
        found: str | None = feedback.collect_feedback(
            prompt=self._prompt, session=self._session, deadline=self._deadline
        )
        return found is not None

    def record(self, number: int) -> None:
        """Record a tool call."""
        event = ToolInvoked(
            prompt_name="p",
            adapter="bench",
            name="search",
            params={"query": "ruby creator", "page": number},
            result="found",
            session_id=self._session.session_id,
            created_at=datetime.now(UTC),
        )
        self._session.dispatcher.dispatch(event)


def cost(sizes: list[int]) -> dict[str, float]:
    """Microseconds of processor time of a call, recorded and evaluated, by how many were recorded before."""
    agent = PeerAgent(DeadlineFeedback(), Reminder())
    found: dict[str, float] = {}
    number = 0
    for size in sizes:
        while number < size - EVERY:  # evaluating each of them too would take this package minutes
            agent.record(number)
            number += 1
        for _ in range(EVERY):
            agent.call(number)
            number += 1
        start = time.process_time()
        for _ in range(WINDOW):
            agent.call(number)
            number += 1
        found[str(size)] = (time.process_time() - start) / WINDOW * 1e6
    return found


def fires() -> int:
    """Count how often a provider that is due every ten calls fired, with several threads on one prompt."""
    agent = PeerAgent(Reminder())
    counts: list[int] = []

    def work() -> None:
        with dbc_suspended():  # of each thread by itself
            counts.append(sum(agent.call(number) for number in range(CALLS)))

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


if __name__ == "__main__":
    wanted = [int(size) for size in sys.argv[1].split(",")]
    with dbc_suspended():
        found = cost(wanted)
    print(json.dumps({"version": version("weakincentives"), "cost": found, "fires": fires()}))
