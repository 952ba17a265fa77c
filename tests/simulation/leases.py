"""Checks at every moment of a run: no lease outlives its length, and each queue of deliveries is in an index.

The checks run as time passes, beside the tasks: they draw no decision and take no time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from tellback.names import Family
from tellback.state.intake import Intake
from tellback.state.intake_lease import Lease, Taken
from tellback.state.steady import steady_now
from tellback_workers.lease_heartbeat import LeaseTimes
from tests.simulation.scheduler import Process
from tests.simulation.world import World

PERIOD = 1.0  # seconds between two checks
AFTER_STEP = 60.0  # seconds after a step of the clock in which a lease may be longer: see docs/architecture.md


@dataclass
class Leases:
    """The leases of a run: who took which, and whether one is held by nobody for longer than its length."""

    world: World
    holders: dict[tuple[str, int], Process] = field(default_factory=dict[tuple[str, int], Process])
    first_seen: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    problems: list[str] = field(default_factory=list[str])
    next_check: float = 0.0

    def note(self, lease: Lease) -> None:
        """Remember the process that takes a consumer's lease."""
        task = self.world.scheduler.current
        if task is not None:
            self.holders[lease.key, lease.fence] = task.process

    def _noting(self, take: Callable[..., list[Taken]]) -> Callable[..., list[Taken]]:
        def taken(intake: Intake, *wanted: Any, **options: Any) -> list[Taken]:
            found = take(intake, *wanted, **options)
            for one in found:
                self.note(one.lease)
            return found

        return taken

    @contextmanager
    def watched(self) -> Generator[None]:
        """Check while a scenario runs.

        Raises:
            AssertionError: after the run, if a check failed in it.
        """
        self.world.checks.append(self.check)
        with mock.patch.object(Intake, "take_each", self._noting(Intake.take_each)):
            yield
        assert not self.problems, f"{len(self.problems)} leases or queues: {self.problems[0]}"

    def check(self, now: float) -> None:
        """Look at every lease once in a period."""
        if now < self.next_check:
            return
        self.next_check = now + PERIOD
        try:
            self._check(now)
        except Exception as error:  # noqa: BLE001 - time passes within tasks, whose errors a worker survives
            self.problems.append(f"{type(error).__name__}: {error}")

    def _check(self, now: float) -> None:
        since_step = now - self.world.stepped_at
        if since_step > AFTER_STEP:
            self._check_consumers(now)
            self._check_jobs()
        self._check_queues()

    def _check_consumers(self, now: float) -> None:
        world, settings = self.world, self.world.settings
        places = [(shard.key("lease", family), family) for shard in world.layout.all for family in Family]
        replies = world.database.pipeline([part for key, _ in places for part in (("GET", key), ("PTTL", key))])
        for (key, family), fence, left in zip(places, replies[::2], replies[1::2], strict=True):
            if fence is None:
                continue
            embeds = family in (Family.SIGNALS, Family.RECALLS)
            length = settings.embed_lease if embeds else settings.consumer_lease
            held = key, int(fence)
            since = self.first_seen.setdefault(held, now)
            holder = self.holders.get(held)
            if int(left) > 1000 * length or int(left) < 0:
                self.problems.append(f"{key} has {left} ms left, at {now:.1f} s")
            # Without a holder, the reply of the script that took it was lost, and nobody can renew it.
            if holder is None or not holder.alive:
                since = since if holder is None else max(since, holder.died_at, holder.heard_until)
                if now - since > length + PERIOD:
                    self.problems.append(f"{key} is held by nobody since {since:.1f} s, at {now:.1f} s")

    def _check_jobs(self) -> None:
        world = self.world
        longest = 1000 * max(LeaseTimes.of(world.settings, kind).lease for kind in ("record", "retry"))
        for shard, now in zip(world.layout.all, steady_now(world.database, world.layout.all), strict=True):
            flat = world.database.command("ZRANGE", shard.key("running"), 0, -1, "WITHSCORES")
            for job, until in zip(flat[::2], flat[1::2], strict=True):
                if float(until) - now > longest:
                    self.problems.append(f"command {job!r} is leased for {(float(until) - now) / 1000:.1f} s")

    def _check_queues(self) -> None:
        """Each delivery is in the index of its channel: otherwise no transport would ever find it."""
        database = self.world.database
        for key in database.command("KEYS", "tb:*:outq:*"):  # its parts are the channel and the conversation
            prefix, _, talk = key.decode().rpartition(":")
            if database.command("ZSCORE", prefix.replace(":outq:", ":out:"), talk) is None:
                self.problems.append(f"{key.decode()} is in no index, at {self.world.scheduler.now:.1f} s")
