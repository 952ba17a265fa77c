"""A primary with a replica, and three Sentinels that promote it when a test says so."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

from redis import exceptions

from tellback.errors import Unavailable
from tellback.state.database import Database
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

NAME = "tellback"
DOWN_MS = 500  # of silence after which a Sentinel takes a primary for dead that a test has killed; 30 s by default
PATIENT_MS = 600_000  # the same before that: a primary that a busy machine holds up is not to be given up


class Sentinels:
    """The servers: `first` is the primary and `second` its replica, with a client each that follows nobody."""

    def __init__(self, folder: Path) -> None:
        with ExitStack() as stack:
            self._stack = stack
            self._start(folder)
            self._stack = stack.pop_all()

    def _start(self, folder: Path) -> None:
        self.first, self.second = (
            self._server(folder / name, "--repl-diskless-sync-delay", "0") for name in ("first", "second")
        )
        self.new = self._stack.enter_context(closing(Database(self.second.url)))
        self.new.command("REPLICAOF", "127.0.0.1", self.first.port)
        wait_until(lambda: b"master_link_status:up" in self.new.command("INFO", "replication"), "it replicates")
        self.watchers = [self._sentinel(folder / f"sentinel-{number}") for number in range(3)]
        wait_until(lambda: all(map(_is_ready, self.watchers)), "the Sentinels know each other")

    def _server(self, folder: Path, *extra: str) -> RedisServer:
        folder.mkdir(parents=True, exist_ok=True)
        return self._stack.enter_context(RedisServer.start(folder, *extra))

    def _sentinel(self, folder: Path) -> RedisServer:
        folder.mkdir(parents=True)
        path = folder / "sentinel.conf"
        path.write_text(
            f"sentinel monitor {NAME} 127.0.0.1 {self.first.port} 2\n"
            f"sentinel down-after-milliseconds {NAME} {PATIENT_MS}\n"
            f"sentinel failover-timeout {NAME} 5000\n"
        )
        return self._server(folder, str(path), "--sentinel")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        places = ";".join(f"sentinel://127.0.0.1:{watcher.port}" for watcher in self.watchers)
        return f"{places}/0?master_name={NAME}"

    def give_up_after(self, milliseconds: int) -> None:
        """Have the Sentinels take a primary for dead after so long a silence."""
        for watcher in self.watchers:
            with closing(Database(watcher.url)) as client:
                client.command("SENTINEL", "SET", NAME, "down-after-milliseconds", milliseconds)

    def fail_over(self) -> None:
        """Kill the primary and wait until its replica has been promoted."""
        self.first.kill()
        self.give_up_after(DOWN_MS)
        wait_until(lambda: b"role:master" in self.new.command("INFO", "replication"), "it is promoted")


def _is_ready(watcher: RedisServer) -> bool:
    client = Database(watcher.url)
    try:
        flat: Any = client.command("SENTINEL", "MASTER", NAME)
    except (exceptions.RedisError, Unavailable):
        return False
    finally:
        client.close()
    state = dict(zip(flat[::2], flat[1::2], strict=True))
    return (state[b"num-slaves"], state[b"num-other-sentinels"]) == (b"1", b"2")
