"""Hosts of their own for tests: Linux network namespaces on one switch, which is a bridge in a namespace too.

Each host has one interface, `eth0`. A host is cut off by taking the switch's end of its cable down: no connection is
closed, and what either side sends is lost, as when a cable is pulled. The test itself reaches one host by a cable that
is never cut, to count what is there. The names carry the test process's id and start, so that a later run knows what a
killed one left.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.conftest import CI
from tests.support.processes import run_program
from tests.support.waiting import wait_until

ROOT: Final = Path(__file__).resolve().parents[2]
PREFIX: Final = "tellback-test"
SWITCH: Final = "switch"
NEEDED: Final = (1 << 12) | (1 << 21)
"""CAP_NET_ADMIN makes interfaces, CAP_SYS_ADMIN namespaces."""
CABLES: Final = 1 << 14
"""Pairs of addresses in 198.18.0.0/16, a range that is for tests of networks and that no network has."""


def require_namespaces() -> None:
    """Skip the test on a machine where namespaces cannot be made; in CI, one that has the right must have `ip`."""
    if not sys.platform.startswith("linux"):
        pytest.skip("network namespaces are Linux's")
    status = Path("/proc/self/status").read_text(encoding="ascii")
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    if effective & NEEDED != NEEDED:
        pytest.skip("no right to make network namespaces: that takes CAP_NET_ADMIN and CAP_SYS_ADMIN")
    if shutil.which("ip") is None:
        (pytest.fail if CI else pytest.skip)("no `ip`: install Debian's iproute2")


def ip(*words: str) -> str:
    """Run `ip`, which has to succeed."""
    done = run_program(["ip", *words])
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr.strip()}"
    return done.stdout


class HostNetwork:
    """Some hosts by name, each with the address 192.0.2.N of its place."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self.hosts = list(hosts)
        self._mine = f"{PREFIX}-{os.getpid()}-{_started(os.getpid())}"
        place = os.getpid() % CABLES * 4
        self._outside, self.observed = (f"198.18.{(place + n) // 256}.{(place + n) % 256}" for n in (1, 2))
        """The address of the first host by the cable that is never cut."""

    def build(self) -> None:
        """Make everything; what exists already is an error."""
        ip("netns", "add", self._name(SWITCH))
        self._in(SWITCH, "link", "add", "bridge", "type", "bridge")
        self._in(SWITCH, "link", "set", "bridge", "up")
        for host in self.hosts:
            ip("netns", "add", self._name(host))
            self._in(host, "link", "add", "eth0", "type", "veth", "peer", "name", host, "netns", self._name(SWITCH))
            self._in(SWITCH, "link", "set", host, "master", "bridge", "up")
            self._in(host, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            self._in(host, "link", "set", "eth0", "up")
            self._in(host, "link", "set", "lo", "up")
        first, cable = self.hosts[0], f"tb{os.getpid()}"
        self._in(first, "link", "add", "observer", "type", "veth", "peer", "name", cable, "netns", str(os.getpid()))
        self._in(first, "address", "add", f"{self.observed}/30", "dev", "observer")
        self._in(first, "link", "set", "observer", "up")
        ip("address", "add", f"{self._outside}/30", "dev", cable)
        ip("link", "set", cable, "up")

    def address(self, host: str) -> str:
        """Return the address of a host, as the others reach it."""
        return f"192.0.2.{self.hosts.index(host) + 1}"

    def on(self, host: str) -> list[str]:
        """Return the words before a command that is to run on a host; the process is the command itself."""
        return ["ip", "netns", "exec", self._name(host)]

    def cut(self, host: str) -> None:
        """Let nothing through to or from a host."""
        self._in(SWITCH, "link", "set", host, "down")

    def heal(self, host: str) -> None:
        """Let everything through again."""
        self._in(SWITCH, "link", "set", host, "up")

    @contextmanager
    def lossy(self, host: str, loss: float, delay_ms: float) -> Generator[list[int]]:
        """Have a host's cable lose this share of all packets and delay the others; at the end, how many of each.

        The kernel's own `netem` would do, but few kernels of virtual machines have it; see `lossy_cable`.
        """
        far, near = f"{host}-far", f"{host}-near"
        self._in(SWITCH, "link", "add", far, "type", "veth", "peer", "name", near)
        self._in(SWITCH, "link", "set", far, "master", "bridge", "up")
        self._in(SWITCH, "link", "set", near, "up")
        command = [sys.executable, "-m", "tests.support.lossy_cable", host, near, str(loss), str(delay_ms)]
        counts: list[int] = []
        with subprocess.Popen(
            [*self.on(SWITCH), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == b"begun\n"
                self._in(SWITCH, "link", "set", host, "nomaster")
                yield counts
            finally:
                self._in(SWITCH, "link", "set", host, "master", "bridge")
                process.stdin.close()
                counts += map(int, process.stdout.read().split())
        self._in(SWITCH, "link", "del", far)

    def remove(self) -> None:
        """End every process on the hosts and remove all."""
        _remove([self._name(host) for host in (*self.hosts, SWITCH)])

    def _name(self, host: str) -> str:
        return f"{self._mine}-{host}"

    def _in(self, host: str, *words: str) -> None:
        ip("-netns", self._name(host), *words)


@contextmanager
def network(*hosts: str) -> Generator[HostNetwork]:
    """Some hosts on one switch, removed at the end with all that runs on them."""
    require_namespaces()
    remove_left()
    made = HostNetwork(hosts)
    try:
        made.build()
        yield made
    finally:
        made.remove()


def remove_left() -> None:
    """Remove the namespaces of test processes that are no more."""
    left: list[str] = []
    for name in existing():
        if name.startswith(f"{PREFIX}-"):
            pid, started = name.removeprefix(f"{PREFIX}-").split("-")[:2]
            if _started(int(pid)) != int(started):
                left.append(name)
    _remove(left)


def existing() -> list[str]:
    """Return the names of all namespaces of this machine."""
    return [line.split()[0] for line in ip("netns", "list").splitlines() if line]


def _remove(names: list[str]) -> None:
    there = set(existing())
    names = [name for name in names if name in there]
    for name in names:
        # race: a process that is about to start another may be killed after that one was listed
        wait_until(partial(_is_dead, name), f"the processes of {name} end")
    for name in names:
        ip("netns", "delete", name)


def _is_dead(name: str) -> bool:
    return not _killed(name)


def _killed(name: str) -> list[int]:
    """Kill what runs in a namespace; those that were there."""
    found = [int(pid) for pid in ip("netns", "pids", name).split()]
    for pid in found:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
    return [pid for pid in found if _is_alive(pid)]


def _is_alive(pid: int) -> bool:
    """A child of this process that was killed stays as a zombie until its owner waits for it."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def _started(pid: int) -> int:
    """Return when a process was started, in ticks since boot, which no step of the clock changes; 0 if it is none."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
    return 0
