"""Faults that were fixed, put back: the simulation must find each of them, or it would not find the next one either.

The names are those of the table in `docs/operations/simulation.md`; the numbers in it are those of the issue that
described the first of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
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
def _scripts(*changes: tuple[str, str]) -> Generator[None]:
    """Load each script with other words in place of its own."""

    def source(script: Script) -> str:
        text = script_text(script.name)
        for own, other in changes:
            text = text.replace(own, other)
        return text

    def sha(script: Script) -> str:
        return hashlib.sha1(source(script).encode(), usedforsecurity=False).hexdigest()

    with mock.patch.object(Script, "source", property(source)), mock.patch.object(Script, "sha", property(sha)):
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
def leases_by_the_wall_clock() -> Generator[None]:
    """Fault 7: leases end by the server's clock, whatever steps it makes."""

    def observe(database: Any, shards: Any, *_: Any) -> list[Observed]:
        return [Observed(database.now_ms(), 1 << 40) for _ in shards]

    with (
        _scripts(
            ("return math.max(now - tonumber(known[1]), last), last", "return now, now"),
            ("return math.max(now, reached), 0", "return now, now"),
            ("return tonumber(last or now_ms())", "return now_ms()"),
        ),
        mock.patch.object(jobs, "observe", observe),
        mock.patch.object(turn_sweeps, "observe", observe),
    ):
        yield


@contextmanager
def left_running_by_a_frozen_worker() -> Generator[None]:
    """A worker that stands still is not overtaken by its supervisor: its command runs on beside the next attempt."""
    with mock.patch.object(Fleet, "supervised", new=False):
        yield


KNOWN_STAMP = "return redis.call('ZSCORE', key_stamps, stamp) and true"

PUT_BACK: dict[str, tuple[str, Callable[[], Any]]] = {
    # A queue that was found empty leaves its index, whatever has come since.
    "1": ("outbox", partial(_scripts, ("if redis.call('EXISTS', key_key) == 1 then", "if false then"))),
    "2": ("publishing", publisher_follows_fork_late),
    "3": ("publishing", resent_without_mark),
    # Scripts that acknowledge, answer and free are refused like any other when Redis is full.
    "6": ("exhaustion", partial(_scripts, ("allow-oom", ""))),
    "7": ("clock", leases_by_the_wall_clock),
    # No id of an applied signal or call is kept.
    "applied ids forgotten": ("signals", partial(_scripts, ("redis.call('SADD', current, ...)", ""))),
    # A host that repeats a take of feedback, since its reply was lost, gets what has come since.
    "taken without an operation": (
        "guidance",
        partial(_scripts, ("return answer({feedback = taken})", "return cjson.encode({feedback = taken})")),
    ),
    # A sweep that read a turn as overdue writes its fallback, whatever has answered the turn since.
    "fallback beside an answer": (
        "turns",
        partial(
            _scripts,
            ("if not turn or (turn.state ~= 'open' and turn.state ~= 'finishing') then", "if not turn then"),
        ),
    ),
    # A transport that read a delivery as due claims it, whoever has claimed it since.
    "claimed within the lease of another": (
        "outbox",
        partial(_scripts, ("if not ready or tonumber(ready) > clock then", "if not ready then")),
    ),
    # A turn that was opened while the clock stood moves forward by all steps that were counted since.
    "standstill counted with later steps": (
        "clock",
        partial(
            _scripts,
            (
                "math.max(time, math.min(server - found[2], found[3]))",
                "server - tonumber(redis.call('HGET', key_clock, 'skew'))",
            ),
        ),
    ),
    # The weekly decay writes scores back and leaves their time, so that readers decay them once more.
    "decay that leaves the time": (
        "banks",
        partial(_scripts, ("moved(score, scored_at, now, 0), now)", "moved(score, scored_at, now, 0), scored_at)")),
    ),
    # Progress between a forward step and its observation mixes times of before and after it.
    "limit moved with the deadline": (
        "clock",
        partial(
            _scripts,
            ("if not turn.limit_at then", "if true then"),
            ("return tonumber(time) + clock - known", "return tonumber(time)"),
        ),
    ),
    # A worker continues with the query clusters and facts that it knows of a second of writes that Redis has lost.
    "copies of a lost tail kept": ("lost-tail", partial(_scripts, (KNOWN_STAMP, "return true"))),
    # A worker notices a lost tail if the bank's version is lower than it knows, and not if others continued since.
    "copies compared by version alone": (
        "lost-tail",
        partial(
            _scripts,
            (KNOWN_STAMP, "return tonumber(arg_version or 0) <= tonumber(redis.call('HGET', key_info, 'version'))"),
            ("or (bank[3] or '') ~= plan.stamp then", "then"),
            ("or (bank[3] or '') ~= arg_stamp then", "then"),
        ),
    ),
    # A worker whose command was declared lost stores its record as the first.
    "stored beside the loss": (
        "commands",
        partial(_scripts, ("if job[1] and (job[1] ~= 'running' or job[2] ~= arg_token)", "if false")),
    ),
    "left running by a frozen worker": ("commands", left_running_by_a_frozen_worker),
}
