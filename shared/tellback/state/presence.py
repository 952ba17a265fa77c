"""The presence of the workers, by their heartbeats, and of beat, by the last task that a worker did for it."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tellback.state.database import Database, shorten_lifetime, small_write
from tellback.state.keys import FLEET, lifetime_ms
from tellback.state.readable import names_of, read_each, readable, reply_of, scored_names

HEARTBEAT_SECONDS: Final = 5.0
"""Seconds between two heartbeats of a worker."""

MODEL_MB: Final = 700
"""Memory of one copy of the packaged model."""

MODEL_ADVICE: Final = "serve signals and recalls by a worker of their own: -Q signals,recalls --pool threads"
"""Advice for a worker that would load several copies."""

PreloadState = Literal["", "loading", "loaded", "failed"]


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process: `name` is Celery's node name, `pid` its main process on `host`, `seen` in ms, server time."""

    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    version: str
    seen: int = 0
    policy: str = ""
    """The policy for commands: its file, and how its limits are enforced; empty from older workers."""
    model_copies: int = 0
    """Copies of the embedding model that it may load; 0 if it serves no signals or recalls, or is older."""
    preload: PreloadState = ""
    """The model that it loads at its start (`TELLBACK_MODEL_PRELOAD`); empty if it loads none, or is older."""
    rejected: int = 0
    """Broker messages that it has rejected since its start."""
    teams: tuple[str, ...] = ()
    """The teams that it looks after; empty: all."""


_decode = msgspec.json.Decoder(Worker).decode


class Presence:
    """The presence of the workers that serve a team, and of beat. The keys are those of the fleet."""

    def __init__(self, database: Database, team: str) -> None:
        self._db = database
        self._team = team
        self._shard = FLEET

    def announce(self, worker: Worker) -> None:
        """Report that this worker accepts tasks; the report expires after three missed heartbeats.

        It also shortens reports of others that outlive that, after a step back of the server's clock.
        """
        others = names_of("worker", self._db.command("ZRANGE", self._shard.key("workers"), 0, -1))
        seen = msgspec.structs.replace(worker, seen=self._db.now_ms())
        index = self._shard.key("workers")
        expired_before = seen.seen - lifetime_ms("workers")
        # race: this worker's own key, members that have expired, and lifetimes that no worker asked for. PEXPIRE is a
        # script too: if the server has forgotten the scripts, a plain PEXPIRE would run before the ZADD
        self._db.run_all(
            [  # even at `maxmemory`: commands of a host that seems to have no workers are abandoned
                small_write("SET", self._key(worker.name), msgspec.json.encode(seen), "PX", lifetime_ms("worker")),
                small_write("ZADD", index, seen.seen, worker.name),
                small_write("PEXPIRE", index, lifetime_ms("workers")),
            ],
            [
                ("ZREMRANGEBYSCORE", index, "-inf", expired_before),
                *(shorten_lifetime(self._key(name), lifetime_ms("worker")) for name in others),
            ],
        )

    def withdraw(self, name: str) -> None:
        """Remove a worker that ended in good order."""
        # unconditional: the worker itself reports its end
        self._db.pipeline([("DEL", self._key(name)), ("ZREM", self._shard.key("workers"), name)])

    def all_workers(self) -> list[Worker]:
        """Return the live workers, whatever teams they serve, without unreadable ones."""
        return self._all()[0]

    def workers(self) -> list[Worker]:
        """Return the live workers that serve the team, by name, without unreadable ones."""
        return self.roll()[0]

    def roll(self) -> tuple[list[Worker], int]:
        """Return the live workers that serve the team, by name, and the number of unreadable ones beside them."""
        found, unreadable = self._all()
        serving = [worker for worker in found if not worker.teams or self._team in worker.teams]
        return sorted(serving, key=lambda worker: worker.name), unreadable

    def _all(self) -> tuple[list[Worker], int]:
        names = names_of("worker", self._db.command("ZRANGE", self._shard.key("workers"), 0, -1))
        values = [raw for raw in read_each(self._db, [("GET", self._key(name)) for name in names]) if raw is not None]
        found = list(readable("worker", values, lambda raw: _decode(reply_of(raw))))
        return found, len(values) - len(found)

    def expired_workers(self) -> dict[str, int]:
        """Return workers that crashed in the last hour, and when each was last seen (ms, server time)."""
        flat = self._db.command("ZRANGE", self._shard.key("workers"), 0, -1, "WITHSCORES")
        seen = {name: int(score) for name, score in scored_names("worker", flat)}
        alive = {worker.name for worker in self.all_workers()}
        return {name: at for name, at in seen.items() if name not in alive}

    def note_beat(self) -> None:
        """Note that a worker did a task of beat."""
        # unconditional: the last one counts
        self._db.run(small_write("SET", self._shard.key("beat"), self._db.now_ms(), "PX", lifetime_ms("beat")))

    def last_beat(self) -> int | None:
        """Return when a worker last did a task of beat (ms, server time); None if not in the last hour."""
        value = self._db.command("GET", self._shard.key("beat"))
        return None if value is None else int(value)

    def _key(self, name: str) -> str:
        return self._shard.key("worker", name)
