"""The model behind the list: the records so far with their kinds and retry chains, and which of them are shown.

A new record rebuilds only the chains that it links to, so its cost doesn't grow with the number of records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tellback.commands.gate import RetryChain, build_chains, resolutions
from tellback.contracts.commands import CommandRecord
from tellback.tui.filters import Kind, RecordFilter
from tellback.tui.record_text import command_text

_BITS: Final = {kind: int(kind) for kind in Kind}  # plain integers: `&` on an IntFlag takes 40 times as long


@dataclass(slots=True)
class AttemptChain:
    """A chain of attempts and the row indexes of its records."""

    chain: RetryChain
    row_indexes: list[int] = field(default_factory=list[int])

    def attempt_index(self, place: int) -> int:
        """Return the position in the chain of the record at `place`, from 0."""
        return bisect_left(self.row_indexes, place)


@dataclass(slots=True)
class RecordRow:
    """One record with what other records say about it: its chain and its resolution."""

    index: int
    record: CommandRecord
    command: str
    search_text: str  # the command in lower case, made once and not with each filter
    directory: str  # in lower case, too
    kinds: int = 0
    attempt_chain: AttemptChain | None = None
    resolved_by: str | None = None

    @property
    def is_resolved(self) -> bool:
        """Return True if a linked success of the same command followed, or somebody waived the failure."""
        return self.resolved_by is not None or self.record.waiver is not None

    @property
    def is_slow(self) -> bool:
        """Return True if it took at least as long as the limit for slow commands."""
        return bool(self.kinds & _BITS[Kind.SLOW])


class RecordReview:
    """The records in order of arrival; those that took at least `slow` seconds count as slow.

    A `place` is an index into `rows`, which never changes; an index into `visible` changes with the filter.
    """

    def __init__(self, *, slow: float) -> None:
        self.rows: list[RecordRow] = []
        self.visible: list[int] = []  # places of the rows that the filter shows
        self.latest_failure: int | None = None  # place of the latest non-zero exit
        self.counts = dict.fromkeys(Kind, 0)
        self.filter = RecordFilter()
        self._slow_ms = slow * 1_000
        self._place_of: dict[str, int] = {}
        self._awaited: dict[str, list[int]] = {}  # id of a missing parent -> places of its children

    def add(self, records: Iterable[CommandRecord]) -> int:
        """Add records, skip exact repeats, and return the number of those that are new or newly waived."""
        first, waived, joined = len(self.rows), 0, dict[int, AttemptChain]()
        for record in records:
            known = self._place_of.get(record.command_id)
            row = None if known is None else self.rows[known]
            if row is not None and row.record == record:
                continue
            if row is not None and msgspec.structs.replace(row.record, waiver=record.waiver) == record:
                row.record, waived = record, waived + 1
                if attempts := row.attempt_chain:  # otherwise it is one of the new rows
                    joined[id(attempts)] = attempts
                continue
            joined |= {
                id(attempts): attempts
                for place in self._linked_indexes(record)
                if (attempts := self.rows[place].attempt_chain)
            }
            self._append_record(record)
        if not joined and first == len(self.rows):
            return 0
        before = sorted(place for attempts in joined.values() for place in attempts.row_indexes)
        self._rebuild_chains([*before, *range(first, len(self.rows))])
        # A record changes the kinds of older ones only in these two; otherwise appending is enough.
        if before and self.filter.kind in (Kind.OPEN, Kind.RETRIES):
            self._refresh_visible()
        else:
            self.visible += self._matching_indexes(self.rows[first:])
        return len(self.rows) - first + waived

    def apply_filter(self, chosen: RecordFilter) -> None:
        """Show only the records that match a filter."""
        self.filter = chosen
        self._refresh_visible()

    def index_of(self, place: int) -> int:
        """Return the index among the visible rows of the record at `place`, or of the next one if it is hidden."""
        return bisect_left(self.visible, place)

    def neighbour_attempt(self, place: int, step: int) -> int | None:
        """Return the place of the attempt `step` after the one at `place` (before, if negative), or None."""
        attempts = self.rows[place].attempt_chain
        assert attempts is not None
        wanted = attempts.attempt_index(place) + step
        return attempts.row_indexes[wanted] if 0 <= wanted < len(attempts.row_indexes) else None

    def _refresh_visible(self) -> None:
        self.visible = self._matching_indexes(self.rows)

    def _matching_indexes(self, rows: list[RecordRow]) -> list[int]:
        """Return the places of matching rows; one list comprehension for each condition is fast for many rows."""
        kind, directory, exits = int(self.filter.kind), self.filter.directory.strip().lower(), self.filter.exits
        rows = [row for row in rows if row.kinds & kind]
        if directory:
            rows = [row for row in rows if directory in row.directory]
        for word in self.filter.command.lower().split():
            rows = [row for row in rows if word in row.search_text]
        if exits.tests:
            rows = [row for row in rows if exits.matches(row.record)]
        return [row.index for row in rows]

    def _append_record(self, record: CommandRecord) -> None:
        place, command = len(self.rows), command_text(record)
        self.rows.append(RecordRow(place, record, command, command.lower(), (record.cwd or "").lower()))
        self._place_of[record.command_id] = place
        if record.exit_code:
            self.latest_failure = place

    def _linked_indexes(self, record: CommandRecord) -> list[int]:
        """Return the places of earlier records that this one names as its parent, or that name it."""
        parent = record.parent_command_id
        places = self._awaited.pop(record.command_id, [])
        if record.command_id in self._place_of:
            places.append(self._place_of[record.command_id])
        if parent is not None and parent in self._place_of:
            places.append(self._place_of[parent])
        elif parent is not None:
            self._awaited.setdefault(parent, []).append(len(self.rows))
        return places

    def _rebuild_chains(self, places: list[int]) -> None:
        """Rebuild the chains of these records, which must include every record of each chain."""
        records = [self.rows[place].record for place in places]
        by = resolutions(records)
        attempts_of: dict[str, AttemptChain] = {}
        for chain in build_chains(records):
            attempts = AttemptChain(chain)
            attempts_of.update((record.command_id, attempts) for record in chain.records)
        for index, place in enumerate(places):
            row = self.rows[place]
            row.attempt_chain = attempts_of[row.record.command_id]
            row.attempt_chain.row_indexes.append(place)
            row.resolved_by = by.get(index)
        for place in places:
            self._count_kinds(self.rows[place])

    def _count_kinds(self, row: RecordRow) -> None:
        kinds = self._kinds_of(row)
        if changed := kinds ^ row.kinds:
            for kind, bit in _BITS.items():
                if changed & bit:
                    self.counts[kind] += 1 if kinds & bit else -1
            row.kinds = kinds

    def _kinds_of(self, row: RecordRow) -> int:
        record = row.record
        assert row.attempt_chain is not None
        is_of = {
            Kind.ALL: True,
            Kind.FAILED: bool(record.exit_code),
            Kind.NULL: record.exit_code is None,
            Kind.OPEN: not record.succeeded and not row.is_resolved,
            Kind.RETRIES: len(row.attempt_chain.row_indexes) > 1 or record.parent_command_id is not None,
            Kind.SLOW: record.duration_ms >= self._slow_ms,
            Kind.PARTIAL: _is_partial(record),
        }
        return sum(_BITS[kind] for kind, is_so in is_of.items() if is_so)


def _is_partial(record: CommandRecord) -> bool:
    shortened, hidden = record.truncated, record.redacted
    return shortened.stdout or shortened.stderr or hidden.stdout or hidden.stderr
