"""Known holes in the Lua of Redis and Valkey, by the versions that mend them. Requirement A-113.

Who may run a script, as every worker and operator may, can run code as the server's user through the holes of October
2025. The versions are those of the projects' own release notes. A distribution may mend a hole and keep the number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Server = Literal["Redis", "Valkey"]
Version = tuple[int, ...]


class Hole(NamedTuple):
    """A hole: its names, and the first mended version of each release line; later lines never had it."""

    names: str
    mended: Mapping[Server, tuple[Version, ...]]
    replicas_only: bool = False


HOLES: Final = (
    Hole(
        "CVE-2025-49844, CVE-2025-46817, CVE-2025-46818 and CVE-2025-46819",
        {
            "Redis": ((7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)),
            "Valkey": ((7, 2, 11), (8, 0, 6), (8, 1, 4)),
        },
    ),
    Hole("CVE-2025-67733", {"Valkey": ((7, 2, 12), (8, 0, 7), (8, 1, 6), (9, 0, 2))}),
    Hole(
        "CVE-2026-23631",
        {"Redis": ((7, 2, 14), (7, 4, 9), (8, 2, 6), (8, 4, 3), (8, 6, 3))},
        replicas_only=True,  # it takes a replica that can be made writable
    ),
)


class KnownHoles(NamedTuple):
    """The holes of a server, and the version that mends them all; None if its release line is not mended any more."""

    names: tuple[str, ...]
    upgrade: Version | None


def holes_of(server: Server, version: Version, *, replicates: bool) -> KnownHoles:
    """Return the known holes of a version; `replicates`: the server has a replica or is one."""
    found = [
        (hole.names, _mended_in(hole.mended[server], version))
        for hole in HOLES
        if server in hole.mended and (replicates or not hole.replicas_only)
        if _has(hole.mended[server], version)
    ]
    fixes = [fix for _, fix in found]
    known = [fix for fix in fixes if fix is not None]
    return KnownHoles(tuple(names for names, _ in found), max(known) if known and len(known) == len(fixes) else None)


def _mended_in(mended: tuple[Version, ...], version: Version) -> Version | None:
    return next((fix for fix in mended if fix[:2] == version[:2]), None)


def _has(mended: tuple[Version, ...], version: Version) -> bool:
    fix = _mended_in(mended, version)
    return version < fix if fix is not None else version < mended[-1]
