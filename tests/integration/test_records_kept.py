"""Records that a session keeps when it has more than its cap."""

from __future__ import annotations

import msgspec
import pytest

from tellback.commands.gate import build_chains
from tellback.commands.record import record_without_run
from tellback.contracts.commands import CommandRecord
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import Jobs
from tellback.state.keys import Layout
from tellback.state.records import CAP, Records
from tests.support.jobs import CommandQueue

SPARED = 50


class Session:
    """A session `s` whose commands end as the test says."""

    def __init__(self, database: Database) -> None:
        layout = Layout("default", 1)
        self._jobs = Jobs(database, layout)
        self._queue = CommandQueue(database, layout)
        self._records = Records(database, layout)

    def end(self, id_: str, exit_code: int | None, parent: str | None = None, text: str = "") -> None:
        """Submit, lease and finish one command."""
        self._queue.put("s", id_, parent=parent)
        lease = self._jobs.lease(JobClaimant(ANY_POOL, seconds=60, worker="w", host="h"))
        assert lease is not None
        record = record_without_run(lease.submitted, "lost")
        error = "lost" if exit_code is None else None
        record = msgspec.structs.replace(record, exit_code=exit_code, error=error, cwd="/", stdout_tail=text)
        assert self._jobs.finish(lease, record)

    def kept(self) -> tuple[list[CommandRecord], int]:
        return self._records.all("s")


@pytest.fixture
def session(database: Database) -> Session:
    return Session(database)


def test_failures_and_their_retries_outlive_the_cap(session: Session) -> None:
    """Failures and the records that resolve them stay, in order; other successes go, oldest first."""
    session.end("unresolved", 1)
    session.end("lost", None)
    session.end("repaired", 2)
    session.end("retry", 0, parent="repaired")
    for number in range(CAP + 20):
        session.end(f"n{number}", 0)
    kept, gone = session.kept()
    assert (len(kept), gone) == (CAP, 24)
    ids = [record.command_id for record in kept]
    assert ids == ["unresolved", "lost", "repaired", "retry", *(f"n{number}" for number in range(24, CAP + 20))]
    unresolved = [record.command_id for chain in build_chains(kept) for record in chain.unresolved]
    assert unresolved == ["unresolved", "lost"]


def test_a_success_cannot_pass_for_a_failure_nor_the_other_way(session: Session) -> None:
    """The output may contain what looks like another record's fields."""
    session.end("failure", 1, text='"exit_code":0,"parent_command_id":null,')
    session.end("success", 0, text='"exit_code":1,"parent_command_id":"x",')
    for number in range(CAP):
        session.end(f"n{number}", 0)
    ids = [record.command_id for record in session.kept()[0]]
    assert ids[:2] == ["failure", "n1"]


def test_failures_alone_do_not_fill_the_session(session: Session) -> None:
    """Fifty are spared; then the oldest goes, so that what is new is always kept."""
    for number in range(SPARED + 5):
        session.end(f"f{number}", 1)
    for number in range(CAP):
        session.end(f"n{number}", 0)
    kept, gone = session.kept()
    ids = [record.command_id for record in kept]
    assert (len(kept), gone) == (CAP, SPARED + 5)
    assert ids[:SPARED] == [f"f{number}" for number in range(5, SPARED + 5)]
    assert ids[-1] == f"n{CAP - 1}"
