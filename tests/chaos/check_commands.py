"""Invariants 1 and 2: one record a command, no attempt beside another, and no success claimed on a null exit."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from tellback.contracts.commands import CommandRecord
from tests.chaos.end_state import EndState
from tests.chaos.story import Story, Submission
from tests.chaos.verdict import ChaosVerdict

ATTEMPTS: Final = 3


def check_records(story: Story, end: EndState, victims: int) -> ChaosVerdict:
    """Check that each accepted command has one record, and that only `victims` of workers' deaths lost theirs."""
    verdict = ChaosVerdict(1, "one record a command; no attempt beside another")
    records = [record for found in end.records.values() for record in found]
    parents = {record.command_id: record.parent_command_id for record in records}
    for command_id, count in Counter(record.command_id for record in records).items():
        verdict.expect(count == 1, f"{command_id} has {count} records")
    for submitted in story.submissions.values():
        if submitted.certain:
            verdict.expect(submitted.command_id in parents, f"{submitted.label} ({submitted.command_id}) has no record")
    for command_id in end.superseded:
        verdict.expect(command_id in parents, f"{command_id} is superseded by nothing")
    known = {submitted.command_id for submitted in story.submissions.values()}
    unknown = [id_ for id_, parent in parents.items() if id_ not in known and parent not in parents]
    anonymous = sum(not submitted.command_id for submitted in story.submissions.values())
    verdict.expect(len(unknown) <= anonymous, f"records of commands that nobody submitted: {unknown}")
    lost = sum((record.error or "").startswith("lost:") for record in records)
    verdict.expect(lost <= victims, f"{lost} commands were lost, and faults hit {victims}")
    verdict.note = f"{len(records)} records, {lost} lost of at most {victims}"
    _check_runs(story, end, records, verdict)
    return verdict


def _check_runs(story: Story, end: EndState, records: list[CommandRecord], verdict: ChaosVerdict) -> None:
    """Check the lines that commands wrote: each process' lines are together, and few processes ran each command."""
    processes: dict[str, list[str]] = defaultdict(list)
    for label, process in end.runs:
        ran = processes[label]
        if not ran or ran[-1] != process:
            verdict.expect(process not in ran, f"{label}: two attempts ran at the same time")
            ran.append(process)
    attempts = Counter(_label(record) for record in records)
    for label, submitted in story.submissions.items():
        times, most = len(set(processes.get(label, ()))), ATTEMPTS if submitted.on_lost == "retry" else 1
        verdict.expect(times <= most, f"{label} ran {times} times, on_lost={submitted.on_lost}")
        verdict.expect(attempts[label] <= most, f"{label} has {attempts[label]} attempts")
    for record in records:
        known = story.submissions.get(_label(record))
        if known is not None:
            _check_record(record, known, len(processes.get(known.label, ())), verdict)


def _check_record(record: CommandRecord, submitted: Submission, ran: int, verdict: ChaosVerdict) -> None:
    what = f"{submitted.label}: exit {record.exit_code}, error {record.error!r}"
    if record.exit_code is None:
        verdict.expect(record.error, f"{what}: a null exit says why")
    elif not record.signal:
        verdict.expect(ran and record.exit_code == submitted.code, f"{what}: ran {ran} times to {submitted.code}")


def _label(record: CommandRecord) -> str:
    return record.command[3] if len(record.command) > 3 else ""


def check_null_exits(_: Story, end: EndState) -> ChaosVerdict:
    """Check that no null exit counts as a success, for the record itself and for the gate of its session."""
    verdict = ChaosVerdict(2, "no success on a null exit")
    for session, records in end.records.items():
        for record in records:
            verdict.expect(
                record.exit_code is not None or not (record.may_advance or record.succeeded),
                f"{record.command_id} may advance on a null exit",
            )
        unresolved = [
            record.command_id for record in records if record.exit_code is None and not _cleared(record, records)
        ]
        verdict.expect(not (unresolved and end.passed.get(session)), f"the gate of {session} passes over {unresolved}")
    verdict.note = f"{sum(r.exit_code is None for found in end.records.values() for r in found)} null exits"
    return verdict


def _cleared(record: CommandRecord, records: list[CommandRecord]) -> bool:
    """Tell if a later attempt of this command succeeded."""
    children = [each for each in records if each.parent_command_id == record.command_id]
    return any(child.exit_code == 0 or _cleared(child, records) for child in children)
