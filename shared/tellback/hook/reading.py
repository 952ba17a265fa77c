"""Reading of what the workers know about an agent, for a decision that the agent waits for.

The read has a deadline like every exchange of a hook, in a thread of its own. A Redis that is away, slow or not a Redis
gives an answer too: nothing is known, and the agent continues.
"""

from __future__ import annotations

import _thread
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from tellback import clock
from tellback.errors import TellbackError
from tellback.hook.connection import open_redis
from tellback.hook.event import HookEvent
from tellback.hook.options import HookOptions
from tellback.hook.resp import checked_replies
from tellback.light_struct import LightStruct
from tellback.messaging.team_cache import TeamCache
from tellback.names import shard_of
from tellback.state.keys import Layout, Shard

NEWEST: Final = 64  # entries of a session's history that a decision may look at; each has at most some 8 KB


class AgentView(LightStruct):
    """The stored state of an agent's evaluation, the newest tool calls of its session, and the server's time.

    `asked_at` is this host's time when the server was asked for its own. `calls` are the session's, oldest first, since
    another agent's change matters too; they are read only if the evaluation has a failed call.
    """

    state: dict[str, Any]
    calls: Sequence[dict[str, Any]]
    now_ms: int
    asked_at: float = 0.0


class _HookRead:
    """One read in a thread of its own: a resolver or a handshake that hangs must not hold the process up."""

    def __init__(self, options: HookOptions, event: HookEvent, prompt: str) -> None:
        self._options, self._event, self._prompt = options, event, prompt
        self._end = clock.monotonic() + options.wait
        self._done = _thread.allocate_lock()
        self._found: AgentView | None = None

    def within_wait(self) -> AgentView | None:
        self._done.acquire()
        _thread.start_new_thread(self._run, ())
        return self._found if self._done.acquire(timeout=self._options.wait) else None

    def _run(self) -> None:
        try:
            self._found = self._read()
        except (TellbackError, ValueError, TypeError, KeyError):  # as if nothing were known: never stop the agent
            self._found = None
        finally:
            self._done.release()

    def _read(self) -> AgentView | None:
        connection = open_redis(self._options.redis_url, self._end)
        known = TeamCache(self._options.data, self._options.team, self._options.redis_url).read()
        guess = known.shards if known else self._options.shards
        team = Layout(self._options.team, 1).shard(0).key("team")
        shard = self._shard(guess)
        shards, state = connection.run_commands([("HGET", team, "shards"), self._state_of(shard)])
        # Of a cluster, the node with the team's own key may be away: then what this host knows is good enough.
        if isinstance(shards, bytes) and int(shards) != guess:
            shard = self._shard(int(shards))
            [state] = connection.run_commands([self._state_of(shard)])
        found = _object(*checked_replies([state]))
        if found is None:
            return None
        if not (found.get("errors") or progress_of(found).get("failures")):
            return AgentView(found, (), 0)
        history = ("LRANGE", shard.key("hist", self._event.session), -NEWEST, -1)
        asked_at = clock.wall()
        lines, (seconds, micros) = checked_replies(connection.run_commands([history, ("TIME",)]))
        entries = [entry for entry in map(_object, lines) if entry and entry.get("kind") == "tool_call"]
        return AgentView(found, entries, int(seconds) * 1000 + int(micros) // 1000, asked_at)

    def _shard(self, shards: int) -> Shard:
        return Layout(self._options.team, shards).shard(shard_of(self._event.session, shards))

    def _state_of(self, shard: Shard) -> tuple[str, str, str]:
        return ("HGET", shard.key("eval", self._event.session, self._prompt, self._event.evaluation), "state")


def progress_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored memory of the measure of progress, a `ProgressTrail`; defaults are left out there."""
    trail: object = state.get("trail")
    progress: object = cast("dict[str, Any]", trail).get("progress") if isinstance(trail, dict) else None
    return cast("dict[str, Any]", progress) if isinstance(progress, dict) else {}


def view_of_agent(options: HookOptions, event: HookEvent, prompt: str) -> AgentView | None:
    """Return what the workers know about the event's agent; None if nothing, or not within `options.wait`."""
    return _HookRead(options, event, prompt).within_wait()


def _object(raw: object) -> dict[str, Any] | None:
    found: object = json.loads(raw) if isinstance(raw, bytes) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None
