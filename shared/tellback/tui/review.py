"""What is known of the records that came so far: their kinds, their chains, and which of them are shown."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tellback.commands.chains import Chain, chains, resolved
from tellback.contracts.commands import CommandRecord
from tellback.tui.filters import Filter, Kind
from tellback.tui.words import command_of

_BITS: Final = {kind: int(kind) for kind in Kind}


@dataclass(slots=True)
class Story:
    """A chain of attempts, and where its records stand."""

    chain: Chain
    places: list[int] = field(default_factory=list[int])

    def step(self, place: int) -> int:
        """Which attempt the record at `place` is, from 0."""
        return bisect_left(self.places, place)


@dataclass(slots=True)
class Row:
    """One record, and what the others make of it."""

    place: int
    record: CommandRecord
    command: str
    searched: str  # the command, in small letters
    directory: str  # likewise
    kinds: int = 0
    story: Story | None = None
    resolved_by: str | None = None

    @property
    def settled(self) -> bool:
        """Whether a linked success of the same thing followed."""
        return self.resolved_by is not None

    @property
    def slow(self) -> bool:
        """Whether it took longer than the reader has patience for."""
        return bool(self.kinds & _BITS[Kind.SLOW])


class Review:
    """Records in the order in which they came. What one more costs depends on its chain, not on how many there are."""

    def __init__(self, *, slow: float) -> None:
        """Records that took at least `slow` seconds are slow."""
        self.rows: list[Row] = []
        self.visible: list[int] = []  # places of what the filter shows
        self.latest_failure: int | None = None  # place of the latest non-zero exit
        self.counts = dict.fromkeys(Kind, 0)
        self.filter = Filter()
        self._slow_ms = slow * 1_000
        self._place_of: dict[str, int] = {}
        self._awaited: dict[str, list[int]] = {}  # by a parent's id that has not come: where its children stand

    def add(self, records: Iterable[CommandRecord]) -> int:
        """Take more records; the same one twice is one. Returns how many were new."""
        first, joined = len(self.rows), dict[int, Story]()
        for record in records:
            known = self._place_of.get(record.command_id)
            if known is not None and self.rows[known].record == record:
                continue
            joined |= {id(story): story for place in self._linked(record) if (story := self.rows[place].story)}
            self._append(record)
        if first == len(self.rows):
            return 0
        before = sorted(place for story in joined.values() for place in story.places)
        self._tell_stories([*before, *range(first, len(self.rows))])
        if before and self.filter.kind in (Kind.OPEN, Kind.RETRIES):
            self._show()
        else:
            self.visible += self._passing(self.rows[first:])
        return len(self.rows) - first

    def show(self, chosen: Filter) -> None:
        """Show what a filter lets pass."""
        self.filter = chosen
        self._show()

    def index_of(self, place: int) -> int:
        """Where among the visible the record at `place` stands, else the next one after it."""
        return bisect_left(self.visible, place)

    def attempt(self, place: int, step: int) -> int | None:
        """The place of the attempt that comes `step` after (before, if negative) the one at `place`."""
        story = self.rows[place].story
        assert story is not None
        wanted = story.step(place) + step
        return story.places[wanted] if 0 <= wanted < len(story.places) else None

    def _show(self) -> None:
        self.visible = self._passing(self.rows)

    def _passing(self, rows: list[Row]) -> list[int]:
        """Places of those that the filter lets pass; one plain loop for each condition, since there may be many."""
        kind, directory, exits = int(self.filter.kind), self.filter.directory.strip().lower(), self.filter.exits
        rows = [row for row in rows if row.kinds & kind]
        if directory:
            rows = [row for row in rows if directory in row.directory]
        for word in self.filter.command.lower().split():
            rows = [row for row in rows if word in row.searched]
        if exits.tests:
            rows = [row for row in rows if exits.match(row.record)]
        return [row.place for row in rows]

    def _append(self, record: CommandRecord) -> None:
        place, command = len(self.rows), command_of(record)
        self.rows.append(Row(place, record, command, command.lower(), (record.cwd or "").lower()))
        self._place_of[record.command_id] = place
        if record.exit_code:
            self.latest_failure = place

    def _linked(self, record: CommandRecord) -> list[int]:
        """Places of earlier records that this one names, or that name it."""
        parent = record.parent_command_id
        places = self._awaited.pop(record.command_id, [])
        if record.command_id in self._place_of:
            places.append(self._place_of[record.command_id])
        if parent is not None and parent in self._place_of:
            places.append(self._place_of[parent])
        elif parent is not None:
            self._awaited.setdefault(parent, []).append(len(self.rows))
        return places

    def _tell_stories(self, places: list[int]) -> None:
        """Tell the stories of these records anew; they hold all records of each of their chains."""
        records = [self.rows[place].record for place in places]
        by = resolved(records)
        stories: dict[str, Story] = {}
        for chain in chains(records):
            story = Story(chain)
            stories.update((record.command_id, story) for record in chain.records)
        for index, place in enumerate(places):
            row = self.rows[place]
            row.story = stories[row.record.command_id]
            row.story.places.append(place)
            row.resolved_by = by.get(index)
        for place in places:
            self._count(self.rows[place])

    def _count(self, row: Row) -> None:
        kinds = self._kinds(row)
        if changed := kinds ^ row.kinds:
            for kind, bit in _BITS.items():
                if changed & bit:
                    self.counts[kind] += 1 if kinds & bit else -1
            row.kinds = kinds

    def _kinds(self, row: Row) -> int:
        record = row.record
        assert row.story is not None
        is_of = {
            Kind.ALL: True,
            Kind.FAILED: bool(record.exit_code),
            Kind.NULL: record.exit_code is None,
            Kind.OPEN: not record.succeeded and not row.settled,
            Kind.RETRIES: len(row.story.places) > 1 or record.parent_command_id is not None,
            Kind.SLOW: record.duration_ms >= self._slow_ms,
            Kind.CUT: _is_cut(record),
        }
        return sum(_BITS[kind] for kind, is_so in is_of.items() if is_so)


def _is_cut(record: CommandRecord) -> bool:
    cut, hidden = record.truncated, record.redacted
    return cut.stdout or cut.stderr or hidden.stdout or hidden.stderr
