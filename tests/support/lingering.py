"""A lingerer in a thread of the test, over a loop that notes the order of what it is given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tellback.contracts.codec import encode
from tellback.contracts.guidance import ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.intake import Intake, WakeupState, mark_pending
from tellback.state.intake_lease import IntakeEntry, Lease, committed
from tellback.state.keys import Layout, Shard, stream_of
from tellback_workers.consumer import Consumer, Deferred
from tellback_workers.linger import Lingerer, NewStreams
from tests.support.acknowledge import acknowledge
from tests.support.waiting import wait_until

FAMILY = Family.EVENTS
LEASE = 60.0  # seconds: where a test stops the clock nothing is renewed, and one of 5 s ran out on a busy machine


class OrderRecorder:
    """Acknowledges what it is given, in the order in which it came."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tools: list[str] = []
        self.lost: str | None = None
        self.when_applied: Callable[[], None] = lambda: None

    def ready(self) -> None:
        """Return at once: this loop is always ready."""

    def apply(self, lease: Lease, entries: Sequence[IntakeEntry]) -> None:
        for entry in entries:
            assert isinstance(entry.message, ToolInvoked)
            if entry.message.tool == self.lost:
                self.lost = None
                self.database.command("DEL", lease.key)  # it ran out, as for a process that was stopped for long
            self.tools.append(entry.message.tool)
            self.when_applied()
        committed(self.database.run(acknowledge(lease, entries)))


class JointRecorder(OrderRecorder):
    """Applies the entries of several streams together, as the loop of tool calls does."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.when_together: Callable[[], None] = lambda: None

    def apply_together(self, batches: Mapping[Lease, Sequence[IntakeEntry]], *, or_release: bool = False) -> Deferred:
        assert not or_release, "who lingers keeps its streams"
        self.when_together()
        for lease, entries in batches.items():
            self.apply(lease, entries)
        return Deferred()

    def forget(self, leases: Iterable[Lease]) -> None:
        """Remember nothing."""


class LingerBench:
    """A lingerer in a thread, and a switch for when other work needs its process."""

    def __init__(self, database: Database, layout: Layout, recorder: OrderRecorder | None = None) -> None:
        self.database = database
        self.layout = layout
        self.intake = Intake(database, layout)
        self.recorder = recorder or OrderRecorder(database)
        self.consumer = Consumer(
            self.intake, DeadLetters(database, layout), self.recorder, lease_seconds=LEASE, batch=500
        )
        self.other_work = False
        self.checks = 0
        self.others: tuple[Shard, ...] = ()
        """Shards of other teams that it lingers on too."""
        self.due: list[Shard] | None = None

    def linger(
        self,
        *,
        idle_seconds: float = 60,
        batch: int = 500,
        lease_seconds: float = LEASE,
        news: NewStreams | None = None,
    ) -> list[Shard]:
        lingerer = Lingerer(
            self.intake,
            self.consumer,
            self.needs_worker,
            lease_seconds=lease_seconds,
            idle_seconds=idle_seconds,
            batch=batch,
            news=news,
        )
        self.due = lingerer.linger([*self.layout.all, *self.others], FAMILY)
        return self.due

    @contextmanager
    def lingering(self, **options: Any) -> Generator[None]:
        """While all streams are lingered on by a thread, which ends with the context."""
        thread = threading.Thread(target=self.linger, kwargs=options)
        thread.start()
        try:
            wait_until(lambda: self.lingered_on() == len(self.layout.all), "all streams are lingered on")
            yield
        finally:
            self.other_work = True
            thread.join(60)
            assert not thread.is_alive()

    def lingered_on(self) -> int:
        return sum(
            self.database.command("GET", shard.key("wakeup", FAMILY)) == b"lingering" for shard in self.layout.all
        )

    def needs_worker(self) -> bool:
        self.checks += 1
        return self.other_work

    def has_checked(self, before: int) -> bool:
        return self.checks > before

    def has_applied(self, tools: str) -> bool:
        return "".join(self.recorder.tools) == tools

    def pending(self, shard: Shard) -> WakeupState:
        """Mark a stream as a dispatcher does that was notified of it."""
        [state] = mark_pending(self.database, [(shard, FAMILY)])
        return state

    def append(self, shard: int | Shard, *tools: str, session: str = "s") -> None:
        place = shard if isinstance(shard, Shard) else self.layout.shard(shard)
        for tool in tools:
            self.database.command(*entry_of(place, tool, session))


def entry_of(shard: Shard, tool: str, session: str = "s") -> tuple[str | bytes, ...]:
    """The command that appends a call of a tool."""
    event = ToolInvoked(event_id=new_event_id(), session=session, evaluation="e", tool=tool)
    return ("XADD", stream_of(shard, FAMILY), "*", "m", encode(event))
