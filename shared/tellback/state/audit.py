"""The audit log: every act of a person on the system, with who did it and why. Requirement C-76.

An entry is written by the script that does the act, so there is no act without its entry, and no entry without the act.
It is in the shard of what it acted on. Acts that no script of their own does, which are a replay of transcripts, its
undoing and the creation of a team, are written before they begin, to the team's first shard. The removal of a team
deletes that team's log, so its entry is in the log of the fleet.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, Self

import msgspec

from tellback.contracts.limits import MAX_COMMAND_NOTE_CHARS, MAX_NAME_CHARS
from tellback.errors import InvalidInput
from tellback.redaction import redact_text
from tellback.state.database import Database, WrongType
from tellback.state.decisions import decide
from tellback.state.keys import FLEET, Layout, Shard
from tellback.state.quarantine import quarantine_fleet_keys
from tellback.state.readable import readable
from tellback.state.scripts import common as scripts

MAX_PHRASE_CHARS: Final = MAX_NAME_CHARS + MAX_COMMAND_NOTE_CHARS + len("by : ")
"""Of `Author.phrase`; a host may write a longer one into its team's keys by itself."""

Act = Literal["cancel", "waive", "replay", "undo", "drop", "create", "limit", "suspend", "resume", "remove"]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One action: `at` is the server's time in milliseconds, `target` the id of what it acted on."""

    at: int
    act: str
    target: str
    by: str
    reason: str = ""
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Author:
    """The person who acts, and the reason; both redacted, in one line."""

    by: str
    reason: str

    @classmethod
    def of(cls, by: str = "", reason: str = "") -> Self:
        """Return the author; without a name it is this process's user and host.

        Raises:
            InvalidInput: one of them is not text, or is too long.
        """
        return cls(
            _one_line("by", by or system_user(), MAX_NAME_CHARS), _one_line("reason", reason, MAX_COMMAND_NOTE_CHARS)
        )

    @property
    def phrase(self) -> str:
        """The author and the reason, as a record names them: `by alice: wrong branch`."""
        return f"by {self.by}: {self.reason}" if self.reason else f"by {self.by}"

    def entry(self, act: Act, target: str, session: str | None = None) -> bytes:
        """Return the entry of one action as the scripts expect it: JSON without its first brace and time."""
        fields = {"act": act, "target": target, "by": self.by, "reason": self.reason, "session": session}
        return msgspec.json.encode(fields)[1:]


def _one_line(name: str, given: object, limit: int) -> str:
    if not isinstance(given, str):
        raise InvalidInput(f"{name} is {given!r}; give a text")
    # An argument of the command line that is not UTF-8 has surrogates, which JSON cannot hold.
    text = redact_text(" ".join(given.encode("utf-8", "replace").decode().split()))
    if len(text) > limit:
        raise InvalidInput(f"{name} has {len(text)} characters; use at most {limit}")
    return text


def system_user() -> str:
    """Return `user@host` of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # containers run as ids without a name
        user = f"uid-{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def log_removal(database: Database, author: Author, team: str) -> None:
    """Write the entry of the removal of a team, before it begins.

    Raises:
        Unavailable: Redis is unavailable.
    """
    call = scripts.log_act(shard=FLEET, entry=author.entry("remove", team))
    try:
        decide(database, FLEET, call)
    except WrongType:  # somebody changed the log by hand; no worker reads it, so none would rename it
        quarantine_fleet_keys(database)
        decide(database, FLEET, call)


def log_act(database: Database, layout: Layout, author: Author, act: Act, target: str) -> None:
    """Write the entry of an act that no one script does, before it begins.

    Raises:
        Unavailable: Redis is unavailable.
    """
    first = layout.shard(0)
    decide(database, first, scripts.log_act(shard=first, entry=author.entry(act, target)))


_decoder: Final = msgspec.json.Decoder(AuditEntry)


def newest_actions(database: Database, layout: Layout, limit: int, session: str | None = None) -> list[AuditEntry]:
    """Return the newest entries of a team's audit log, or of one session, oldest first."""
    shards = layout.all if session is None else (layout.of(session),)
    return _newest(database, shards, limit, session)


def removed_teams(database: Database, limit: int) -> list[AuditEntry]:
    """Return the newest removals of teams, oldest first."""
    return _newest(database, (FLEET,), limit)


def _newest(database: Database, shards: Iterable[Shard], limit: int, session: str | None = None) -> list[AuditEntry]:
    count = limit if session is None else 0  # 0 is the whole list: other sessions share it
    replies = database.pipeline([("LRANGE", shard.key("audit"), -count, -1) for shard in shards])
    entries = readable("audit entry", (raw for items in replies for raw in items), _decoder.decode)
    found = [entry for entry in entries if session in (None, entry.session)]
    return sorted(found, key=lambda entry: entry.at)[-limit:]
