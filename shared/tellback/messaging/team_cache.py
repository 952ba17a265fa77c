"""A host's cache of a team's identity in each Redis: the shards and the spool's folders are known during an outage.

Standard library only, since `tellback hook` reads it with every tool call.
"""

from __future__ import annotations

import json
import zlib
from _blake2 import blake2b  # what hashlib gives, without loading OpenSSL
from typing import Any, Final, cast

from tellback.light_struct import LightStruct
from tellback.names import MAX_SHARDS, TEAM_ID_PATTERN
from tellback.small_files import file_names, read_file, write_file
from tellback.urls import without_secrets

MAX_FORMER_IDS: Final = 5

SPOOL: Final = "spool"  # the folder, in the data directory, with one for each team

SUFFIX: Final = ".spool"


class TeamIdentity(LightStruct):
    """A team as stored in one Redis; `former_ids` are its ids from before that Redis lost its data."""

    shards: int
    id: str
    former_ids: tuple[str, ...] = ()

    def updated(self, shards: int, id_: str) -> TeamIdentity:
        """Return the identity with Redis's current values; a changed id joins the former ones."""
        return TeamIdentity(
            shards, id_, self.former_ids if self.id == id_ else (self.id, *self.former_ids)[:MAX_FORMER_IDS]
        )


class SpoolLocation(LightStruct):
    """The folders of a team's spooled events for one Redis: `team`/`origin`/FAMILY.SHARD.

    `origin` identifies the Redis, so events for different servers never mix. `other_origins` are folders whose events
    are for the same Redis: from processes that had not reached it yet, or from before it lost its data. `shards` limits
    the streams that may be written to.
    """

    team: str
    origin: str
    other_origins: tuple[str, ...] = ()
    shards: int = MAX_SHARDS

    def folders(self, name: str) -> tuple[str, ...]:
        """Return the folder of a stream's spool, then those of the other origins."""
        return tuple(f"{self.team}/{origin}/{name}" for origin in (self.origin, *self.other_origins))

    def names(self, family: str) -> list[str]:
        """Return the names of a family's spools that have a folder: one per stream, and one without a shard."""
        origins = (f"{self.team}/{origin}" for origin in (self.origin, *self.other_origins))
        return sorted({name for origin in origins for name in file_names(origin) if name.partition(".")[0] == family})

    def with_files(self, family: str) -> list[str]:
        """Return the names of a family's spools that contain a file of any process."""
        return [name for name in self.names(family) if any(map(_has_file, self.folders(name)))]


def spool_name(stream: str) -> str:
    """Return the folder name of a stream's spool, FAMILY.SHARD; one each, so a full stream delays no other."""
    shard, _, family = stream.partition(".")[2].partition("}:in:")
    return f"{family}.{shard}"


def _has_file(folder: str) -> bool:
    return any(name.endswith(SUFFIX) for name in file_names(folder))


class TeamCache:
    """The cached identity of one team in the Redis at one URL, in a file of this host's data directory."""

    def __init__(self, data: str, team: str, url: str) -> None:
        # Without the password: a hash of it would be in the file's name, and a new password would orphan the spool.
        name = blake2b(without_secrets(url).encode("utf-8", "replace"), digest_size=8).hexdigest()
        self._unseen_origin = f"url-{name}"
        self._path = f"{data}/teams/{team}/{self._unseen_origin}.json"
        self._spool = f"{data}/{SPOOL}/{team}"

    def read(self) -> TeamIdentity | None:
        """Return the cached identity; None if there is none, or if it is damaged."""
        try:
            sum_, _, body = read_file(self._path).partition(b"\n")
            if sum_ != _sum(body):  # a wrong number of shards would send events astray, and a new Redis would adopt it
                return None
            found = cast("dict[str, Any]", json.loads(body))
            identity = TeamIdentity(found["shards"], found["id"], tuple(found["former_ids"]))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        valid = type(identity.shards) is int and 1 <= identity.shards <= MAX_SHARDS
        return identity if valid and all(_is_id(name) for name in (identity.id, *identity.former_ids)) else None

    def write(self, identity: TeamIdentity) -> None:
        """Store an identity.

        Raises:
            OSError: the folder cannot be written.
        """
        fields = {"shards": identity.shards, "id": identity.id, "former_ids": identity.former_ids}
        body = json.dumps(fields).encode()
        write_file(self._path, _sum(body) + b"\n" + body)

    def spool_location(self, identity: TeamIdentity | None) -> SpoolLocation:
        """Return the location of the spool for this Redis.

        For a Redis that was never reached it is named after the URL; the next process that reaches it sends the events.
        """
        if identity is None:
            return SpoolLocation(self._spool, self._unseen_origin)
        return SpoolLocation(self._spool, identity.id, (self._unseen_origin, *identity.former_ids), identity.shards)


def _sum(body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(body)


def _is_id(name: object) -> bool:
    return isinstance(name, str) and TEAM_ID_PATTERN.fullmatch(name) is not None
