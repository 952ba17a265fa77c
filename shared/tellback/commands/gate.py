"""The verification gate: it checks whether a session's records justify claiming success.

Records that name their parent form a chain of attempts. The links come from the submitter, so they may lead nowhere, to
a later record, or in a circle; the gate reports each such link, and every function here takes time proportional to the
number of records. Requirements C-53, C-55 and C-57.
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tellback.commands.start_errors import MISTYPED
from tellback.contracts.commands import CommandRecord, Verdict
from tellback.redaction import Redactor
from tellback.truncation import truncate_chars
from tellback.wording import be, count_phrase

_CommandKey = tuple[tuple[str, ...], str | None]  # argv and directory; None stands for any directory
MAX_COMMAND_CHARS: Final = 200  # of a command in a reason; agents submit whole scripts as one argument
_ANY: Final[_CommandKey] = ((), None)  # a key for every command, since no argv is empty


@dataclass(frozen=True, slots=True)
class RetryChain:
    """Linked records, oldest first; a record without links is a chain of its own."""

    records: tuple[CommandRecord, ...]
    unresolved: tuple[CommandRecord, ...]  # failures and null exits neither cleared by a linked success nor waived
    orphans: tuple[str, ...]  # ids of records whose parent is not among the records
    cycle: tuple[str, ...]  # ids of records whose parents lead back to themselves

    @property
    def link_problems(self) -> list[str]:
        """Describe what is wrong with the links."""
        parents = {record.command_id: record.parent_command_id for record in self.records}
        found = [f"{id_} follows {parents[id_]}, which is not among the records" for id_ in self.orphans]
        if self.cycle:
            found.append(f"a circle of parents: {', '.join(self.cycle)}")
        return found


def build_chains(records: Sequence[CommandRecord]) -> list[RetryChain]:
    """Group records, given oldest first, into chains, ordered by their first records."""
    resolved_by = resolutions(records)
    parents = {record.command_id: record.parent_command_id for record in records}
    circling = set(_cyclic_ids(parents))
    return [_build_chain(records, linked, resolved_by, parents, circling) for linked in _connected_records(records)]


def is_mistyped(record: CommandRecord) -> bool:
    """Return True if argv or cwd named nothing to run, so that the command can neither have failed nor succeeded."""
    return record.exit_code is None and record.started_at is None and (record.error or "").startswith(MISTYPED)


def resolutions(records: Sequence[CommandRecord]) -> dict[int, str]:
    """Map the index of each cleared failure to the id of the first success that clears it.

    A success clears an earlier failure with the same argv and directory to which it is linked, directly or through
    other attempts. A mistyped command, which no retry of the same argv could clear, is cleared by any linked success.
    A link to a later record is ignored: an attempt follows the one that it retries.
    """
    # From the newest record to the oldest: each passes the successes below it to its parent, so one pass is enough.
    parents = list(_earlier_parents(records))
    # For each record, the first success of each command among its descendants.
    successes: list[dict[_CommandKey, int]] = [{} for _ in records]
    found: dict[int, str] = {}
    for index in range(len(records) - 1, -1, -1):
        record, own = records[index], successes[index]
        argv = tuple(record.command)
        if record.succeeded:
            own[argv, record.cwd] = own[argv, None] = own[_ANY] = index
        elif (by := own.get(_ANY if is_mistyped(record) else (argv, record.cwd))) is not None:
            found[index] = records[by].command_id
        parent = parents[index]
        if parent is not None:
            successes[parent] = _merge_successes(successes[parent], own)
        successes[index] = {}
    return found


def _build_chain(
    records: Sequence[CommandRecord],
    linked: list[int],
    resolved_by: Mapping[int, str],
    parents: Mapping[str, str | None],
    circling: Container[str],
) -> RetryChain:
    chain_records = [records[index] for index in linked]
    return RetryChain(
        records=tuple(chain_records),
        unresolved=tuple(
            records[index]
            for index in linked
            if not records[index].succeeded and index not in resolved_by and records[index].waiver is None
        ),
        orphans=tuple(
            one.command_id for one in chain_records if one.parent_command_id and one.parent_command_id not in parents
        ),
        cycle=tuple(dict.fromkeys(one.command_id for one in chain_records if one.command_id in circling)),
    )


def _earlier_parents(records: Sequence[CommandRecord]) -> Iterator[int | None]:
    """Yield for each record the index of its parent among the earlier records."""
    place: dict[str, int] = {}
    for index, record in enumerate(records):
        yield place.get(record.parent_command_id or "")
        place[record.command_id] = index


def _merge_successes(one: dict[_CommandKey, int], other: dict[_CommandKey, int]) -> dict[_CommandKey, int]:
    """Merge both, keeping the earlier success of each command."""
    # Smaller into larger: a chain of n records then costs n log n in all, not n squared.
    small, large = sorted((one, other), key=len)
    for command, index in small.items():
        large[command] = min(index, large.get(command, index))
    return large


def _cyclic_ids(parents: dict[str, str | None]) -> Iterator[str]:
    """Yield the ids whose chain of parents leads back to themselves."""
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


def _connected_records(records: Sequence[CommandRecord]) -> list[list[int]]:
    """Group the indexes of linked records, ignoring the direction of the links."""
    # Union-find with path halving, which also ends on a circle of parents.
    leader = {record.command_id: record.command_id for record in records}

    def first(id_: str) -> str:
        while leader[id_] != id_:
            leader[id_] = leader[leader[id_]]
            id_ = leader[id_]
        return id_

    for record in records:
        if record.parent_command_id in leader:
            leader[first(record.command_id)] = first(record.parent_command_id)
    groups: dict[str, list[int]] = {}
    for index, record in enumerate(records):
        groups.setdefault(first(record.command_id), []).append(index)
    return list(groups.values())


def evaluate_gate(
    records: Sequence[CommandRecord],
    *,
    require: Sequence[Sequence[str]] = (),
    evicted: int = 0,
    unreadable: Sequence[str] = (),
) -> Verdict:
    """Check whether a session's records, oldest first, justify claiming success.

    The gate passes if every required command ran and no failure or null exit is unresolved. A failure is resolved by a
    later success with the same argv and cwd that is linked to it by `parent_command_id`, directly or through other
    attempts. A mistyped command is resolved by any linked success, and does not count as having run. A waived one is
    passed over. `evicted` is the number of older records that are gone. `unreadable` names lines of a file that hold no
    record; they are reported but refuse nothing, because a killed writer leaves such lines.
    """
    refusals: list[str] = []
    if not records:
        refusals.append("no records: nothing has been run")
    if evicted:
        refusals.append(f"{count_phrase(evicted, 'older record')} {be(evicted)} gone: nobody knows what was said there")
    ran = {tuple(record.command) for record in records if not is_mistyped(record)}
    refusals += [
        f"required and never run: {_command_text(argv)}"
        for argv in map(list, require)
        if _recorded_argv(argv) not in ran
    ]
    resolved_by = resolutions(records)
    last_successes = _last_successes(records)
    linked_successes = {
        record.parent_command_id: record for record in records if record.succeeded and record.parent_command_id
    }
    passed_over: list[str] = []
    for index, record in enumerate(records):
        if index in resolved_by:
            passed_over.append(_resolved_reason(record, resolved_by[index]))
        elif record.waiver is not None and not record.succeeded:
            passed_over.append(f"{_passed_over(record)}, waived by {record.waiver.by}: {record.waiver.reason}")
        elif not record.succeeded:
            place, success = last_successes.get((tuple(record.command), record.cwd), (-1, ""))
            unlinked = success if place > index else None
            refusals.append(_refusal_reason(record, unlinked, linked_successes.get(record.command_id)))
    passed_over += [f"passed over: {place} is not a record; its writer may have been killed" for place in unreadable]
    return Verdict(not refusals, refusals + passed_over)


def _command_text(argv: Sequence[str]) -> str:
    return truncate_chars(shlex.join(argv), MAX_COMMAND_CHARS)


def _recorded_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Return an argv as a record shows it, with secrets redacted."""
    return tuple(Redactor().argv(argv))


def _last_successes(records: Sequence[CommandRecord]) -> dict[_CommandKey, tuple[int, str]]:
    """Return index and id of the last success of each argv by directory, and under None in any directory."""
    found: dict[_CommandKey, tuple[int, str]] = {}
    for index, record in enumerate(records):
        if record.succeeded:
            argv = tuple(record.command)
            found[argv, record.cwd] = found[argv, None] = (index, record.command_id)
    return found


def _refusal_reason(record: CommandRecord, unlinked: str | None, linked: CommandRecord | None) -> str:
    what = f"exited with {record.exit_code}" if record.may_advance else f"has no exit code ({record.error})"
    text = f"{_command_text(record.command)} {what}, and no linked retry has succeeded [{record.command_id}]"
    if is_mistyped(record):
        return f"{text}; nothing was started, so any success that is linked to it by its parent clears it"
    if unlinked:
        return f"{text}; [{unlinked}] succeeded later, but is not linked to it by its parent"
    if linked is not None and linked.command != record.command:
        return f"{text}; [{linked.command_id}] is linked and succeeded, but ran {_command_text(linked.command)}"
    if linked is not None:
        return f"{text}; [{linked.command_id}] is linked and succeeded, but ran in {linked.cwd or 'another directory'}"
    return text


def _resolved_reason(record: CommandRecord, by: str) -> str:
    if is_mistyped(record):
        return f"{_passed_over(record)}, never started ({record.error}), replaced by [{by}]"
    return f"{_passed_over(record)}, resolved by its retry [{by}]"


def _passed_over(record: CommandRecord) -> str:
    how = f"exit {record.exit_code}" if record.may_advance else "null exit"
    return f"passed over: {_command_text(record.command)} ({how}) [{record.command_id}]"
