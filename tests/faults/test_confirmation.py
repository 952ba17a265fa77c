"""Answers and commands that replicas confirmed survive the death of the primary; without that, the newest are lost.

The replica reads its primary through a link that is cut: it falls behind as on a slow network, and the primary dies.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tellback import Settings, Tellback, Turn, connect
from tellback.contracts.turns import OutgoingResponse
from tellback.errors import Unavailable
from tellback.state.database import Database
from tellback.state.job_claims import JobClaimant, JobLease
from tellback.state.job_keys import ANY_POOL
from tellback.state.jobs import Jobs
from tellback_workers.jobs import JobWorker
from tellback_workers.lease_heartbeat import LeaseTimes
from tellback_workers.runtime import Runtime
from tests.support.link import Link
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults

CONFIRMED: Final[dict[str, Any]] = {"wait_replicas": 1, "wait_timeout": 4.0}  # the longest that is allowed
BRIEFLY: Final = CONFIRMED | {"wait_timeout": 0.1}  # where nobody confirms


class Replicated:
    """A primary, and a replica that reads it through `link`. Clients use `address`, as with a virtual IP."""

    def __init__(self, folder: Path) -> None:
        with ExitStack() as stack:
            for name in ("first", "second"):
                (folder / name).mkdir()
            # The disk of WAITAOF is that of a sync; and a replica waits 5 s for others to join its first copy.
            options = ("--appendfsync", "always", "--repl-diskless-sync-delay", "0")
            self.first = stack.enter_context(RedisServer.start(folder / "first", *options))
            self.second = stack.enter_context(RedisServer.start(folder / "second", *options))
            self.link = stack.enter_context(Link(self.first.port))
            self.address = stack.enter_context(Link(self.first.port))
            self.replica = stack.enter_context(closing(Database(self.second.url)))
            self.replica.command("REPLICAOF", "127.0.0.1", int(self.link.url.rpartition(":")[2].partition("/")[0]))
            wait_until(lambda: b"master_link_status:up" in self.replica.command("INFO", "replication"), "in step")
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    def fail_over(self) -> None:
        """The primary dies with what the link holds, and the replica is promoted."""
        self.address.port = self.second.port
        self.first.kill()
        self.replica.command("REPLICAOF", "NO", "ONE")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Replicated]:
    pair = Replicated(tmp_path)
    yield pair
    pair.close()


def settings_of(pair: Replicated, folder: Path, given: dict[str, Any]) -> Settings:
    return Settings(redis_url=pair.address.url, data_dir=str(folder / "data"), **given)


def open_turns(tb: Tellback, number: int) -> list[Turn]:
    return [tb.open_turn(channel="web", conversation=f"c{at}", message_id="m", text="?") for at in range(number)]


def answer(turn: Turn) -> bool:
    """Answer the turn; return true if the caller may believe that Redis has the answer, and not this host's disk."""
    return turn.respond(OutgoingResponse.text_only("yes")) != "spooled"


def kept(pair: Replicated, tb: Tellback, turns: Iterable[Turn]) -> int:
    """Count the answered turns that are answered on the new primary too."""
    refs = [turn.ref for turn in turns]
    shards = [tb.context.layout.of_turn(ref.channel, ref.conversation) for ref in refs]
    found = [("HGET", shard.key("turn", ref.id), "state") for shard, ref in zip(shards, refs, strict=True)]
    states = pair.replica.pipeline(found)
    return sum(state not in (None, b"open") for state in states)


def test_without_confirmation_a_failover_loses_what_the_replica_had_not_read(pair: Replicated, tmp_path: Path) -> None:
    with connect(settings=settings_of(pair, tmp_path, {})) as tb:
        turns = open_turns(tb, 20)
        wait_until(lambda: count_turns(pair, tb) == 20, "the replica has the turns")
        pair.link.cut()
        assert all(map(answer, turns)), "each was acknowledged"
        pair.fail_over()
        assert kept(pair, tb, turns) == 0


def count_turns(pair: Replicated, tb: Tellback) -> int:
    return int(sum(pair.replica.pipeline([("ZCARD", shard.key("due")) for shard in tb.context.layout.all])))


def test_what_no_replica_confirmed_stays_on_the_hosts_disk_and_is_sent_again_once(
    pair: Replicated, tmp_path: Path
) -> None:
    with connect(settings=settings_of(pair, tmp_path, CONFIRMED)) as tb:
        [opened] = open_turns(tb, 1)
        tb.submit(["true"], session="s")
        tb.flush()
        assert not tb.spooled
    with connect(settings=settings_of(pair, tmp_path, BRIEFLY)) as tb:
        turn = tb.turn(opened.id)
        answers, commands = turn_stream(tb, turn), tb.context.layout.of("s").key("in", "commands")
        pair.link.cut()
        tb.submit(["true"], session="s")
        tb.flush()
        kept_back = tb.spooled
        with pytest.raises(Unavailable, match="TELLBACK_WAIT_REPLICAS"):
            open_turns(tb, 2)
        assert (kept_back, answer(turn)) == (True, False)
        assert pair.replica.command("XLEN", commands) == 1
        pair.fail_over()
        wait_until(lambda: pair.replica.command("XLEN", commands) == 2, "the command was sent again")
        wait_until(lambda: pair.replica.command("XLEN", answers) == 1, "and the answer")
        # No replica is left to confirm them. They are sent again all the time, and have one effect.
        tb.flush()
        assert [pair.replica.command("XLEN", stream) for stream in (commands, answers)] == [2, 1]


def turn_stream(tb: Tellback, turn: Turn) -> str:
    return tb.context.layout.of_turn(turn.ref.channel, turn.ref.conversation).key("in", "turns")


@pytest.mark.slow
def test_no_confirmed_answer_is_lost_when_the_primary_dies(pair: Replicated, tmp_path: Path) -> None:
    with connect(settings=settings_of(pair, tmp_path, CONFIRMED)) as tb:
        turns, accepted = open_turns(tb, 200), list[Turn]()

        def respond() -> None:
            for turn in turns:
                if not answer(turn):
                    return  # the primary has died
                accepted.append(turn)

        thread = threading.Thread(target=respond)
        thread.start()
        wait_until(lambda: len(accepted) > 20, "work continues")
        pair.fail_over()
        thread.join(60)
        assert not thread.is_alive()
        assert kept(pair, tb, accepted) == len(accepted)


def unconfirmed(_jobs: Jobs, _lease: JobLease, _seconds: float) -> bool:
    """Nobody confirms a lease in time."""
    raise Unavailable("not confirmed")


@pytest.mark.parametrize("found_by", ["its confirmation", "its renewal"])
def test_a_command_whose_lease_a_failover_took_runs_once(
    pair: Replicated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found_by: str
) -> None:
    """It ran twice: the new primary does not know that the worker has it."""
    settings = settings_of(pair, tmp_path, CONFIRMED)
    script = f"echo run >> {tmp_path}/runs"
    with connect(settings=settings) as tb:
        job = tb.submit(["sh", "-c", script], session="s", cwd=tmp_path)
        tb.flush()
        queue = tb.context.layout.of("s").key("jobs", ANY_POOL)
        runtime = Runtime(msgspec.structs.replace(settings, command_roots=str(tmp_path)))
        JobWorker(runtime, "default", "w@test", ANY_POOL).apply_and_run(tb.context.layout.of("s"), lambda: False)
        wait_until(lambda: pair.replica.command("ZCARD", queue) == 1, "the replica has the command")
        pair.link.cut()
        lease = Jobs.lease

        def then_fail_over(jobs: Jobs, claimant: JobClaimant) -> JobLease | None:
            leased = lease(jobs, claimant)
            monkeypatch.setattr(Jobs, "lease", lease)
            pair.fail_over()
            if leased and found_by == "its renewal":  # which is due once the confirmation was awaited for long
                monkeypatch.setattr(Jobs, "confirm", unconfirmed)
                return replace(leased, asked=leased.asked - LeaseTimes.of(settings, "record").renew)
            return leased

        monkeypatch.setattr(Jobs, "lease", then_fail_over)
        JobWorker(runtime, "default", "w@test", ANY_POOL).run(lambda: True)
        assert job.wait(timeout=30).exit_code == 0
        assert len(tb.records("s")) == 1
        assert (tmp_path / "runs").read_text() == "run\n"


def test_a_write_can_be_confirmed_by_the_disks_too(pair: Replicated, tmp_path: Path) -> None:
    """A replica reports on its disk once a second."""
    if not pair.replica.command("COMMAND", "INFO", "WAITAOF")[0]:
        pytest.skip("this redis-server is older than 7.2")
    with connect(settings=settings_of(pair, tmp_path, CONFIRMED | {"wait_aof": True})) as tb:
        [turn] = open_turns(tb, 1)
        pair.first.kill()
        assert pair.replica.command("EXISTS", tb.context.layout.of_turn("web", "c0").key("turn", turn.id)) == 1


def test_a_redis_that_cannot_confirm_from_disk_is_named_and_answers_stay_on_the_hosts(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    """Redis' own error came from `open_turn`, in place of `Unavailable`, which a transport expects."""
    with connect(settings=Settings(redis_url=own_redis.url, data_dir=str(tmp_path / "data"))) as tb:
        [opened] = open_turns(tb, 1)
        tb.context.database.command("CONFIG", "SET", "appendonly", "no")
    with connect(settings=Settings(redis_url=own_redis.url, data_dir=str(tmp_path / "data"), wait_aof=True)) as tb:
        with pytest.raises(Unavailable, match=r"cannot confirm .* on disk \(.*WAITAOF.*\): .*TELLBACK_WAIT_AOF"):
            open_turns(tb, 1)
        assert not answer(tb.turn(opened.id))
        assert tb.spooled
