"""One run of the demo: the screen, the instance, a client, and what its agent hosts reported."""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tellback.contracts.turns import DeliveryKind, RoutingOutcome
from tellback.errors import TellbackError
from tellback.state.presence import Presence

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.demo.screen import DemoScreen
    from tellback.demo.system import DemoSystem

CHANNEL: Final = "chat"

PROMPT: Final = "demo:repair"


@dataclass(slots=True)
class ReportedCounts:
    """The ids and counts that the agent hosts reported; Redis should hold the same at the end."""

    evaluation: str = ""
    turns: dict[str, str] = field(default_factory=dict[str, str])  # ids by user
    records: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: int = 0
    feedback: int = 0
    signals: int = 0


class DemoRun:
    """The running demo, which its acts share; `timeout` is the longest wait for one effect, in seconds."""

    def __init__(self, screen: DemoScreen, system: DemoSystem, tb: Tellback, *, timeout: float) -> None:
        self.screen = screen
        self.system = system
        self.tb = tb
        self.timeout = timeout
        self.session = f"repair-{secrets.token_hex(3)}"
        self.bank = f"agent-{secrets.token_hex(3)}"
        self.reported = ReportedCounts()
        self._workers = {
            queue: worker.name
            for worker in Presence(tb.context.database, tb.context.layout.team).workers()
            for queue in worker.queues
        }

    def preload_model(self) -> None:
        """Load the embedding model while the tests run, by a recall whose answer nobody reads."""

        def recall() -> None:
            with suppress(TellbackError):  # the agent's own recall reports the error
                self.tb.bank(self.bank).recall("warm", [("up", 1.0)], wait=min(60.0, self.timeout))

        threading.Thread(target=recall, name="demo-warm-up", daemon=True).start()

    def worker_of_queue(self, queue: str) -> str:
        """Return the worker that serves this queue; in the demo each queue has exactly one."""
        return self._workers.get(queue, "no worker")

    def deliver_responses(self, user: str, kind: DeliveryKind) -> str | None:
        """Act as the transport: print and settle deliveries until this user's response is among them.

        Returns its text, or None if it didn't come in time or isn't of this kind.
        """
        for delivery in self.tb.outbox(CHANNEL, wait=self.timeout):
            self.screen.stop_waiting()
            text = delivery.response.text or ""
            self.screen.print_line(f"{CHANNEL} to {delivery.conversation}: {text}", "bold")
            settled = delivery.settle(RoutingOutcome(attempted=True, sent_text=True))
            self.screen.check(settled == "delivered", f"the transport has sent it and settled: {settled}")
            if delivery.turn_id == self.reported.turns.get(user):
                return text if delivery.kind == kind else None
        self.screen.stop_waiting()
        return None
