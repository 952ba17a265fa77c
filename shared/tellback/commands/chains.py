"""Attempts that name the one before them, read as one story (runtime-feedback-loops, "Parent-command id").

Links come from whoever submits, so they may lead nowhere, to a later record, or around in a circle: each is told, and
every function here takes time in proportion to the records.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tellback.contracts.commands import CommandRecord

_Thing = tuple[tuple[str, ...], str | None]  # argv and directory; None stands for any directory


@dataclass(frozen=True, slots=True)
class Chain:
    """Records that belong together, oldest first; one that retries nothing and was not retried is a chain too."""

    records: tuple[CommandRecord, ...]
    unresolved: tuple[CommandRecord, ...]  # failures and null exits that no linked success has cleared
    orphans: tuple[str, ...]  # ids of records whose parent is not among the records
    cycle: tuple[str, ...]  # ids of records whose parents lead back to themselves

    @property
    def problems(self) -> list[str]:
        """What is wrong with the links, for a reader."""
        parents = {record.command_id: record.parent_command_id for record in self.records}
        found = [f"{id_} follows {parents[id_]}, which is not among the records" for id_ in self.orphans]
        if self.cycle:
            found.append(f"a circle of parents: {', '.join(self.cycle)}")
        return found


def chains(records: Sequence[CommandRecord]) -> list[Chain]:
    """The chains of records that are given oldest first, by their first records."""
    by = resolved(records)
    known = {record.command_id: record.parent_command_id for record in records}
    circling = set(_circling(known))
    return [_chain(records, story, by, known, circling) for story in _stories(records)]


def resolved(records: Sequence[CommandRecord]) -> dict[int, str]:
    """Failures by their place, each with the id of the first later success that clears it.

    That is one of the same argv and directory, linked to it directly or over further attempts. A link to a later record
    is none: an attempt follows what it retries.
    """
    parents = list(_earlier_parents(records))
    successes: list[dict[_Thing, int]] = [{} for _ in records]  # of a record's descendants: the first of each thing
    found: dict[int, str] = {}
    for index in range(len(records) - 1, -1, -1):
        record, own = records[index], successes[index]
        argv = tuple(record.command)
        if record.succeeded:
            own[argv, record.cwd] = own[argv, None] = index
        elif (by := own.get((argv, record.cwd))) is not None:
            found[index] = records[by].command_id
        parent = parents[index]
        if parent is not None:
            successes[parent] = _merged(successes[parent], own)
        successes[index] = {}
    return found


def _chain(
    records: Sequence[CommandRecord],
    story: list[int],
    by: Mapping[int, str],
    known: Mapping[str, str | None],
    circling: Container[str],
) -> Chain:
    told = [records[index] for index in story]
    return Chain(
        records=tuple(told),
        unresolved=tuple(records[index] for index in story if not records[index].succeeded and index not in by),
        orphans=tuple(one.command_id for one in told if one.parent_command_id and one.parent_command_id not in known),
        cycle=tuple(dict.fromkeys(one.command_id for one in told if one.command_id in circling)),
    )


def _earlier_parents(records: Sequence[CommandRecord]) -> Iterator[int | None]:
    """For each record the place of its parent among those before it."""
    place: dict[str, int] = {}
    for index, record in enumerate(records):
        yield place.get(record.parent_command_id or "")
        place[record.command_id] = index


def _merged(one: dict[_Thing, int], other: dict[_Thing, int]) -> dict[_Thing, int]:
    """Both, the earlier success of each thing; the smaller goes into the larger, so that a long chain costs little."""
    small, large = sorted((one, other), key=len)
    for thing, index in small.items():
        large[thing] = min(index, large.get(thing, index))
    return large


def _circling(parents: dict[str, str | None]) -> Iterator[str]:
    """Ids from which the parents lead back to themselves."""
    seen: set[str] = set()
    for start in parents:
        path: dict[str, None] = {}
        at: str | None = start
        while at is not None and at in parents and at not in seen:
            seen.add(at)
            path[at] = None
            at = parents[at]
        if at is not None and at in path:
            ids = list(path)
            yield from ids[ids.index(at) :]


def _stories(records: Sequence[CommandRecord]) -> list[list[int]]:
    """The places of records joined over their links, in whichever direction those lead."""
    leader = {record.command_id: record.command_id for record in records}

    def first(id_: str) -> str:
        while leader[id_] != id_:
            leader[id_] = leader[leader[id_]]
            id_ = leader[id_]
        return id_

    for record in records:
        if record.parent_command_id in leader:
            leader[first(record.command_id)] = first(record.parent_command_id)
    stories: dict[str, list[int]] = {}
    for index, record in enumerate(records):
        stories.setdefault(first(record.command_id), []).append(index)
    return list(stories.values())
