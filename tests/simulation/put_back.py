"""Faults that were fixed, put back: the simulation must find each of them, or it would not find the next one either.

The names are those of the table in `docs/operations/simulation.md`; the numbers in it are those of the issue that
described the first of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from tellback.messaging import lane
from tellback.messaging import publisher as publisher_module
from tellback.messaging.append_call import append_call
from tellback.state import jobs, turn_sweeps
from tellback.state.lua_text import script_text
from tellback.state.script_calls import Script
from tellback.state.steady import Observed
from tests.simulation.fleet import Fleet
from tests.simulation.preempt import preemptible


@contextmanager
def _scripts(change: Callable[[str], str]) -> Generator[None]:
    def source(script: Script) -> str:
        return change(script_text(script.name))

    def sha(script: Script) -> str:
        return hashlib.sha1(source(script).encode(), usedforsecurity=False).hexdigest()

    with mock.patch.object(Script, "source", property(source)), mock.patch.object(Script, "sha", property(sha)):
        yield


@contextmanager
def index_left_in_two_steps() -> Generator[None]:
    """Fault 1: a queue that was found empty leaves its index, whatever has come since."""
    with _scripts(lambda text: text.replace("if redis.call('EXISTS', key_key) == 1 then", "if false then")):
        yield


@contextmanager
def publisher_follows_fork_late() -> Generator[None]:
    """Fault 2: a forked child restarts when its first threads publish, each by itself and without a lock."""
    module = preemptible(publisher_module.__name__)

    def follow(publisher: Any) -> None:
        if os.getpid() == publisher._pid:
            return
        publisher._pid = os.getpid()
        publisher._begin()

    def nothing(_: Any) -> None:
        """Leave a new child as it is."""

    changes: list[tuple[Any, str, Any]] = []
    for owner in (publisher_module.Publisher, module.Publisher):
        begin, publish = owner._begin, owner.publish

        def begun(publisher: Any, begin: Any = begin) -> None:
            begin(publisher)
            publisher._pid = os.getpid()

        def published(publisher: Any, message: Any, publish: Any = publish) -> None:
            follow(publisher)
            publish(publisher, message)

        changes += [
            (owner, "_begin", begun),
            (owner, "_begin_in_child", nothing),
            (owner, "publish", published),
        ]
    with ExitStack() as stack:
        for changed, name, value in changes:
            stack.enter_context(mock.patch.object(changed, name, value))
        yield


@contextmanager
def resent_without_mark() -> Generator[None]:
    """Fault 3: what was sent again has nothing that Redis could know its copy by."""

    def without_mark(events: Any, bounds: Any) -> Any:
        return append_call([event._replace(writer="") for event in events], bounds)

    with mock.patch.object(lane, "append_call", without_mark):
        yield


@contextmanager
def refused_at_maxmemory() -> Generator[None]:
    """Fault 6: scripts that acknowledge, answer and free are refused like any other when Redis is full."""
    with _scripts(lambda text: text.replace("allow-oom", "")):
        yield


@contextmanager
def leases_by_the_wall_clock() -> Generator[None]:
    """Fault 7: leases end by the server's clock, whatever steps it makes."""

    def stepped(text: str) -> str:
        for steady in ("return math.max(now - tonumber(known[1]), last), last", "return math.max(now, reached), 0"):
            text = text.replace(steady, "return now, now")
        return text.replace("return tonumber(last or now_ms())", "return now_ms()")

    def observe(database: Any, shards: Any, *_: Any) -> list[Observed]:
        return [Observed(database.now_ms(), 1 << 40) for _ in shards]

    with (
        _scripts(stepped),
        mock.patch.object(jobs, "observe", observe),
        mock.patch.object(turn_sweeps, "observe", observe),
    ):
        yield


@contextmanager
def stored_beside_the_loss() -> Generator[None]:
    """A worker whose command was declared lost stores its record as the first."""
    with _scripts(lambda text: text.replace("if job[1] and (job[1] ~= 'running' or job[2] ~= arg_token)", "if false")):
        yield


@contextmanager
def left_running_by_a_frozen_worker() -> Generator[None]:
    """A worker that stands still is not overtaken by its supervisor: its command runs on beside the next attempt."""
    with mock.patch.object(Fleet, "supervised", new=False):
        yield


@contextmanager
def taken_without_an_operation() -> Generator[None]:
    """A host that repeats a take of feedback, since its reply was lost, gets what has come since."""
    replayed = "if replayed then\n  return replayed\nend\nlocal waiting"
    with _scripts(lambda text: text.replace(replayed, "local waiting")):
        yield


@contextmanager
def applied_ids_forgotten() -> Generator[None]:
    """No id of an applied signal or call is kept."""
    with _scripts(lambda text: text.replace("redis.call('SADD', current, ...)", "")):
        yield


@contextmanager
def fallback_beside_an_answer() -> Generator[None]:
    """A sweep that read a turn as overdue writes its fallback, whatever has answered the turn since."""
    check = "if not turn or (turn.state ~= 'open' and turn.state ~= 'finishing') then"
    with _scripts(lambda text: text.replace(check, "if not turn then")):
        yield


@contextmanager
def claimed_within_the_lease_of_another() -> Generator[None]:
    """A transport that read a delivery as due claims it, whoever has claimed it since."""
    check = "if not ready or tonumber(ready) > clock then"
    with _scripts(lambda text: text.replace(check, "if not ready then")):
        yield


@contextmanager
def standstill_counted_with_later_steps() -> Generator[None]:
    """A turn that was opened while the clock stood moves forward by all steps that were counted since."""
    counted = "math.max(time, math.min(server - found[2], found[3]))"
    with _scripts(lambda text: text.replace(counted, "server - tonumber(redis.call('HGET', key_clock, 'skew'))")):
        yield


@contextmanager
def decay_that_leaves_the_time() -> Generator[None]:
    """The weekly decay writes scores back and leaves their time, so that readers decay them once more."""
    with _scripts(
        lambda text: text.replace(
            "moved(score, scored_at, now, 0), now)", "moved(score, scored_at, now, 0), scored_at)"
        )
    ):
        yield


@contextmanager
def limit_moved_with_the_deadline() -> Generator[None]:
    """Progress between a forward step and its observation mixes times of before and after it."""
    with _scripts(
        lambda text: text.replace("if not turn.limit_at then", "if true then").replace(
            "return tonumber(time) + clock - known", "return tonumber(time)"
        )
    ):
        yield


@contextmanager
def copies_of_a_lost_tail_kept() -> Generator[None]:
    """A worker continues with the query clusters and facts that it knows of a second of writes that Redis has lost."""
    with _scripts(lambda text: text.replace("return redis.call('ZSCORE', key_stamps, stamp) and true", "return true")):
        yield


@contextmanager
def copies_compared_by_version_alone() -> Generator[None]:
    """A worker notices a lost tail if the bank's version is lower than it knows, and not if others continued since."""
    known = "return redis.call('ZSCORE', key_stamps, stamp) and true"
    lower = "return tonumber(arg_version or 0) <= tonumber(redis.call('HGET', key_info, 'version'))"
    with _scripts(
        lambda text: (
            text.replace(known, lower)
            .replace("or (bank[3] or '') ~= plan.stamp then", "then")
            .replace("or (bank[3] or '') ~= arg_stamp then", "then")
        )
    ):
        yield


PUT_BACK: dict[str, tuple[str, Callable[[], Any]]] = {
    "1": ("outbox", index_left_in_two_steps),
    "2": ("publishing", publisher_follows_fork_late),
    "3": ("publishing", resent_without_mark),
    "6": ("exhaustion", refused_at_maxmemory),
    "7": ("clock", leases_by_the_wall_clock),
    "applied ids forgotten": ("signals", applied_ids_forgotten),
    "taken without an operation": ("guidance", taken_without_an_operation),
    "fallback beside an answer": ("turns", fallback_beside_an_answer),
    "claimed within the lease of another": ("outbox", claimed_within_the_lease_of_another),
    "standstill counted with later steps": ("clock", standstill_counted_with_later_steps),
    "decay that leaves the time": ("banks", decay_that_leaves_the_time),
    "limit moved with the deadline": ("clock", limit_moved_with_the_deadline),
    "copies of a lost tail kept": ("lost-tail", copies_of_a_lost_tail_kept),
    "copies compared by version alone": ("lost-tail", copies_compared_by_version_alone),
    "stored beside the loss": ("commands", stored_beside_the_loss),
    "left running by a frozen worker": ("commands", left_running_by_a_frozen_worker),
}
