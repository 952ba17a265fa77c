"""Hosts that the tests make go away, also when the test process is killed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.namespaces import PREFIX, ROOT, existing, network, remove_left, require_namespaces
from tests.support.processes import run_program

pytestmark = pytest.mark.faults

DIES = """
import subprocess
import sys
from tests.support.namespaces import network

with network("one", "two") as net:
    subprocess.Popen([*net.on("two"), "sleep", "600"])
    print("made", flush=True)
    sys.stdin.read()
"""


def test_a_killed_run_leaves_nothing_to_the_next_and_a_live_one_keeps_its_hosts() -> None:
    require_namespaces()
    command = [sys.executable, "-c", DIES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"made\n"
        names = [name for name in existing() if name.startswith(f"{PREFIX}-{process.pid}-")]
        assert len(names) == 3
        remove_left()
        assert set(names) <= set(existing()), "its process lives"
        process.kill()
        process.wait()
        remove_left()
    assert not set(names) & set(existing())


def test_a_host_that_is_cut_off_is_reached_by_nobody_until_it_is_healed() -> None:
    with network("one", "two") as net:
        assert _reaches(net.on("two"), net.address("one"))
        net.cut("one")
        assert not _reaches(net.on("two"), net.address("one"))
        net.heal("one")
        assert _reaches(net.on("two"), net.address("one"))
        with net.lossy("two", 1.0, 0.0) as counts:
            assert not _reaches(net.on("two"), net.address("one"))
        assert counts[0] > 0
        assert counts[1] == 0


def _reaches(on: list[str], address: str) -> bool:
    """Check whether the host answers at all: it refuses the connection, since nobody listens there."""
    ask = f"import socket; socket.create_connection(({address!r}, 9), timeout=2)"
    done = run_program([*on, sys.executable, "-c", ask])
    return "ConnectionRefusedError" in done.stderr
