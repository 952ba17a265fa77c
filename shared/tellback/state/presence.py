"""Who is at work for a team: workers say so every few seconds, and beat is heard in what it had a worker do."""

from __future__ import annotations

from typing import Final

import msgspec

from tellback.state.database import Command, Database
from tellback.state.keys import Layout, lifetime_ms

PERIOD: Final = 5.0
"""Seconds between two signs of life of a worker."""

MODEL_MB: Final = 700
"""Memory of one copy of the packaged model."""

MODEL_ADVICE: Final = "serve signals and recalls by a worker of their own: -Q signals,recalls --pool threads"
"""What to do where a worker would hold several copies."""


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process: `name` is Celery's node name, `pid` its main process on `host`, `seen` in ms, server time."""

    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    version: str
    seen: int = 0
    policy: str = ""
    """What commands may do there: the policy's file, and how its limits are held; empty from older workers."""
    model_copies: int = 0
    """Copies of the embedding model that it may come to hold; 0 where it takes no signals and recalls, or is older."""


class Presence:
    """The presence keys of one team; they stand in its first shard."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team."""
        self._db = database
        self._shard = layout.shard(0)

    def here(self, worker: Worker) -> None:
        """Say that this worker takes tasks; holds until a few periods have gone by without it."""
        seen = msgspec.structs.replace(worker, seen=self._db.now_ms())
        index = self._shard.key("workers")
        gone_before = seen.seen - lifetime_ms("workers")
        self._run(
            ("SET", self._key(worker.name), msgspec.json.encode(seen), "PX", lifetime_ms("worker")),
            ("ZADD", index, seen.seen, worker.name),
            ("ZREMRANGEBYSCORE", index, "-inf", gone_before),
            ("PEXPIRE", index, lifetime_ms("workers")),
        )

    def gone(self, name: str) -> None:
        """Say that a worker has ended in good order."""
        self._run(("DEL", self._key(name)), ("ZREM", self._shard.key("workers"), name))

    def workers(self) -> list[Worker]:
        """The workers that are at work, by name."""
        names = [name.decode() for name in self._db.command("ZRANGE", self._shard.key("workers"), 0, -1)]
        values = self._db.pipeline([("GET", self._key(name)) for name in names])
        found = [msgspec.json.decode(value, type=Worker) for value in values if value is not None]
        return sorted(found, key=lambda worker: worker.name)

    def silent(self) -> dict[str, int]:
        """Workers that ended without saying so in the last hour, with when they were last seen (ms, server time)."""
        flat = self._db.command("ZRANGE", self._shard.key("workers"), 0, -1, "WITHSCORES")
        seen = {name.decode(): int(score) for name, score in zip(flat[::2], flat[1::2], strict=True)}
        alive = {worker.name for worker in self.workers()}
        return {name: at for name, at in seen.items() if name not in alive}

    def rung(self) -> None:
        """A worker did what beat had sent."""
        self._run(("SET", self._shard.key("beat"), self._db.now_ms(), "PX", lifetime_ms("beat")))

    def last_rung(self) -> int | None:
        """When a worker last did what beat had sent (ms, server time); None if not in the last hour."""
        value = self._db.command("GET", self._shard.key("beat"))
        return None if value is None else int(value)

    def _key(self, name: str) -> str:
        return self._shard.key("worker", name)

    def _run(self, *commands: Command) -> None:
        self._db.pipeline(commands)
