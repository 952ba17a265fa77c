"""The processes of a soak: Redis, beat, three workers as `tellback up` has them, two hosts and a transport."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from tellback.settings import Settings
from tests.soak import HOSTS, LEAK, LIFETIME
from tests.support.commands import running_beat
from tests.support.redis_server import RedisServer
from tests.support.workers import Workers, environment

POOLS: Final = {"events,turns,sweeps": ("prefork", 2), "commands": ("prefork", 2), "signals,recalls": ("threads", 4)}
# The file of appended commands is rewritten early, so that a run shows several rewrites.
REWRITES: Final = ("--auto-aof-rewrite-min-size", "8mb")


class SoakSystem:
    """A running system, and the pipes to its hosts."""

    def __init__(self, server: RedisServer, hosts: list[subprocess.Popen[str]]) -> None:
        self.server = server
        self._hosts = hosts

    def load(self, every: float) -> None:
        """Let each agent begin a session every so many seconds."""
        for host in self._hosts:
            _send(host, f"run {every}")

    def rest(self) -> Counter[str]:
        """End the load, and return what was done since the start, and what failed."""
        total: Counter[str] = Counter()
        for host in self._hosts:
            _send(host, "rest")
            total.update(json.loads(_pipe(host.stdout).readline()))
        return total


def _send(host: subprocess.Popen[str], line: str) -> None:
    try:
        _pipe(host.stdin).write(f"{line}\n")
        _pipe(host.stdin).flush()
    except BrokenPipeError:
        raise AssertionError(f"a host ended by itself, with {host.wait(timeout=20)}") from None


def _pipe(end: IO[str] | None) -> IO[str]:
    assert end is not None
    return end


@contextmanager
def running_system(folder: Path, lifetime: int, *, leak: bool) -> Generator[SoakSystem]:
    """Start everything in `folder`, and end it."""
    (folder / "redis").mkdir(parents=True)
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer.start(folder / "redis", *REWRITES))
        settings = Settings(redis_url=server.url, data_dir=str(folder / "data"), command_roots=str(folder), host="soak")
        extra = {LIFETIME: str(lifetime)}
        for queues, (pool, size) in POOLS.items():
            leaking = {LEAK: "1"} if leak and "events" in queues else {}
            workers = Workers(
                settings, folder / queues[:6], queues=queues, pool=pool, concurrency=size,
                env=extra | leaking, app="tests.soak.worker",
            )  # fmt: skip
            (folder / queues[:6]).mkdir()
            stack.callback(workers.stop)
            workers.start()
        stack.enter_context(running_beat(settings, folder))
        hosts = [_launch(settings, extra, "agents", f"--host={number}") for number in range(HOSTS)]
        others = [*hosts, _launch(settings, extra, "transport")]
        stack.callback(_end, others)
        yield SoakSystem(server, hosts)


def _launch(settings: Settings, extra: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.soak.load", *arguments]
    env = environment(settings, {**extra, "PYTHONFAULTHANDLER": "1"})
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)


def _end(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        with suppress(BrokenPipeError):  # it ended by itself
            _pipe(process.stdin).close()
    for process in processes:
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _pipe(process.stdout).close()
