"""What Redis holds of what was played, read back once the workers have applied it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from tellback import clock
from tellback.replay.player import Played
from tellback.replay.transcript import Counts
from tellback.state.evaluations import Counts as Counters
from tellback.state.evaluations import EvaluationId, Evaluations
from tellback.state.turns import Turns, TurnView

if TYPE_CHECKING:
    from tellback.client.connection import Tellback

CHUNK: Final = 500
NAP: Final = 0.05
LOOKING: Final = 4  # looks are to take no more than a fifth of the time, which the transport needs
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """What Redis holds of one conversation; `fallbacks` are turns that the sweep has answered."""

    counts: Counts
    fallbacks: int


class Tally:
    """Reads back what was played."""

    def __init__(self, tb: Tellback) -> None:
        """Take the client that played it."""
        self._database = tb.context.database
        self._layout = tb.context.layout

    def wait(self, played: Sequence[Played], patience: float, told: Callable[[int, int], None]) -> bool:
        """Wait until every tool call is counted and every answer settled, as long as there is progress.

        `told` hears how many of how many. False after `patience` seconds without any progress.

        Raises:
            Unavailable: Redis is away.
        """
        wanted = sum(one.expected.tool_calls + one.expected.delivered for one in played)
        open_, done, before = list(played), 0, -1
        end = clock.monotonic() + patience
        while True:
            began = clock.monotonic()
            found = self.read(open_)
            reached = done + sum(each.counts.tool_calls + each.counts.delivered for each in found)
            told(reached, wanted)
            left: list[Played] = []
            for one, each in zip(open_, found, strict=True):
                if _complete(each.counts, one.expected):
                    done += each.counts.tool_calls + each.counts.delivered
                else:
                    left.append(one)
            if not left:
                return True
            if reached != before:
                before, end = reached, clock.monotonic() + patience
            elif clock.monotonic() >= end:
                return False
            open_ = left
            clock.sleep(max(NAP, LOOKING * (clock.monotonic() - began)))

    def read(self, played: Sequence[Played]) -> list[Found]:
        """What Redis holds of each conversation at this moment.

        Raises:
            Unavailable: Redis is away.
        """
        counters = self._counters([one.evaluation for one in played])
        views = self._views([turn for one in played for turn in one.turns])
        return [_found(counters[one.evaluation], [views[turn] for turn in one.turns]) for one in played]

    def _counters(self, ids: Sequence[EvaluationId]) -> dict[EvaluationId, Counters]:
        found: dict[EvaluationId, Counters] = {}
        for shard in self._layout.all:
            store = Evaluations(self._database, shard)
            for chunk in _chunks([id_ for id_ in ids if self._layout.of(id_.session) == shard]):
                found.update(zip(chunk, store.counts_of(chunk), strict=True))
        return found

    def _views(self, ids: Sequence[str]) -> dict[str, TurnView | None]:
        store = Turns(self._database, self._layout)
        return {id_: view for chunk in _chunks(ids) for id_, view in zip(chunk, store.load(chunk), strict=True)}


def _found(counters: Counters, turns: Sequence[TurnView | None]) -> Found:
    known = [turn for turn in turns if turn is not None]
    states = [turn.state for turn in known]
    counts = Counts(
        tool_calls=counters.calls,
        errors=counters.errors,
        opened=len(known),
        answered=states.count("responded"),
        closed=states.count("no_reply"),
        delivered=sum(turn.state == "responded" and turn.delivery == "delivered" for turn in known),
    )
    return Found(counts, states.count("fallback"))


def _complete(found: Counts, expected: Counts) -> bool:
    return found.tool_calls >= expected.tool_calls and found.delivered >= expected.delivered


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))
