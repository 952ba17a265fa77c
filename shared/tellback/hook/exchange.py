"""What one hook process has to do with Redis: publish facts, wait a moment, take the feedback that they earned."""

from __future__ import annotations

import _thread
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from tellback import clock
from tellback.contracts.feedback_text import feedback_text
from tellback.errors import Unavailable
from tellback.hook.event import Event
from tellback.hook.options import Options
from tellback.hook.resp import Arg, Connection
from tellback.messaging.places import HostMemory, Known
from tellback.names import Family, shard_of
from tellback.state.keys import Layout, Shard, stream_of
from tellback.state.lua_text import script_text

FIRST_NAP: Final = 0.001
LONGEST_NAP: Final = 0.008
NAP_GROWTH: Final = 1.25
SPOOL_CHUNK: Final = 20  # facts of at most some 200 KB each
EVENTS: Final = str(Family.EVENTS)


class Asked(NamedTuple):
    """What is to be published and asked for.

    `begun` makes the fact that begins the evaluation, if Redis lacks it; `fact` is the id and the JSON of a call;
    `operations` are those under which feedback is taken, what an earlier process never got an answer to first.
    """

    event: Event
    prompt: str
    begun: Callable[[], bytes]
    fact: tuple[str, bytes] | None
    operations: Sequence[str]


class Exchange:
    """Runs in a thread of its own, so that nothing it may hang in (a resolver, a handshake) holds the process up.

    The thread changes what it found out under `guard`. The main thread takes `guard` and keeps it: from then on
    nothing changes.
    """

    def __init__(self, options: Options, asked: Asked, memory: HostMemory, end: float) -> None:
        """Take what is to be done, and the moment when everybody has stopped waiting."""
        self._options, self._asked, self._memory, self._end = options, asked, memory, end
        self.guard = _thread.allocate_lock()
        self.done = _thread.allocate_lock()
        self.known = memory.read()
        self.begun = False
        self.published = False
        self.unanswered: Sequence[str] = ()
        self.texts: list[str] = []
        self.trouble = "Redis did not answer in time"

    def start(self) -> None:
        """Begin; `done` can be acquired when all is over."""
        self.done.acquire()
        _thread.start_new_thread(self._run, ())

    def facts(self) -> list[bytes]:
        """What is to be published, in order."""
        fact = [self._asked.fact[1]] if self._asked.fact else []
        return fact if self.begun else [self._asked.begun(), *fact]

    def stream(self) -> str:
        """The intake stream of the session, as far as this host knows."""
        return stream_of(self._shard(self._shards()), Family.EVENTS)

    def _run(self) -> None:
        try:
            self._talk()
            self.trouble = "" if self.published else self.trouble
        except Exception as error:  # noqa: BLE001 - a thread has nobody to tell but its own process
            self.trouble = f"{type(error).__name__}: {error}"
        finally:
            self.done.release()

    def _talk(self) -> None:
        connection = Connection(self._options.redis_url, self._end)
        shard, waiting = self._find(connection)
        full = waiting >= self._options.intake_max
        facts = [] if full else self.facts()
        with self.guard:
            self.unanswered = self._asked.operations
            self.published = not facts and not full
        self._ask(connection, shard, [_append(stream_of(shard, Family.EVENTS), facts)] if facts else [])
        if full:
            raise Unavailable(f"the intake is at its bound of {self._options.intake_max} entries")
        self._send_spooled(connection)
        if self._asked.fact and self._asked.operations:
            self._wait(connection, shard, self._asked.fact[0])

    def _send_spooled(self, connection: Connection) -> None:
        """Send what earlier processes of this host have kept, as much as time allows; the next event sends the rest."""
        place = self._memory.place(self.known)
        if not any(map(_has_spool, place.folders(EVENTS))):
            return
        from tellback.messaging.spool import Spool  # noqa: PLC0415 - only after an outage

        def send(facts: Sequence[tuple[str, bytes]]) -> None:
            _sound(connection.ask([_append(stream, [raw]) for stream, raw in facts]))

        try:
            Spool(place, EVENTS, max_bytes=self._options.spool_max_bytes, chunk=SPOOL_CHUNK).send_orphans(send)
        except Unavailable:
            return

    def _wait(self, connection: Connection, shard: Shard, event_id: str) -> None:
        """Until there is feedback, or the call was evaluated and has earned none: then nobody waits for it."""
        looked = ("SISMEMBER", self._key(shard, "seen"), event_id)
        nap = FIRST_NAP
        while not self.texts and clock.monotonic() + nap < self._end:
            clock.sleep(nap)
            nap = min(NAP_GROWTH * nap, LONGEST_NAP)
            if self._ask(connection, shard, [looked]) == [1]:
                return

    def _find(self, connection: Connection) -> tuple[Shard, int]:
        """The session's shard and the length of its intake; what this host knows of the team is renewed."""
        team = Layout(self._options.team, 1).shard(0).key("team")
        guess = self._shards()
        while True:
            shard = self._shard(guess)
            replies = connection.ask(
                [
                    ("HSETNX", team, "shards", guess),
                    ("HSETNX", team, "id", os.urandom(8).hex()),
                    ("HMGET", team, "shards", "id"),
                    ("EXISTS", self._key(shard, "eval")),
                    ("XLEN", stream_of(shard, Family.EVENTS)),
                ]
            )
            (shards, id_), exists, length = _sound(replies)[2:]
            if int(shards) == guess:
                break
            guess = int(shards)
        with self.guard:
            self._renew(guess, id_.decode())
            self.begun = exists == 1
        return shard, length

    def _renew(self, shards: int, id_: str) -> None:
        fresh = self.known.renewed(shards, id_) if self.known else Known(shards, id_)
        if fresh != self.known:
            self.known = fresh
            try:
                self._memory.write(fresh)
            except OSError:
                return  # a host without a disk still works, save in an outage

    def _ask(self, connection: Connection, shard: Shard, commands: Sequence[Sequence[Arg]]) -> list[Any]:
        """The replies of `commands`; in the same round trip the feedback that waits is taken."""
        take = script_text("take_feedback")
        keys = [self._key(shard, "mail"), self._key(shard, "eval"), shard.key("guidestats", clock.utc_day())]
        keys.append(shard.key("due-eval"))
        member = keys[1].partition("}:eval:")[2]
        takes: list[Sequence[Arg]] = [
            ("EVAL", take, 5, shard.key("op", name), *keys, member) for name in self._asked.operations
        ]
        replies = connection.ask([*commands, *takes])
        first, taken = replies[: len(commands)], replies[len(commands) :]
        with self.guard:
            self.published = self.published or (bool(first) and not any(isinstance(one, Unavailable) for one in first))
            for reply in _sound(taken):
                self.texts += map(_render, json.loads(reply)["feedback"])
            self.unanswered = () if not self.texts else self.unanswered
        return _sound(first)

    def _shards(self) -> int:
        return self.known.shards if self.known else self._options.shards

    def _shard(self, shards: int) -> Shard:
        return Layout(self._options.team, shards).shard(shard_of(self._asked.event.session, shards))

    def _key(self, shard: Shard, name: str) -> str:
        return shard.key(name, self._asked.event.session, self._asked.prompt, self._asked.event.evaluation)


def _has_spool(folder: str) -> bool:
    try:
        return any(name.endswith(".spool") for name in os.listdir(folder))  # noqa: PTH208 - without pathlib
    except OSError:
        return False


def _append(stream: str, facts: Sequence[bytes]) -> tuple[Arg, ...]:
    return ("EVAL", script_text("append_facts"), 1, stream, *facts)


def _sound(replies: Sequence[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, Unavailable):
            raise reply
    return list(replies)


def _render(raw: str) -> str:
    given = json.loads(raw)
    observations = [(seen["label"], seen["value"]) for seen in given.get("observations", ())]
    return feedback_text(given["provider_name"], given["summary"], observations, given.get("suggestions", ()))
