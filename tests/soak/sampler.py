"""Samples of a running soak: what each kind of process holds, and what Redis does."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import psutil

from tellback.state.database import Database

Values = dict[str, float]

# The first word found in a command line, from the more special to the more general, says what kind of process it is.
KINDS: Final = (
    ("tellback.commands.supervisor", "supervisors"),
    ("-Qevents", "loops"),
    ("-Qcommands", "commands"),
    ("-Qsignals", "model"),
    ("tellback_beat", "beat"),
    ("redis-server", "redis"),
    ("tests.soak.load agents", "hosts"),
    ("tests.soak.load transport", "transport"),
)
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SoakSample:
    """All series at one time, in seconds since the start."""

    at: float
    phase: str
    values: Values


class Sampler:
    """A thread that takes a sample every few seconds, and writes each to a file as it comes."""

    def __init__(self, url: str, path: Path, period: float) -> None:
        self._redis = Database(url)
        self._file = path.open("wb")
        self._period = period
        self._began = time.monotonic()
        self._ended = threading.Event()
        self.phase = "prime"
        self.samples: list[SoakSample] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> list[SoakSample]:
        """Stop, and return all samples."""
        self._ended.set()
        self._thread.join()
        self._file.close()
        self._redis.close()
        return self.samples

    def _run(self) -> None:
        while not self._ended.wait(self._period):
            phase = self.phase
            sample = SoakSample(time.monotonic() - self._began, phase, {**of_processes(), **of_redis(self._redis)})
            self.samples.append(sample)
            self._file.write(msgspec.json.encode(sample) + b"\n")
            self._file.flush()


def of_processes() -> Values:
    """Return memory in MiB, files, sockets, threads and number of this process's descendants, by kind."""
    found: defaultdict[str, float] = defaultdict(float)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error, OSError):  # it has just ended
            kind = kind_of(process)
            for name, value in _measured(process).items() if kind is not None else ():
                found[f"{kind}.{name}"] += value
    return dict(found)


def kind_of(process: psutil.Process) -> str | None:
    """Return the kind of a process of the system; None for commands that it runs, and for others."""
    line = " ".join(process.cmdline())
    kind = next((kind for word, kind in KINDS if word in line), None)
    if kind in {"loops", "commands", "model"}:
        parent = process.parent()
        pool = parent is not None and kind == next(
            (kind for word, kind in KINDS if word in " ".join(parent.cmdline())), ""
        )
        return f"{kind} {'pool' if pool else 'main'}"
    return kind


def _measured(process: psutil.Process) -> Values:
    memory = process.memory_full_info()
    ends = [_target(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()]
    sockets = sum(end.startswith("socket:") for end in ends)
    return {
        # Neither USS nor RSS: libraries count as one's own while no other process of the machine has them loaded, which
        # made steps of 17 and 144 MiB, and pages shared since a fork are freed and copied.
        "memory": (memory.rss - memory.shared) / _MIB,
        "uss": memory.uss / _MIB,
        "rss": memory.rss / _MIB,
        "files": len(ends) - sockets,
        "sockets": sockets,
        "threads": process.num_threads(),
        "processes": 1,
    }


def _target(link: Path) -> str:
    with suppress(OSError):  # closed meanwhile
        return str(link.readlink())
    return ""


def of_redis(database: Database) -> Values:
    """Return the memory of Redis' data in MiB, its clients, the size of its file, and its keys by family."""
    info = _info(database)
    families = Counter(family_of(key) for key in database.command("KEYS", "*"))
    return {
        "redis.used": info["used_memory"] / _MIB,
        "redis.clients": info["connected_clients"],
        "redis.aof": info["aof_current_size"] / _MIB,
        **{f"keys.{family}": number for family, number in families.items()},
    }


def _info(database: Database) -> dict[str, int]:
    lines = bytes(database.command("INFO")).decode().splitlines()
    return {name: int(value) for name, _, value in (line.partition(":") for line in lines) if value.isdigit()}


def family_of(key: bytes) -> str:
    """Return the family of a key of Tellback's, and one name for all keys of Celery."""
    if not key.startswith(b"tb:"):
        return "broker"
    return key.partition(b"}:")[2].partition(b":")[0].decode()
