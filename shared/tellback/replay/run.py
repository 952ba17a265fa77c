"""A whole file: conversations side by side, a transport that settles their answers, the counts compared at the end."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from tellback import clock
from tellback.contracts.turns import RoutingOutcome
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.replay.analysis import toolbox_of, twice
from tellback.replay.player import CHANNEL, Played, play
from tellback.replay.reading import read
from tellback.replay.tally import Tally
from tellback.replay.toolbox import Toolbox
from tellback.replay.transcript import BadLine, Conversation, Counts, Oddities
from tellback.state.presence import Presence

if TYPE_CHECKING:
    from tellback.client.connection import Tellback

THREADS: Final = 8
PATIENCE: Final = 30.0
PATIENCE_ALONE: Final = 3.0
LOOK_EVERY: Final = 0.2


class Reporter(Protocol):
    """Hears how far a replay is."""

    def played(self, conversations: int) -> None:
        """So many conversations are played."""
        ...

    def bad(self, line: BadLine) -> None:
        """A line holds no conversation."""
        ...

    def counted(self, done: int, wanted: int) -> None:
        """So many tool calls and answers of all have had their effect."""
        ...


@dataclass(slots=True)
class Outcome:
    """What the file holds beside what Redis holds; `differing` are lines whose conversations differ, and how."""

    run: str
    conversations: int = 0
    file: Counts = field(default_factory=Counts)
    redis: Counts = field(default_factory=Counts)
    fallbacks: int = 0
    oddities: Oddities = field(default_factory=Oddities)
    bad_lines: list[BadLine] = field(default_factory=list[BadLine])
    differing: dict[int, str] = field(default_factory=dict[int, str])
    seconds: float = 0.0
    applied: bool = True
    workers: bool = True

    @property
    def matches(self) -> bool:
        """Whether each conversation is in Redis as it is in the file."""
        return self.applied and not self.differing


class Replay:
    """One replay of one file."""

    def __init__(self, tb: Tellback, reporter: Reporter, *, patience: float = PATIENCE) -> None:
        """Take the client; `patience` is how many seconds the workers may take without any progress."""
        self._tb = tb
        self._reporter = reporter
        self._patience = patience
        self._played: list[Played] = []
        self._outcome = Outcome(secrets.token_hex(4))

    def run(self, file: BinaryIO) -> Outcome:
        """Play every conversation of `file` at full speed, wait for the workers, and compare.

        Raises:
            Unavailable: Redis is away.
        """
        self._tb.context.database.now_ms()  # with Redis away this raises before anything is spooled
        start = clock.monotonic()
        outcome = self._outcome
        with self._transport():
            self._play_all(file)
            self._tb.flush()
            outcome.workers = self._has_workers()
            patience = self._patience if outcome.workers else min(self._patience, PATIENCE_ALONE)
            outcome.applied = Tally(self._tb).wait(self._played, patience, self._reporter.counted)
        self._compare()
        outcome.seconds = clock.monotonic() - start
        return outcome

    def _play_all(self, file: BinaryIO) -> None:
        """A few conversations at once; no more of the file is in memory than is being played."""
        with twice(file) as again:
            toolbox = toolbox_of(again)
            again.seek(0)
            self._play_each(again, toolbox)

    def _play_each(self, file: BinaryIO, toolbox: Toolbox) -> None:
        running: set[Future[Played]] = set()
        pool = ThreadPoolExecutor(THREADS, thread_name_prefix="replay")
        try:
            for item in read(file):
                if isinstance(item, BadLine):
                    self._outcome.bad_lines.append(item)
                    self._reporter.bad(item)
                    continue
                self._note(item)
                running.add(pool.submit(play, self._tb, item, self._outcome.run, toolbox.of(item)))
                while len(running) >= 2 * THREADS:
                    running = self._collect(running)
            while running:
                running = self._collect(running)
        finally:
            pool.shutdown(cancel_futures=True)

    def _note(self, conversation: Conversation) -> None:
        self._outcome.conversations += 1
        self._outcome.file.add(conversation.counts)
        self._outcome.oddities.add(conversation.oddities)

    def _collect(self, running: set[Future[Played]]) -> set[Future[Played]]:
        done, left = wait(running, return_when=FIRST_COMPLETED)
        self._played += [future.result() for future in done]
        self._reporter.played(len(self._played))
        return left

    def _compare(self) -> None:
        """Each conversation on its own, so that a loss in one cannot hide behind an excess in another."""
        for one, found in zip(self._played, Tally(self._tb).read(self._played), strict=True):
            self._outcome.redis.add(found.counts)
            self._outcome.fallbacks += found.fallbacks
            if one.failure is not None:
                self._outcome.differing[one.line] = one.failure
            elif found.counts != one.expected:
                self._outcome.differing[one.line] = f"file {one.expected}, Redis {found.counts}"

    def _has_workers(self) -> bool:
        context = self._tb.context
        workers = Presence(context.database, context.layout).workers()
        return any(Family.EVENTS in worker.queues for worker in workers)

    @contextmanager
    def _transport(self) -> Generator[None, None, None]:
        """Have a thread settle the channel's deliveries until the block ends; two would take turns at the same ones."""
        ended = threading.Event()
        thread = threading.Thread(target=_settle_all, args=(self._tb, ended), name="replay-transport", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _settle_all(tb: Tellback, ended: threading.Event) -> None:
    """A transport whose users have read their messages long ago: every delivery is settled as sent."""
    while not ended.is_set():
        try:
            for delivery in tb.outbox(CHANNEL, wait=LOOK_EVERY):
                delivery.settle(RoutingOutcome(attempted=True, sent_text=True))
                if ended.is_set():
                    return
        except Unavailable:
            ended.wait(LOOK_EVERY)  # the players meet it too, and end the replay
