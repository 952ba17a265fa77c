"""The commands that have no record yet: running, queued, or still waiting in the intake. Requirement C-77."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from tellback.contracts.commands import CommandSubmitted
from tellback.errors import NotFound
from tellback.names import Family
from tellback.redaction import Redactor
from tellback.state.database import Database
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.readable import names_of, read_each, readable, reply_of

JobState = Literal["running", "queued", "submitted"]

_FIELDS: Final = ("spec", "state", "since", "attempt", "host", "worker")
MAX_RUNNING: Final = 1_000  # of a shard in `running`; one runs on each process of a worker
_RANK: Final = ("running", "queued", "submitted")


class ListedJob(msgspec.Struct, frozen=True, kw_only=True):
    """One command. `since` is when it began to be so, the server's time in milliseconds; `submitted` is not listed."""

    command_id: str
    session: str
    state: JobState
    since: int | None
    attempt: int
    host: str | None
    worker: str | None
    timeout: float
    command: list[str]
    note: str | None
    submitted: CommandSubmitted


class JobListing:
    """The unfinished commands of one team."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def unfinished(self, session: str | None = None) -> list[ListedJob]:
        """Return the team's unfinished commands, or a session's: running ones first, each state oldest first."""
        shards = self._layout.all if session is None else (self._layout.of(session),)
        found: dict[str, ListedJob] = {}
        for shard in shards:
            # The intake first: a command that moves on while we read is then found where it went.
            for job in (*self._submitted(shard), *self._applied(shard)):
                if session in (None, job.session):
                    found[job.command_id] = job
        return sorted(found.values(), key=lambda job: (_RANK.index(job.state), job.since or 0))

    def running(self) -> list[ListedJob]:
        """Return the running commands of the team, the longest running first; at most 1,000 of each shard."""
        jobs = [job for shard in self._layout.all for job in self._jobs(shard, self._running(shard, MAX_RUNNING))]
        return sorted((job for job in jobs if job.state == "running"), key=lambda job: job.since or 0)

    def find(self, command_id: str) -> ListedJob:
        """Return one unfinished command.

        Raises:
            NotFound: it has ended, or nobody submitted it.
        """
        for job in self.unfinished():
            if job.command_id == command_id:
                return job
        raise NotFound(f"no unfinished command {command_id}; `tellback ps` shows what there is")

    def _submitted(self, shard: Shard) -> Iterator[ListedJob]:
        entries = self._db.command("XRANGE", stream_of(shard, Family.COMMANDS), "-", "+")
        raws = ((entry.decode(), fields[1]) for entry, fields in entries)
        found = list(readable("submission", raws, _submission))
        states = read_each(self._db, [("HGET", shard.key("job", each.command_id), "state") for _, each in found])
        for (entry, submitted), state in zip(found, states, strict=True):
            if state != b"done":  # cancelled before it was applied, it has its record already
                yield _listed(submitted, "submitted", {"since": int(entry.partition("-")[0])})

    def _applied(self, shard: Shard) -> Iterator[ListedJob]:
        pools = names_of("pool", self._db.command("ZRANGE", shard.key("pools"), 0, -1))
        queues = self._db.pipeline([("ZRANGE", shard.key("jobs", pool), 0, -1) for pool in pools])
        queued = [member.partition(":")[2] for queue in queues for member in names_of("command", queue)]
        yield from self._jobs(shard, [*queued, *self._running(shard)])

    def _running(self, shard: Shard, limit: int = 0) -> list[str]:
        return names_of("command", self._db.command("ZRANGE", shard.key("running"), 0, limit - 1))

    def _jobs(self, shard: Shard, ids: list[str]) -> Iterator[ListedJob]:
        jobs = read_each(self._db, [("HMGET", shard.key("job", id_), *_FIELDS) for id_ in ids])
        yield from (job for job in readable("command", jobs, _job) if job is not None)


def _submission(item: tuple[str, bytes]) -> tuple[str, CommandSubmitted]:
    entry, raw = item
    return entry, msgspec.json.decode(raw, type=CommandSubmitted)


def _job(values: list[bytes | None] | Exception) -> ListedJob | None:
    spec, *rest = reply_of(values)
    if spec is None:  # it has ended meanwhile
        return None
    texts = {name: value.decode() for name, value in zip(_FIELDS[1:], rest, strict=True) if value is not None}
    state: JobState = "running" if texts.get("state") == "running" else "queued"
    return _listed(msgspec.json.decode(spec, type=CommandSubmitted), state, texts)


def _listed(submitted: CommandSubmitted, state: JobState, known: dict[str, Any]) -> ListedJob:
    since = known.get("since")
    redactor = Redactor()
    return ListedJob(
        command_id=submitted.command_id,
        session=submitted.session,
        state=state,
        since=None if since is None else int(since),
        attempt=int(known.get("attempt", 1)),
        host=known.get("host") or submitted.host,
        worker=known.get("worker"),
        timeout=submitted.timeout,
        command=redactor.argv(submitted.argv),
        note=None if submitted.note is None else redactor.text(submitted.note),
        submitted=submitted,
    )
