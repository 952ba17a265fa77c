"""What every act of the story has at hand: the stage, the system, a client, and who does the work."""

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
    from tellback.demo.stage import Stage
    from tellback.demo.system import DemoSystem

CHANNEL: Final = "chat"
PROMPT: Final = "demo:repair"
RETRIES: Final = 2


@dataclass(slots=True)
class Cast:
    """Names of this run, and what Redis should hold at its end as far as the processes have told."""

    session: str = field(default_factory=lambda: f"repair-{secrets.token_hex(3)}")
    bank: str = field(default_factory=lambda: f"agent-{secrets.token_hex(3)}")
    evaluation: str = ""
    turns: dict[str, str] = field(default_factory=dict[str, str])  # ids by user
    records: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: int = 0
    feedback: int = 0
    signals: int = 0


class Scene:
    """The running demo, for its acts."""

    def __init__(self, stage: Stage, system: DemoSystem, tb: Tellback, *, patience: float) -> None:
        """Take the stage, the running system, a client of it, and the seconds that one effect may take."""
        self.stage = stage
        self.system = system
        self.tb = tb
        self.patience = patience
        self.cast = Cast()
        self._workers = {
            queue: worker.name
            for worker in Presence(tb.context.database, tb.context.layout).workers()
            for queue in worker.queues
        }

    def warm_up(self) -> None:
        """Have the model loaded while the tests run: a recall that nobody waits for."""

        def recall() -> None:
            with suppress(TellbackError):  # the story's own recall tells what is wrong
                self.tb.bank(self.cast.bank).recall("warm", [("up", 1.0)], wait=min(60.0, self.patience))

        threading.Thread(target=recall, name="demo-warm-up", daemon=True).start()

    def worker(self, queue: str) -> str:
        """The worker that takes this queue; each queue of the demo has one."""
        return self._workers.get(queue, "no worker")

    def deliver(self, user: str, kind: DeliveryKind) -> str | None:
        """Be the transport: print what the outbox has and settle it, until this user's response was among it.

        Returns its text; None if it did not come in time, or is not of this kind.
        """
        for delivery in self.tb.outbox(CHANNEL, wait=self.patience):
            self.stage.arrived()
            text = delivery.response.text or ""
            self.stage.say(f"{CHANNEL} to {delivery.conversation}: {text}", "bold")
            settled = delivery.settle(RoutingOutcome(attempted=True, sent_text=True))
            self.stage.check(settled == "delivered", f"the transport has sent it and settled: {settled}")
            if delivery.turn_id == self.cast.turns.get(user):
                return text if delivery.kind == kind else None
        self.stage.arrived()
        return None
