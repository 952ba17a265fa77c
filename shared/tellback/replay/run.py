"""The replay of a whole file, and the comparison of its counts with those in Redis.

Several conversations are played at once, while a transport settles their answers. When the workers have applied
everything, each conversation's counts are read back and compared one by one.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, TypeVar

from tellback import clock
from tellback.contracts.turns import RoutingOutcome
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.replay.analysis import collect_tools, rereadable
from tellback.replay.player import CHANNEL, PlayedConversation, play_conversation
from tellback.replay.reading import TranscriptTools, play_in_threads
from tellback.replay.transcript import BadLine, Conversation, Oddities, TranscriptCounts
from tellback.state.audit import Author, log_act
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import EvaluationCounts as Counters
from tellback.state.evaluations import Evaluations
from tellback.state.presence import Presence
from tellback.state.turn_view import TurnView
from tellback.state.turns import Turns

if TYPE_CHECKING:
    from tellback.client.connection import Tellback

CHUNK: Final = 500  # ids in one call to Redis

TALLY_POLL_SECONDS: Final = 0.05

MAX_POLL_SHARE: Final = 4  # pause four times as long as a poll took: the transport needs Redis for the rest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredCounts:
    """The counts that Redis has for one conversation; `fallbacks` are turns that the sweep answered."""

    counts: TranscriptCounts
    fallbacks: int


class StoredTally:
    """Reads back from Redis the counts of played conversations."""

    def __init__(self, tb: Tellback) -> None:
        self._database = tb.context.database
        self._layout = tb.context.layout

    def wait_until_applied(
        self, played: Sequence[PlayedConversation], timeout: float, progress: Callable[[int, int], None]
    ) -> bool:
        """Wait until every tool call is counted and every answer settled; call `progress` with done and total.

        Returns False after `timeout` seconds without progress.

        Raises:
            Unavailable: Redis is unavailable.
        """
        wanted = sum(one.expected.tool_calls + one.expected.delivered for one in played)
        open_, done, before = list(played), 0, -1
        end = clock.monotonic() + timeout
        while True:
            began = clock.monotonic()
            found = self.read_counts(open_)
            reached = done + sum(each.counts.tool_calls + each.counts.delivered for each in found)
            progress(reached, wanted)
            left: list[PlayedConversation] = []
            for one, each in zip(open_, found, strict=True):
                if _is_complete(each.counts, one.expected):
                    done += each.counts.tool_calls + each.counts.delivered
                else:
                    left.append(one)
            if not left:
                return True
            if reached != before:
                before, end = reached, clock.monotonic() + timeout
            elif clock.monotonic() >= end:
                return False
            open_ = left
            clock.sleep(max(TALLY_POLL_SECONDS, MAX_POLL_SHARE * (clock.monotonic() - began)))

    def read_counts(self, played: Sequence[PlayedConversation]) -> list[StoredCounts]:
        """Return the counts that Redis has now for each conversation.

        Raises:
            Unavailable: Redis is unavailable.
        """
        counters = self._counters([one.evaluation for one in played])
        views = self._turn_views([turn for one in played for turn in one.turns])
        return [_stored_counts(counters[one.evaluation], [views[turn] for turn in one.turns]) for one in played]

    def _counters(self, ids: Sequence[EvaluationId]) -> dict[EvaluationId, Counters]:
        found: dict[EvaluationId, Counters] = {}
        for shard in self._layout.all:
            store = Evaluations(self._database, shard)
            for chunk in _chunks([id_ for id_ in ids if self._layout.of(id_.session) == shard]):
                found.update(zip(chunk, store.counts_of(chunk), strict=True))
        return found

    def _turn_views(self, ids: Sequence[str]) -> dict[str, TurnView | None]:
        store = Turns(self._database, self._layout)
        return {id_: view for chunk in _chunks(ids) for id_, view in zip(chunk, store.load(chunk), strict=True)}


def _stored_counts(counters: Counters, turns: Sequence[TurnView | None]) -> StoredCounts:
    known = [turn for turn in turns if turn is not None]
    states = [turn.state for turn in known]
    counts = TranscriptCounts(
        tool_calls=counters.calls,
        errors=counters.errors,
        opened=len(known),
        answered=states.count("responded"),
        closed=states.count("no_reply"),
        delivered=sum(turn.state == "responded" and turn.delivery == "delivered" for turn in known),
    )
    return StoredCounts(counts, states.count("fallback"))


def _is_complete(found: TranscriptCounts, expected: TranscriptCounts) -> bool:
    return found.tool_calls >= expected.tool_calls and found.delivered >= expected.delivered


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))


THREADS: Final = 8

APPLY_TIMEOUT: Final = 30.0  # seconds without progress

APPLY_TIMEOUT_WITHOUT_WORKERS: Final = 3.0  # likewise; short, since without a worker there won't be any progress

POLL_SECONDS: Final = 0.2


class ReplayProgress(Protocol):
    """The receiver of a replay's progress."""

    def played(self, conversations: int) -> None:
        """Report the number of conversations played so far."""
        ...

    def bad(self, line: BadLine) -> None:
        """Report a line that holds no conversation."""
        ...

    def counted(self, done: int, wanted: int) -> None:
        """Report how many of all tool calls and answers have been applied."""
        ...


@dataclass(slots=True)
class ReplayResult:
    """The counts of the file and those of Redis; `differing` maps a line to how its conversation differs."""

    run: str
    conversations: int = 0
    file: TranscriptCounts = field(default_factory=TranscriptCounts)
    redis: TranscriptCounts = field(default_factory=TranscriptCounts)
    fallbacks: int = 0
    oddities: Oddities = field(default_factory=Oddities)
    bad_lines: list[BadLine] = field(default_factory=list[BadLine])
    differing: dict[int, str] = field(default_factory=dict[int, str])
    seconds: float = 0.0
    applied: bool = True
    workers: bool = True

    @property
    def is_match(self) -> bool:
        """Return True if every conversation has the same counts in Redis as in the file."""
        return self.applied and not self.differing


def log_replay(tb: Tellback, run: str, author: Author) -> None:
    """Name the author of a replay in the audit log, by the beginning of its sessions' names."""
    log_act(tb.context.database, tb.context.layout, author, "replay", f"replay-{run}")


class Replay:
    """One replay of one file, by `author`; it gives up after `timeout` seconds without progress of the workers."""

    def __init__(
        self, tb: Tellback, reporter: ReplayProgress, *, timeout: float = APPLY_TIMEOUT, author: Author | None = None
    ) -> None:
        self._tb = tb
        self._author = author or Author.of()
        self._reporter = reporter
        self._timeout = timeout
        self._played: list[PlayedConversation] = []
        self._outcome = ReplayResult(secrets.token_hex(4))

    def run(self, file: BinaryIO) -> ReplayResult:
        """Play every conversation of `file` at full speed, wait for the workers, and compare.

        Raises:
            Unavailable: Redis is unavailable.
        """
        self._tb.context.database.now_ms()  # raises if Redis is unavailable, before anything is spooled
        start = clock.monotonic()
        outcome = self._outcome
        with self._settling_transport():
            self._play_all(file)
            self._tb.flush()
            outcome.workers = self._has_workers()
            timeout = self._timeout if outcome.workers else min(self._timeout, APPLY_TIMEOUT_WITHOUT_WORKERS)
            outcome.applied = StoredTally(self._tb).wait_until_applied(self._played, timeout, self._reporter.counted)
        self._compare_counts()
        outcome.seconds = clock.monotonic() - start
        return outcome

    def _play_all(self, file: BinaryIO) -> None:
        """Play a few conversations at once; only those are in memory."""
        with rereadable(file) as again:
            toolbox = collect_tools(again)
            again.seek(0)
            self._play_each(again, toolbox)

    def _play_each(self, file: BinaryIO, toolbox: TranscriptTools) -> None:
        def play(item: Conversation) -> Callable[[], PlayedConversation]:
            self._note_tools(item)
            return partial(play_conversation, self._tb, item, self._outcome.run, toolbox.tools_for(item))

        play_in_threads(file, THREADS, play, self._note_finished, self._note_bad)

    def _note_bad(self, line: BadLine) -> None:
        self._outcome.bad_lines.append(line)
        self._reporter.bad(line)

    def _note_tools(self, conversation: Conversation) -> None:
        if not self._outcome.conversations:
            log_replay(self._tb, self._outcome.run, self._author)
        self._outcome.conversations += 1
        self._outcome.file.add(conversation.counts)
        self._outcome.oddities.add(conversation.oddities)

    def _note_finished(self, played: Sequence[PlayedConversation]) -> None:
        self._played += played
        self._reporter.played(len(self._played))

    def _compare_counts(self) -> None:
        """Compare each conversation separately, so that a loss in one can't hide behind an excess in another."""
        for one, found in zip(self._played, StoredTally(self._tb).read_counts(self._played), strict=True):
            self._outcome.redis.add(found.counts)
            self._outcome.fallbacks += found.fallbacks
            if one.failure is not None:
                self._outcome.differing[one.line] = one.failure
            elif found.counts != one.expected:
                self._outcome.differing[one.line] = found.counts.difference_from(one.expected)

    def _has_workers(self) -> bool:
        context = self._tb.context
        workers = Presence(context.database, context.layout.team).workers()
        return any(Family.EVENTS in worker.queues for worker in workers)

    @contextmanager
    def _settling_transport(self) -> Generator[None, None, None]:
        """Settle the channel's deliveries in one thread until the block ends; two would compete for the same ones."""
        ended = threading.Event()
        thread = threading.Thread(
            target=_settle_deliveries, args=(self._tb, ended), name="replay-transport", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _settle_deliveries(tb: Tellback, ended: threading.Event) -> None:
    """Settle every delivery as sent, as a transport would; nobody waits for the messages of a transcript."""
    while not ended.is_set():
        try:
            for delivery in tb.outbox(CHANNEL, wait=POLL_SECONDS):
                delivery.settle(RoutingOutcome(attempted=True, sent_text=True))
                if ended.is_set():
                    return
        except Unavailable:
            ended.wait(POLL_SECONDS)  # the playing threads see the same error and end the replay
