"""The verification gate: what the records of a session allow to be claimed (runtime-feedback-loops)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tellback.commands.chains import resolved
from tellback.contracts.commands import CommandRecord, Verdict
from tellback.redaction import Redactor


def judge(
    records: Sequence[CommandRecord],
    *,
    require: Sequence[Sequence[str]] = (),
    evicted: int = 0,
    unreadable: Sequence[str] = (),
) -> Verdict:
    """Judge a session's records, oldest first; `evicted` says how many older ones are gone.

    It passes when every required command ran and no failure or null exit stands: one stands until a later record with
    the same argv and cwd, linked to it by `parent_command_id` directly or over further attempts, has succeeded.
    `unreadable` names places of a file that hold no record; they are told, since a killed writer leaves such.
    """
    refusals: list[str] = []
    if not records:
        refusals.append("no records: nothing has been run")
    if evicted:
        refusals.append(f"{evicted} older records are gone: what they said is not known")
    ran = {tuple(record.command) for record in records}
    refusals += [
        f"required and never run: {shlex.join(argv)}" for argv in map(list, require) if _shown(argv) not in ran
    ]
    by = resolved(records)
    later = _last_successes(records)
    others = {record.parent_command_id: record for record in records if record.succeeded and record.parent_command_id}
    passed_over: list[str] = []
    for index, record in enumerate(records):
        if index in by:
            passed_over.append(_passed_over(record, by[index]))
        elif not record.succeeded:
            place, success = later.get((tuple(record.command), record.cwd), (-1, ""))
            refusals.append(_refusal(record, success if place > index else None, others.get(record.command_id)))
    passed_over += [f"passed over: {place} is no record; its writer may have been killed" for place in unreadable]
    return Verdict(not refusals, refusals + passed_over)


def _shown(argv: Sequence[str]) -> tuple[str, ...]:
    """As it stands in a record."""
    return tuple(Redactor().argv(argv))


def _last_successes(records: Sequence[CommandRecord]) -> dict[tuple[tuple[str, ...], str | None], tuple[int, str]]:
    """Place and id of the last success of each argv in each directory, and under None in any."""
    found: dict[tuple[tuple[str, ...], str | None], tuple[int, str]] = {}
    for index, record in enumerate(records):
        if record.succeeded:
            argv = tuple(record.command)
            found[argv, record.cwd] = found[argv, None] = (index, record.command_id)
    return found


def _refusal(record: CommandRecord, unlinked: str | None, other: CommandRecord | None) -> str:
    what = f"exited with {record.exit_code}" if record.may_advance else f"has no exit code ({record.error})"
    text = f"{shlex.join(record.command)} {what}, and no linked retry has succeeded [{record.command_id}]"
    if unlinked:
        return f"{text}; [{unlinked}] succeeded later, but is not linked to it by its parent"
    if other is not None and other.command != record.command:
        return f"{text}; [{other.command_id}] is linked and succeeded, but ran {shlex.join(other.command)}"
    if other is not None:
        return f"{text}; [{other.command_id}] is linked and succeeded, but ran in {other.cwd or 'another directory'}"
    return text


def _passed_over(record: CommandRecord, by: str) -> str:
    how = f"exit {record.exit_code}" if record.may_advance else "null exit"
    return f"passed over: {shlex.join(record.command)} ({how}) [{record.command_id}], resolved by its retry [{by}]"
