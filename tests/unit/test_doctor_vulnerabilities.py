"""Known vulnerabilities in the Lua of Redis and Valkey, as `tellback doctor` finds them. Requirement A-113."""

from __future__ import annotations

import pytest

from tellback.doctor import servers
from tellback.doctor.vulnerabilities import Server, Version, vulnerabilities_of

OCTOBER = "CVE-2025-49844, CVE-2025-46817, CVE-2025-46818 and CVE-2025-46819"
ERROR_REPLY = "CVE-2025-67733"
REPLICAS = "CVE-2026-23631"


@pytest.mark.parametrize(
    ("server", "version", "replicates", "names", "upgrade"),
    [
        ("Redis", (7, 2, 10), False, (OCTOBER,), (7, 2, 11)),
        ("Redis", (7, 2, 11), False, (), None),
        ("Redis", (7, 4, 5), False, (OCTOBER,), (7, 4, 6)),
        ("Redis", (7, 4, 9), True, (), None),
        ("Redis", (8, 0, 3), False, (OCTOBER,), (8, 0, 4)),
        ("Redis", (8, 0, 5), True, (REPLICAS,), None),  # 8.0 ended before
        ("Redis", (8, 2, 1), True, (OCTOBER, REPLICAS), (8, 2, 6)),
        ("Redis", (8, 2, 3), False, (), None),
        ("Redis", (8, 2, 3), True, (REPLICAS,), (8, 2, 6)),
        ("Redis", (8, 6, 3), True, (), None),
        ("Redis", (8, 8, 0), True, (), None),
        ("Redis", (7, 0, 15), False, (OCTOBER,), None),
        ("Valkey", (7, 2, 11), False, (ERROR_REPLY,), (7, 2, 12)),
        ("Valkey", (8, 0, 5), False, (OCTOBER, ERROR_REPLY), (8, 0, 7)),
        ("Valkey", (8, 1, 4), False, (ERROR_REPLY,), (8, 1, 6)),
        ("Valkey", (7, 2, 12), True, (REPLICAS,), (7, 2, 13)),
        ("Valkey", (8, 0, 7), True, (REPLICAS,), (8, 0, 9)),
        ("Valkey", (8, 0, 8), True, (REPLICAS,), (8, 0, 9)),  # revoked: its tag was on another branch
        ("Valkey", (8, 1, 5), True, (ERROR_REPLY, REPLICAS), (8, 1, 7)),
        ("Valkey", (8, 1, 6), False, (), None),
        ("Valkey", (8, 1, 8), True, (), None),
        ("Valkey", (9, 0, 2), False, (ERROR_REPLY,), (9, 0, 3)),
        ("Valkey", (9, 0, 3), True, (REPLICAS,), (9, 0, 4)),
        ("Valkey", (9, 1, 0), True, (), None),
    ],
)
def test_each_version_has_the_vulnerabilities_that_its_release_notes_fix_later(
    server: Server, version: Version, *, replicates: bool, names: tuple[str, ...], upgrade: Version | None
) -> None:
    assert vulnerabilities_of(server, version, replicates=replicates) == (names, upgrade)


@pytest.mark.parametrize(
    ("info", "state", "advice"),
    [
        ({"redis_version": "8.2.3", "role": "master", "connected_slaves": "0"}, "ok", ""),
        ({"redis_version": "8.2.3", "role": "slave"}, "wrong", "upgrade to 8.2.6 or newer"),
        ({"redis_version": "8.2.3", "role": "master", "connected_slaves": "1"}, "wrong", "upgrade to 8.2.6 or newer"),
        ({"redis_version": "7.4.2"}, "wrong", "upgrade to 7.4.6 or newer"),
        ({"redis_version": "8.0.5", "role": "slave"}, "wrong", "upgrade to a release line that is still maintained"),
        ({"redis_version": "7.0.15"}, "note", "unless your distribution says that its package is fixed"),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.3"}, "wrong", "upgrade to 8.1.6 or newer"),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.8"}, "ok", ""),
    ],
)
def test_the_finding_says_what_to_do(info: dict[str, str], state: str, advice: str) -> None:
    finding = servers._check_scripts(info)
    assert finding.state == state
    assert advice in finding.advice


def test_each_release_among_the_nodes_has_its_own_upgrade() -> None:
    """Of mixed nodes, the advice named the fix of one release line for all."""
    nodes = {"a:1": "8.2.1", "b:1": "7.4.2", "c:1": "8.2.1", "d:1": "8.6.3"}
    worst = servers._worst([(place, servers._check_scripts({"redis_version": each})) for place, each in nodes.items()])
    assert "upgrade to 8.2.2 or newer (a:1, c:1)" in worst.advice
    assert "upgrade to 7.4.6 or newer (b:1)" in worst.advice
    assert "d:1" not in worst.found + worst.advice
