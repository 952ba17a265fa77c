"""What a host remembers of each Redis, so that it knows the team's shards and its own spool while Redis is away.

The standard library alone: `tellback hook` reads and writes it with each of a tool's calls.
"""

from __future__ import annotations

import json
import os
from _blake2 import blake2b  # what hashlib gives, without loading OpenSSL
from typing import Any, Final, NamedTuple, cast

from tellback.urls import without_secrets

WAS_MAX: Final = 5


class Known(NamedTuple):
    """A team as one Redis has it; `was` names it before that Redis lost its data."""

    shards: int
    id: str
    was: tuple[str, ...] = ()

    def renewed(self, shards: int, id_: str) -> Known:
        """The team as the Redis has it now."""
        return Known(shards, id_, self.was if self.id == id_ else (self.id, *self.was)[:WAS_MAX])


class SpoolPlace(NamedTuple):
    """Where a team's facts for one Redis wait: `team`/`origin`/FAMILY. Facts for another Redis never mix with them.

    `origin` names the Redis. `others` are further origins whose facts are for it: kept by processes that had not yet
    reached it, or before it lost its data.
    """

    team: str
    origin: str
    others: tuple[str, ...] = ()

    def folders(self, family: str) -> tuple[str, ...]:
        """The folder of a family, then the others."""
        return tuple(os.path.join(self.team, origin, family) for origin in (self.origin, *self.others))  # noqa: PTH118 - a path without pathlib


class HostMemory:
    """What is known of one team in the Redis at one URL, in a file of this host's data directory."""

    def __init__(self, data: str, team: str, url: str) -> None:
        """Take the data directory, the team, and the URL, whose password stays out of every name."""
        name = blake2b(without_secrets(url).encode("utf-8", "replace"), digest_size=8).hexdigest()
        self._unseen = f"url-{name}"
        self._path = os.path.join(data, "teams", team, f"{self._unseen}.json")  # noqa: PTH118 - as above
        self._spool = os.path.join(data, "spool", team)  # noqa: PTH118 - as above

    def read(self) -> Known | None:
        """What was kept; None where nothing was, or nothing that makes sense."""
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123 - as above
                found = cast("dict[str, Any]", json.loads(file.read()))
            known = Known(found["shards"], found["id"], tuple(found["was"]))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        sound = type(known.shards) is int and 1 <= known.shards <= 1024
        return known if sound and all(_is_name(name) for name in (known.id, *known.was)) else None

    def write(self, known: Known) -> None:
        """Keep it.

        Raises:
            OSError: the folder cannot be written.
        """
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120 - as above
        draft = f"{self._path}.{os.getpid()}"
        with open(draft, "wb") as file:  # noqa: PTH123 - as above
            file.write(json.dumps(known._asdict()).encode())
        os.replace(draft, self._path)  # noqa: PTH105 - as above

    def place(self, known: Known | None) -> SpoolPlace:
        """Where facts for this Redis are spooled.

        For one never reached that is a place named by its URL, which the next process to reach it empties.
        """
        if known is None:
            return SpoolPlace(self._spool, self._unseen)
        return SpoolPlace(self._spool, known.id, (self._unseen, *known.was))


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isalnum()  # it becomes a folder's
