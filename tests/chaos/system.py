"""The system under test: Redis with AOF, workers, two beats, hosts and transports, each a process that can be killed.

Hosts and transports reach Redis by one `Link`, workers and beats by another. A process that ended is started again
by `revive`, as a process manager would: a host as a new life, with the disk of the last one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

import msgspec
import psutil

from tellback.settings import Settings
from tests.chaos.loads import CHANNEL
from tests.chaos.plain import ask
from tests.support.clocks import SteppedServer, faketime_library
from tests.support.link import Link
from tests.support.processes import tree_of
from tests.support.providers import SETTING
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from tests.support.workers import environment

ROOT: Final = Path(__file__).resolve().parents[2]
HOSTS: Final = 3
TRANSPORTS: Final = 2
WORKERS: Final = 2
CHILDREN: Final = 2
"""Processes in the pool of each worker of prefork, hence its running commands."""
LOG_END: Final = 20  # lines of the log of a life that ended by itself
DISK_BYTES: Final = 1 << 20
SPOOL_BYTES: Final = 64 << 10
"""Size of a spool where no small disk can be mounted: it refuses events as a full disk does."""
BRISK: Final = {
    "beat_period": 1.0,
    "consumer_lease": 2.0,
    "embed_lease": 6.0,
    "job_lease": 6.0,
    "command_redis_wait": 15.0,
    "command_grace": 0.5,
    "outbox_lease": 6.0,
    "finish_grace": 5.0,
    "intake_max": 20_000,
    "providers": SETTING,
    "channels": CHANNEL,
}


@dataclass
class Member:
    """One process of the system, by name; `life` counts its starts."""

    name: str
    kind: str
    command: list[str]
    env: dict[str, str]
    life: int = 0
    process: subprocess.Popen[bytes] | None = None
    down_until: float = 0.0
    own_deaths: list[str] = field(default_factory=list[str])
    """The end of each life that no fault ended: its exit code and the end of its log."""
    killed: bool = True
    retired: bool = False
    """True: it is not started again."""
    lives: list[str] = field(default_factory=list[str])

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


class System:
    """All processes of one run below one folder."""

    def __init__(self, folder: Path, *, app: str = "tellback_workers.app") -> None:
        self.folder = folder
        self.app = app
        self.disks: list[Path] = []
        self.members: dict[str, Member] = {}
        self.offset = 0
        """Seconds by which the clock of Redis' host has stepped in all."""
        self.farthest = (0, 0)
        for name in ("redis", "logs", "history", "commands"):
            (folder / name).mkdir(parents=True)

    def __enter__(self) -> Self:
        server = SteppedServer if faketime_library() is not None else RedisServer
        # The log is plain text throughout, which is searched for secrets, and short: on a machine with a load of 40 a
        # restart took half a minute to read 12 MB.
        log = ["--aof-use-rdb-preamble", "no", "--auto-aof-rewrite-min-size", "4mb"]
        self.redis: RedisServer = server.start(self.folder / "redis", *log)
        self.links = [Link(self.redis.port) for _ in range(2)]
        self._settings = Settings(redis_url=self.redis.url, data_dir=str(self.folder / "data" / "observer"))
        self._add_workers()
        for number in range(2):
            schedule = str(self.folder / f"schedule-{number}")
            self._add(f"beat{number}", "beat", ["celery", "-A", "tellback_beat.app", "beat", "-s", schedule], 1)
        for number in range(HOSTS):
            self._add_load("host", number, self._disk(number))
        for number in range(TRANSPORTS):
            self._add_load("transport", number, self.folder / "data" / "transports")
        self._add_load("foreign", 0, self.folder / "data" / "foreign")
        self._add_load("hooks", 0, self.folder / "data" / "hooks")
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members.values():
            self.kill(member)
        for link in self.links:
            link.__exit__()
        self.redis.kill()
        for disk in self.disks:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)

    @property
    def settings(self) -> Settings:
        """The settings of one who reads the end state: Redis without any link between."""
        return msgspec.structs.replace(self._settings, **BRISK)

    @property
    def data_dirs(self) -> list[Path]:
        """The data directories of all hosts; each has spools of its own."""
        found = {Path(member.env["TELLBACK_DATA_DIR"]) for member in self.members.values()}
        return sorted(found - {self.folder / "data" / "workers"})

    def of(self, kind: str) -> list[Member]:
        """Return the members of a kind."""
        return [member for member in self.members.values() if member.kind == kind]

    def start(self) -> None:
        """Start everything and wait until the workers are ready."""
        for member in self.members.values():
            if member.kind in {"worker", "beat"}:
                self.launch(member)
        for member in self.of("worker"):
            log = self.folder / "logs" / f"{member.lives[-1]}.log"
            wait_until(partial(_is_ready, log), f"a worker is ready: {log}", timeout=120)
        for member in self.members.values():
            if not member.is_alive:
                self.launch(member)
        for member in self.of("host"):
            begun = self.folder / "history" / f"{member.lives[-1]}.jsonl"
            wait_until(begun.exists, f"{member.name} has begun", timeout=120)

    def launch(self, member: Member) -> None:
        """Start a new life of a member."""
        who = f"{member.name}.{member.life}"
        member.life += 1
        member.lives.append(who)
        command = [part.replace("WHO", who) for part in member.command]
        with (self.folder / "logs" / f"{who}.log").open("wb") as log:
            member.process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=member.env,
                cwd=ROOT,
            )
        member.killed = False

    def kill(self, member: Member) -> None:
        """SIGKILL a member with all that it started, as the death of its host would."""
        member.killed = True
        if member.process is None:
            return
        for process in tree_of(member.process):  # itself first, so that it starts no other
            with suppress(psutil.NoSuchProcess):
                process.kill()
        member.process.wait()

    def signal(self, member: Member, number: signal.Signals) -> None:
        """Send a signal to the process of a member alone."""
        if member.is_alive and member.process is not None:
            member.process.send_signal(number)

    def revive(self, now: float) -> None:
        """Start again whoever is not alive and has been down for long enough."""
        for member in self.members.values():
            if not member.is_alive and not member.retired and now >= member.down_until:
                if not member.killed and member.process is not None:
                    log = self.folder / "logs" / f"{member.lives[-1]}.log"
                    end = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_END:])
                    member.own_deaths.append(f"{member.lives[-1]} ended with {member.process.returncode}:\n{end}")
                self.launch(member)

    def step_clock(self, seconds: int) -> bool:
        """Step the clock of Redis' host; return False if it cannot be stepped here."""
        if not isinstance(self.redis, SteppedServer):
            return False
        # Bounded, since keys live for minutes to days and a run must not outlive what it counts.
        self.offset = max(-7_200, min(7_200, self.offset + seconds))
        self.farthest = (min(self.farthest[0], self.offset), max(self.farthest[1], self.offset))
        self.redis.step_to(self.offset)
        return True

    def set_maxmemory(self, value: str) -> None:
        """Bound Redis' memory; a server that is dead starts again without a bound."""
        with suppress(OSError):
            ask(self.redis.port, "CONFIG", "SET", "maxmemory", value)

    def _add_workers(self) -> None:
        queues = "commands,events,turns,sweeps"
        prefork = ["--pool=prefork", f"--concurrency={CHILDREN}", f"-Q{queues}"]
        for number in range(WORKERS):
            self._add_worker(f"worker{number}", prefork)
        # Processes of a pool would each load the model; threads share one.
        self._add_worker("signals0", ["--pool=threads", "--concurrency=2", "-Qsignals,recalls"])

    def _add_worker(self, name: str, options: list[str]) -> None:
        command = ["celery", "-A", self.app, "worker", "-n", "WHO@chaos", "--loglevel=INFO"]
        self._add(name, "worker", [*command, "--without-gossip", "--without-mingle", *options], 1)

    def _add_load(self, role: str, number: int, data: Path) -> None:
        self._add(f"{role}{number}", role, ["tests.chaos.host", role, "WHO", str(self.folder)], 0, data_dir=str(data))

    def _add(self, name: str, kind: str, command: list[str], link: int, data_dir: str = "") -> None:
        data = data_dir or str(self.folder / "data" / "workers")
        spool = {} if Path(data) in self.disks or "host" not in name else {"spool_max_bytes": SPOOL_BYTES}
        changes = {**BRISK, **spool, "redis_url": self.links[link].url, "data_dir": data}
        settings = msgspec.structs.replace(self._settings, **changes, command_roots=str(self.folder / "commands"))
        env = environment(settings, {"PYTHONPATH": str(ROOT), "TMPDIR": str(self.folder)})
        self.members[name] = Member(name, kind, command, env)

    def _disk(self, number: int) -> Path:
        """Return the folder of a host's data: a small disk where this process may mount one (only root may)."""
        folder = self.folder / "disks" / str(number)
        folder.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
        if not os.geteuid() and not subprocess.run(mount, check=False, capture_output=True).returncode:
            self.disks.append(folder)
        return folder


def _is_ready(log: Path) -> bool:
    return "ready." in log.read_text()
