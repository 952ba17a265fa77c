"""The exchange of one hook process with Redis: publish events, wait briefly, and take the feedback for them.

A request for feedback whose reply was lost is repeated by the next hook process, under the same operation id.
"""

from __future__ import annotations

import _thread
import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from tellback import clock
from tellback.backoff import Backoff
from tellback.errors import Unavailable
from tellback.hook.connection import open_redis
from tellback.hook.event import HookEvent
from tellback.hook.failure_log import log_failure
from tellback.hook.options import HookOptions
from tellback.hook.resp import RedisErrorReply, RespConnection, checked_replies, share_of_time
from tellback.light_struct import LightStruct
from tellback.messaging.append_call import (
    Bounds,
    StreamFull,
    append_call,
    end_of_call,
    must_notify,
    notification,
)
from tellback.messaging.team_cache import SUFFIX, SpoolLocation, TeamCache, TeamIdentity, spool_name
from tellback.names import Family, shard_of, stored_shards, stored_team_id
from tellback.state.keys import Layout, Shard, split_key, stream_of
from tellback.state.script_calls import Command, ScriptCall
from tellback.state.scripts import guidance, intake

if TYPE_CHECKING:
    from tellback.messaging.spool import Spool, SpooledEvent

BACKOFF: Final = Backoff(first=0.001, longest=0.008, factor=1.25)

SPOOL_CHUNK: Final = 100  # events, of at most some 200 KB each; small ones cost Redis about a millisecond

SPOOLS_SEEN: Final = 8  # spools of other streams that one hook checks, however many shards a team has

EVENTS: Final = str(Family.EVENTS)

SCRIPTS_MISSING: Final = (
    "Redis lacks a script of this release, and this user may not load it: start a worker of this release, which does"
)

FULL: Final = "Redis{at} is full (at its maxmemory) and refuses what is new: try again later, or raise maxmemory"


class HookRequest(LightStruct):
    """The events to publish and the feedback to request.

    `begun` makes the event that begins the evaluation, needed only if Redis lacks it; `own_event` is the id and the
    JSON of a tool call or of a user's word; `operations` are the operation ids for taking feedback, unanswered ones of
    earlier processes first.
    """

    event: HookEvent
    prompt: str
    begun: Callable[[], bytes]
    own_event: tuple[str, bytes] | None
    operations: Sequence[str]


class HookExchange:
    """The exchange, in a thread of its own: a resolver or a handshake that hangs must not hold the process up.

    The thread stores its results under `guard`. When the main thread stops waiting it acquires `guard` and never
    releases it, so the results no longer change. `end` is the deadline of the exchange.
    """

    def __init__(self, options: HookOptions, asked: HookRequest, memory: TeamCache, end: float) -> None:
        self._options, self._asked, self._memory, self._end = options, asked, memory, end
        self.guard = _thread.allocate_lock()
        self.done = _thread.allocate_lock()
        self.known = memory.read()
        self._day = int(clock.wall()) // 86_400  # until the server says that it is another one there
        self.begun = False
        self.published = False
        self.refused = False  # the team may have no more sessions, so the events are not kept either
        self.unanswered: Sequence[str] = asked.operations[:-1]  # without ours, which was not sent yet
        self.texts: list[str] = []
        self._trouble = ""
        self._connection: RespConnection | None = None

    @property
    def trouble(self) -> str:
        """The reason for which events were not published."""
        at = "" if self._connection is None else f" at {self._connection.where}"
        return self._trouble or f"Redis{at} did not answer in time"

    def start(self) -> None:
        """Start the thread; `done` can be acquired once it has finished."""
        self.done.acquire()
        _thread.start_new_thread(self._run_thread, ())

    def events_to_publish(self) -> list[bytes]:
        """Return the events to publish, in order."""
        own = [self._asked.own_event[1]] if self._asked.own_event else []
        return own if self.begun else [self._asked.begun(), *own]

    def stream(self) -> str:
        """Return the session's intake stream, by the number of shards that this host knows."""
        return stream_of(self._shard(self._shards()), Family.EVENTS)

    def _run_thread(self) -> None:
        try:
            self._exchange()
        except Exception as error:  # noqa: BLE001 - the main thread reports it from `trouble`
            at = "".join(f" at {where}" for where in getattr(error, "__notes__", ()))
            self._trouble = FULL.format(at=at) if _says(error, "OOM") else f"{type(error).__name__}: {error}{at}"
            self.refused = _is_too_many(error)
        finally:
            self.done.release()

    def _exchange(self) -> None:
        connection = self._connection = open_redis(self._options.redis_url, self._end)
        shard = self._find_shard(connection)
        if not self.begun:
            _admit(connection, shard, self._asked.event.session)
        bounds = Bounds.of(self._options.intake_max, self._options.intake_max_bytes, self._shards())
        stream, events = stream_of(shard, Family.EVENTS), self.events_to_publish()
        with self.guard:
            self.unanswered = self._asked.operations
            self.published = not events
        for reply in self._run_commands(connection, shard, _append_commands(stream, bounds, events)):
            bounds.check(stream, reply)
            with _until(share_of_time(self._end, 2), connection):
                _notify(connection, stream, reply)
        self._send_spooled(connection, bounds)
        if self._asked.event.call and self._asked.own_event and self._asked.operations:
            self._wait_for_feedback(connection, shard, self._asked.own_event[0])

    def _send_spooled(self, connection: RespConnection, bounds: Bounds) -> None:
        """Send events from this host's spools for half of the time that is left; later hooks send the rest."""
        place = self._memory.spool_location(self.known)
        names = _with_events(place, spool_name(self.stream()))
        end = share_of_time(self._end, 2)

        def send(events: Sequence[SpooledEvent]) -> None:
            first = 0
            # One call per round trip: if one were refused and the next accepted, the next one's mark would make the
            # refused events look sent.
            while first < len(events):
                last = end_of_call(events, first, SPOOL_CHUNK)
                [reply] = checked_replies(_run_scripts(connection, [append_call(events[first:last], bounds)]))
                bounds.check(events[first].stream, reply)
                _notify(connection, events[first].stream, reply)
                first = last

        for number, name in enumerate(names):
            try:
                with _until(share_of_time(end, len(names) - number), connection):
                    if self._spool(name).send_orphans(send, lambda _sent: clock.monotonic() < end):
                        return
            except StreamFull:
                continue  # other streams may have room
            except Unavailable:
                if not connection.has_nodes:
                    return

    def keep(self) -> None:
        """Spool the events that were not published for certain; an event that arrives twice has no second effect.

        Raises:
            SpoolFull: there is no room.
        """
        from tellback.messaging.spool import SpooledEvent

        stream = self.stream()
        self._spool(spool_name(stream)).append([SpooledEvent(stream, raw) for raw in self.events_to_publish()])

    def _spool(self, name: str) -> Spool:
        from tellback.messaging.spool import Spool

        place, most = self._memory.spool_location(self.known), self._options.spool_max_bytes
        return Spool(place, name, max_bytes=most, chunk=SPOOL_CHUNK, shared=True, report=_note)

    def _wait_for_feedback(self, connection: RespConnection, shard: Shard, event_id: str) -> None:
        """Poll until there is feedback, or until the call has been evaluated without any."""
        evaluated = ("SISMEMBER", self._key(shard, "seen"), event_id)
        if not self.texts:
            _warm_rendering()
        delay = 0.0  # at first none: the rendering has taken longer than a worker that lingers needs
        for following in BACKOFF.delays():
            if self.texts or clock.monotonic() + delay >= self._end:
                return
            clock.sleep(delay)
            if self._run_commands(connection, shard, [evaluated]) == [1]:
                return
            delay = following

    def _find_shard(self, connection: RespConnection) -> Shard:
        """Return the session's shard, and update what this host knows about the team."""
        team = Layout(self._options.team, 1).shard(0).key("team")
        guess = self._shards()
        while True:
            shard = self._shard(guess)
            commands: list[Command] = [
                # race: whichever process is first decides, in each round; the reply to HMGET has its values
                ("HSETNX", team, "shards", guess),
                ("HSETNX", team, "id", os.urandom(8).hex()),  # race: as the line before
                ("HMGET", team, "shards", "id"),
                ("EXISTS", self._key(shard, "eval")),
            ]
            with _until(share_of_time(self._end, 2) if self.known else self._end, connection):
                replies = connection.run_commands(commands)
            [exists] = checked_replies(replies[3:])
            if self.known and connection.has_nodes and type(replies[2]) is Unavailable:
                break  # the node with the team's own key is away, and this host knows the team
            *_, (shards, id_) = checked_replies(replies[:3])
            stored = stored_shards(self._options.team, shards)
            if stored == guess:
                with self.guard:
                    self._renew_team(guess, stored_team_id(self._options.team, id_))
                break
            guess = stored
        with self.guard:
            self.begun = exists == 1
        return shard

    def _renew_team(self, shards: int, id_: str) -> None:
        fresh = self.known.updated(shards, id_) if self.known else TeamIdentity(shards, id_)
        if fresh != self.known:
            self.known = fresh
            try:
                self._memory.write(fresh)
            except OSError:
                return  # a host without a writable disk works too, except in an outage

    def _run_commands(
        self, connection: RespConnection, shard: Shard, commands: Sequence[Command | ScriptCall]
    ) -> list[Any]:
        """Return the replies of `commands`; take waiting feedback in the same round trip."""
        replies = _run_scripts(connection, [*commands, *self._takes(shard)])
        first, taken = replies[: len(commands)], replies[len(commands) :]
        with self.guard:
            self.published = self.published or (bool(first) and all(map(_is_taken, first)))
        found = list(map(json.loads, checked_replies(taken)))
        if days := [reply["day"] for reply in found if "day" in reply]:
            self._day = days[0]
            found = list(map(json.loads, checked_replies(_run_scripts(connection, self._takes(shard)))))
        with self.guard:
            for reply in found:
                self.texts += map(_render_feedback, reply["feedback"])
            self.unanswered = () if not self.texts else self.unanswered
        return checked_replies(first)

    def _takes(self, shard: Shard) -> list[ScriptCall]:
        """Return the calls that take waiting feedback, one for each operation."""
        evaluation = self._key(shard, "eval")
        take = guidance.take_feedback(
            evaluation=evaluation,
            guidestats=shard.key("guidestats", clock.utc_day(self._day)),
            member=split_key(evaluation)[2],
            day=self._day,
        )
        return [take.named(shard.key("op", name)) for name in self._asked.operations]

    def _shards(self) -> int:
        return self.known.shards if self.known else self._options.shards

    def _shard(self, shards: int) -> Shard:
        return Layout(self._options.team, shards).shard(shard_of(self._asked.event.session, shards))

    def _key(self, shard: Shard, name: str) -> str:
        return shard.key(name, self._asked.event.session, self._asked.prompt, self._asked.event.evaluation)


@contextmanager
def _until(end: float, connection: RespConnection) -> Generator[None]:
    """Bound a node of a cluster that may hang. One server has the whole time: no other could use the rest of it."""
    whole = connection.deadline
    connection.deadline = end if connection.has_nodes else whole
    try:
        yield
    finally:
        connection.deadline = whole


def _admit(connection: RespConnection, shard: Shard, session: str) -> None:
    """Ask for a session of which nothing is known yet.

    Raises:
        TooMany: the team has as many as an operator allows.
    """
    from tellback.state.admission import admit_call, is_limited

    [reply] = _run_scripts(connection, [admit_call(shard, "sessions", session)])
    if isinstance(reply, bytes):  # else an error, which the append that follows meets too
        is_limited(shard, "sessions", reply)


def _is_too_many(error: Exception) -> bool:
    from tellback.state.admission import TooMany

    return isinstance(error, TooMany)


def _with_events(place: SpoolLocation, own: str) -> list[str]:
    """Return the spools with events among this stream's own and a few others, which bounds the cost."""
    others = [name for name in place.names(EVENTS) if name != own]
    # A random start, or the spools after the first eight would never be seen.
    start = int.from_bytes(os.urandom(2), "big") % max(1, len(others))
    seen = [own, *[*others[start:], *others[:start]][:SPOOLS_SEEN]]
    return [name for name in seen if any(map(_holds_events, place.folders(name)))]


def _holds_events(folder: str) -> bool:
    """Return whether any spool file in the folder has content; live publishers keep an empty one after an outage."""
    try:
        with os.scandir(folder) as entries:
            return any(entry.name.endswith(SUFFIX) and entry.stat().st_size for entry in entries)
    except OSError:
        return False


def _note(event: str, **fields: object) -> None:
    with suppress(OSError):
        log_failure(os.environ, " ".join([event, *(f"{name}={value}" for name, value in fields.items())]))


def _append_commands(stream: str, bounds: Bounds, events: Sequence[bytes]) -> list[ScriptCall]:
    if not events:
        return []
    return [
        intake.append_events(
            intake=stream,
            max_entries=bounds.entries,
            max_bytes=bounds.bytes,
            first=0,
            events=events,
        )
    ]


def _run_scripts(connection: RespConnection, calls: Sequence[Command | ScriptCall]) -> list[Any]:
    """Return the replies of scripts and other commands; a script that the server lacks is sent whole, once more.

    Workers load every script, so the second round trip is rare. A user who may not bring scripts has no second one.
    """
    replies = connection.run_commands([call.evalsha if isinstance(call, ScriptCall) else call for call in calls])
    unknown = {
        at: call for at, call in enumerate(calls) if isinstance(call, ScriptCall) and _says(replies[at], "NOSCRIPT")
    }
    if unknown:
        again = connection.run_commands([call.eval for call in unknown.values()])
        for at, reply in zip(unknown, again, strict=True):
            replies[at] = Unavailable(SCRIPTS_MISSING) if _says(reply, "NOPERM") else reply
    return replies


def _notify(connection: RespConnection, stream: str, reply: Any) -> None:
    if must_notify(reply):
        connection.run_commands([notification(stream)])  # an error reply is no reason to send the events again


def _says(reply: Any, word: str) -> bool:
    return isinstance(reply, RedisErrorReply) and str(reply) == word


def _is_taken(reply: Any) -> bool:
    return isinstance(reply, list) and cast("list[object]", reply)[:1] == [b"appended"]


def _warm_rendering() -> None:
    """Load and compile what renders feedback, 3 ms, while a worker evaluates the call; this process waits anyway."""
    _render_feedback('{"provider_name":"","summary":""}')


def _render_feedback(raw: str) -> str:
    from tellback.contracts.feedback_text import feedback_text

    given = json.loads(raw)
    observations = [(seen["label"], seen["value"]) for seen in given.get("observations", ())]
    return feedback_text(given["provider_name"], given["summary"], observations, given.get("suggestions", ()))
