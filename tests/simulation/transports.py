"""Transports of the simulation: they send deliveries, die and freeze; each claim of a delivery is checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple
from unittest import mock

import msgspec

from tellback import RoutingOutcome
from tellback.client.outbox import OutboxDelivery
from tellback.contracts.turns import Settlement
from tellback.state.outbox import Delivery, Outbox, OutboxQueue
from tests.simulation.scheduler import Process
from tests.simulation.world import World

SENT = RoutingOutcome(attempted=True, sent_text=True)
NOT_SENT = RoutingOutcome(attempted=True, error="simulated: the platform refused it")
LEASE = 5.0  # seconds, short so that leases of dead and frozen transports end within a run
MARGIN = 0.01  # seconds: the server counts in milliseconds


class ClaimTimes(NamedTuple):
    """One claim of a delivery as its transport saw it: when it asked and when it had the reply, in seconds."""

    asked: float
    replied: float


@dataclass
class Claims:
    """The claims of a run: no two transports hold a delivery within a lease, and none claims what is delivered."""

    world: World
    held: dict[str, dict[int, ClaimTimes]] = field(default_factory=lambda: defaultdict(dict))  # by key, then by attempt
    delivered: dict[str, float] = field(default_factory=dict[str, float])

    def note(self, found: Delivery, asked: float) -> None:
        """Check a claim against every other one of its delivery that was not settled yet.

        Requests and replies may be late, so the attempts give the order of claims, and a lease begins at the earliest
        when its claim was asked for.
        """
        done, now = self.delivered.get(found.key), self.world.scheduler.now
        assert done is None or done > asked, f"{found.key} was delivered at {done:.3f} s, taken again at {asked:.3f} s"
        others = self.held[found.key]
        others[found.attempt] = ClaimTimes(asked, now)
        for earlier, later in ((n, m) for n in others for m in others if n < m and found.attempt in (n, m)):
            ends = others[earlier].asked + LEASE - MARGIN
            stepped = others[earlier].asked <= self.world.unnoticed_at  # such a step may end a lease early
            assert stepped or others[later].replied >= ends, (
                f"{found.key}: attempt {later} had it at {others[later].replied:.3f} s, "
                f"within the lease of attempt {earlier} until {ends:.3f} s"
            )

    @contextmanager
    def watched(self) -> Generator[None]:
        """Check while a scenario runs."""
        claim, settle, scheduler = Outbox.claim, Outbox.settle, self.world.scheduler

        def claimed(outbox: Outbox, queue: OutboxQueue, expected: Delivery) -> Delivery | None:
            asked = scheduler.now
            found = claim(outbox, queue, expected)
            if found is not None:
                self.note(found, asked)
            return found

        def settled(
            outbox: Outbox, queue: OutboxQueue, delivery: Delivery, outcome: RoutingOutcome
        ) -> Settlement | Literal["lost"]:
            if not outcome.delivered:  # it may be taken from now on; one that is delivered may not
                self.held[delivery.key].pop(delivery.attempt, None)
            result = settle(outbox, queue, delivery, outcome)
            if result == "delivered":
                self.delivered.setdefault(delivery.key, scheduler.now)
            return result

        with mock.patch.object(Outbox, "claim", claimed), mock.patch.object(Outbox, "settle", settled):
            yield


@dataclass
class Transports:
    """The transports of the channel `chat`. What they send is in `sent`, in its order; `refusals` are not sent."""

    world: World
    count: int
    refusals: float = 0.0  # probability that the platform refuses a delivery
    on_settled: Callable[[OutboxDelivery], Any] = mock.Mock
    sent: list[OutboxDelivery] = field(default_factory=list[OutboxDelivery])
    harmed: bool = False
    processes: list[Process] = field(default_factory=list[Process])

    @contextmanager
    def watched(self) -> Generator[None]:
        """Shorten leases and check claims while a scenario runs."""
        self.world.settings = msgspec.structs.replace(self.world.settings, outbox_lease=LEASE)
        with Claims(self.world).watched():
            yield

    def start(self) -> None:
        """Start the transports."""
        self.processes = [self._started(f"transport{number}") for number in range(self.count)]

    def _started(self, name: str) -> Process:
        process = self.world.scheduler.process(name)
        self.world.scheduler.spawn(process, partial(self._send, process), "transport")
        return process

    def harm(self) -> None:
        """Kill a transport and start another, or freeze one, at times beyond its lease."""
        choices, scheduler, self.harmed = self.world.choices, self.world.scheduler, True
        victim = choices.pick(self.count, "transport")
        if choices.chance(0.5, "death of a transport"):
            scheduler.kill(self.processes[victim])
            self.processes[victim] = self._started(f"{self.processes[victim].name}+")
        else:
            scheduler.freeze(self.processes[victim], choices.between(0.0, 2 * LEASE, "freeze"))

    def _send(self, process: Process) -> None:
        tb = self.world.client(process)

        def send() -> None:
            for delivery in tb.outbox("chat", wait=0.2):
                refused = self.refusals > 0 and self.world.choices.chance(self.refusals, "refused delivery")
                if not refused:
                    self.sent.append(delivery)
                delivery.settle(NOT_SENT if refused else SENT)
                self.on_settled(delivery)

        while True:
            self.world.again(send)
