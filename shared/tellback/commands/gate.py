"""The verification gate: what the records of a session allow to be claimed (runtime-feedback-loops)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tellback.contracts.commands import CommandRecord, Verdict
from tellback.redaction import Redactor


def judge(records: Sequence[CommandRecord], *, require: Sequence[Sequence[str]] = (), evicted: int = 0) -> Verdict:
    """Judge a session's records, oldest first; `evicted` says how many older ones are gone.

    It passes when every required command ran and no failure or null exit stands: one stands until a later record with
    the same argv and cwd, linked to it by `parent_command_id` directly or over further attempts, has succeeded.
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
    resolved = _resolved(records)
    failures = [record for record in records if not record.succeeded]
    refusals += [_refusal(record) for record in failures if record.command_id not in resolved]
    passed_over = [
        _passed_over(record, resolved[record.command_id]) for record in failures if record.command_id in resolved
    ]
    return Verdict(not refusals, refusals + passed_over)


def _shown(argv: Sequence[str]) -> tuple[str, ...]:
    """As it stands in a record."""
    return tuple(Redactor().argv(argv))


def _resolved(records: Sequence[CommandRecord]) -> dict[str, str]:
    """Failures by id, each with the id of the later linked success of the same argv and cwd."""
    place = {record.command_id: index for index, record in enumerate(records)}
    resolved: dict[str, str] = {}
    for index, success in enumerate(records):
        if not success.succeeded:
            continue
        seen = {success.command_id}
        parent = success.parent_command_id
        while parent is not None and parent in place and parent not in seen:
            seen.add(parent)
            before = records[place[parent]]
            if _same(before, success) and not before.succeeded and place[parent] < index:
                resolved.setdefault(parent, success.command_id)
            parent = before.parent_command_id
    return resolved


def _same(before: CommandRecord, success: CommandRecord) -> bool:
    """Whether both are attempts at one thing; of a command that was lost or never ran the directory is not known."""
    return before.command == success.command and before.cwd in (success.cwd, None)


def _refusal(record: CommandRecord) -> str:
    what = f"exited with {record.exit_code}" if record.may_advance else f"has no exit code ({record.error})"
    return f"{shlex.join(record.command)} {what}, and no linked retry has succeeded [{record.command_id}]"


def _passed_over(record: CommandRecord, by: str) -> str:
    how = f"exit {record.exit_code}" if record.may_advance else "null exit"
    return f"passed over: {shlex.join(record.command)} ({how}) [{record.command_id}], resolved by its retry [{by}]"
