"""The broker of the simulation: queues of wake-ups that come late, twice or never, and the app that publishes them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kombu.exceptions import OperationalError

from tests.simulation.scheduler import Scheduler, SimulatedTask


class BrokerMessage(NamedTuple):
    """A task that a worker is to run."""

    task: str
    args: tuple[Any, ...]


class BrokerConf(NamedTuple):
    """The part of the app's configuration that wake-ups read."""

    broker_url: str = "simulated://"


@dataclass
class Broker:
    """The queues, with the part of Celery's app that wake-ups use. `away` refuses every message."""

    scheduler: Scheduler
    conf: BrokerConf = field(default_factory=BrokerConf)
    fault: float = 0.0
    away: bool = False
    waiting: list[SimulatedTask] = field(default_factory=list["SimulatedTask"])
    queues: dict[str, deque[BrokerMessage]] = field(default_factory=lambda: defaultdict(deque))

    def send_task(self, name: str, args: Sequence[Any], *, queue: str, **_: Any) -> None:
        """Publish a message, as Celery's app does."""
        self.scheduler.yield_turn()
        self._check()
        message, choices = BrokerMessage(str(name), tuple(args)), self.scheduler.choices
        if choices.chance(self.fault, "wake-up lost"):
            return
        if choices.chance(self.fault, "wake-up delayed"):
            delay = choices.between(0.1, 5.0, "delay of a wake-up")
            self.scheduler.spawn(self.scheduler.processes[0], lambda: self._late(queue, message, delay), "late wake-up")
            return
        self._put(queue, message)
        if choices.chance(self.fault, "wake-up repeated"):
            self._put(queue, message)

    def _put(self, queue: str, message: BrokerMessage) -> None:
        self.queues[queue].append(message)
        waiting, self.waiting = self.waiting, []
        for task in waiting:
            self.scheduler.wake(task)

    def _late(self, queue: str, message: BrokerMessage, delay: float) -> None:
        self.scheduler.sleep(delay)
        self._put(queue, message)

    def _check(self) -> None:
        if self.away:
            raise OperationalError("simulated: the broker is away")

    def take(self, queues: Sequence[str]) -> BrokerMessage:
        """Wait for a message of one of these queues, and take it."""
        while True:
            for name in queues:
                if self.queues[name]:
                    return self.queues[name].popleft()
            me = self.scheduler.current
            assert me is not None, "only tasks wait"
            self.waiting.append(me)
            self.scheduler.park()

    def has_messages(self) -> bool:
        """Check whether any queue has a message, as `wakeups.has_messages` does."""
        self.scheduler.yield_turn()
        self._check()
        return any(self.queues.values())

    @contextmanager
    def connection_for_write(self) -> Generator[Broker]:
        """Stand in for kombu's connection."""
        self._check()
        yield self

    def channel(self) -> Broker:
        """Stand in for kombu's channel."""
        return self

    def queue_declare(self, queue: str) -> Broker:
        """Remember a queue whose messages are then counted."""
        counted = Broker(self.scheduler)
        counted.message_count = len(self.queues[queue])
        return counted

    message_count: int = 0

    def queue_purge(self, queue: str) -> None:
        """Drop a queue's messages."""
        self.queues[queue].clear()
