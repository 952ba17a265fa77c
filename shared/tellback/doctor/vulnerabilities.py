"""Known vulnerabilities in the Lua of Redis and Valkey, by the versions that fix them. Requirement A-113.

Whoever may run a script, as every worker and operator may, can run code as the server's user through those of October
2025. The versions are those of the projects' own release notes. A distribution may fix one and keep the number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Server = Literal["Redis", "Valkey"]
Version = tuple[int, ...]


class Vulnerability(NamedTuple):
    """A vulnerability: its names, and the first fixed version of each release line; later lines never had it."""

    names: str
    fixed: Mapping[Server, tuple[Version, ...]]
    replicas_only: bool = False


# Where the versions were found. October 2025 in Redis: pull requests 2211 of redis/docs and 478 of
# redis/docker-library-redis; in Valkey: issue 2704 of valkey-io/valkey. CVE-2025-67733: CVE records say 9.0.2, but only
# the notes of 9.0.3 name it. CVE-2026-23631 in Redis: GHSA-8ghh-qpmp-7826 and pull request 3292 of redis/docs; in
# Valkey: pull requests 3631 to 3634 and, since 8.0.8 was revoked, 3639; 9.1.0 never had it.
VULNERABILITIES: Final = (
    Vulnerability(
        "CVE-2025-49844, CVE-2025-46817, CVE-2025-46818 and CVE-2025-46819",
        {
            "Redis": ((7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)),
            "Valkey": ((7, 2, 11), (8, 0, 6), (8, 1, 4)),
        },
    ),
    Vulnerability("CVE-2025-67733", {"Valkey": ((7, 2, 12), (8, 0, 7), (8, 1, 6), (9, 0, 3))}),
    Vulnerability(
        "CVE-2026-23631",
        {
            "Redis": ((7, 2, 14), (7, 4, 9), (8, 2, 6), (8, 4, 3), (8, 6, 3)),
            "Valkey": ((7, 2, 13), (8, 0, 9), (8, 1, 7), (9, 0, 4)),
        },
        replicas_only=True,  # it takes a replica that can be made writable
    ),
)


class KnownVulnerabilities(NamedTuple):
    """The vulnerabilities of a server, and the version that fixes all; None if its release line gets no more fixes."""

    names: tuple[str, ...]
    upgrade: Version | None


def vulnerabilities_of(server: Server, version: Version, *, replicates: bool) -> KnownVulnerabilities:
    """Return the known vulnerabilities of a version; `replicates`: the server has a replica or is one."""
    found = [
        (vulnerability.names, _fixed_in(vulnerability.fixed[server], version))
        for vulnerability in VULNERABILITIES
        if server in vulnerability.fixed and (replicates or not vulnerability.replicas_only)
        if _has(vulnerability.fixed[server], version)
    ]
    fixes = [fix for _, fix in found]
    known = [fix for fix in fixes if fix is not None]
    return KnownVulnerabilities(
        tuple(names for names, _ in found), max(known) if known and len(known) == len(fixes) else None
    )


def _fixed_in(fixed: tuple[Version, ...], version: Version) -> Version | None:
    return next((fix for fix in fixed if fix[:2] == version[:2]), None)


def _has(fixed: tuple[Version, ...], version: Version) -> bool:
    fix = _fixed_in(fixed, version)
    return version < fix if fix is not None else version < fixed[-1]
