"""The scheduler: visits the teams in which something may be due, and does their duties.

Beat sends a tick in each period, and a worker visits the teams that nobody has visited since. If beat is silent, a
thread of any worker does so a little later: a fallback is owed while beat, the broker or the free process is missing.
A visit is claimed, so each team has one in a period however many schedulers run, and every duty may run twice.
Requirements A-72, A-119 to A-121 and T-20.

tick ── claim due visits ── what waits in them, in one round trip ── wake streams ── duties by turns ──▶ next visits
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final

import structlog
from cachetools import LRUCache
from celery import shared_task
from redis.exceptions import ResponseError

from tellback import clock
from tellback.errors import Unavailable
from tellback.names import SWEEPS_QUEUE, Task
from tellback.state.answering import among_answering, check_answering
from tellback.state.decay import Decay
from tellback.state.fleet import ShardWork, TeamVisits, place_of, shards_at, team_of
from tellback.state.intake import StreamRef
from tellback.state.keys import FLEET, Layout, Shard
from tellback.state.presence import Presence
from tellback.state.quarantine import quarantine_fleet_keys, quarantine_keys
from tellback.state.steady import gap_ms, observe
from tellback_workers.repeating_thread import RepeatingThread
from tellback_workers.runtime import Runtime, current_runtime
from tellback_workers.sweep_jobs import sweep_jobs
from tellback_workers.sweep_turns import sweep_outbox, sweep_turns
from tellback_workers.team_search import TeamSearch
from tellback_workers.wakeups import NotPublished, publish, publish_wakeups, wake_timers

RUN_SECONDS: Final = 1.0  # of a run: fallbacks of other teams wait for the next one

BATCH: Final = 100  # visits claimed at once

EARLY: Final = 0.75  # of a period: a tick that comes a little early must not skip a visit

SILENT_PERIODS: Final = 1.5  # without a visit until beat counts as silent; more than the jitter of its ticks

ACTIVE_DECAY_SECONDS: Final = 60.0
IDLE_DECAY_SECONDS: Final = 3_600.0

KEYS_SECONDS: Final = 300.0  # between two checks of an active team's keys; a duty that fails has them checked at once
IDLE_KEYS_SECONDS: Final = 3_600.0  # also by which a team that needs a check is ahead of those that may need none
KEYS_TEAMS: Final = 4  # checked in a run: after a burst all are due, and that way 5,000 are done within the hour

LIST_SECONDS: Final = 60.0  # between two readings of the list of teams, 60 KB for 5,000

# After the last run that failed: a client asks a node again, and so notifies, within seven seconds of that.
RETURN_SECONDS: Final = 10.0

KEYS: Final = "keys"
CLOCK: Final = "clock"  # the duty that is done for all teams together

_UNKNOWN: Final = ShardWork(frozenset({"waits"}), [])  # of a shard whose node does not answer: it is visited on

_logger = structlog.get_logger("tellback.scheduler")


class TeamScheduler:
    """Visits teams for one process."""

    def __init__(self, runtime: Runtime, wake: Callable[[Sequence[StreamRef]], None]) -> None:
        """Set up a scheduler; `wake` has streams consumed, and raises `NotPublished` if nobody can be asked."""
        self._runtime = runtime
        self._wake = wake
        self._fleet = TeamVisits(runtime.database)
        self._search = TeamSearch(runtime)
        self._next_decay: LRUCache[str, float] = LRUCache(20_000)
        self._next_check: LRUCache[str, float] = LRUCache(20_000)  # of a team's keys
        self._unchecked: dict[str, tuple[Layout, float]] = {}  # teams to check, and the seconds until their next check
        self._checks_left = KEYS_TEAMS
        self._listed: deque[str] = deque()
        self._list_at = 0.0
        self._visit_all_at = math.inf
        self._unnoticed: set[str] = set()  # places where something waited while nobody could note it

    def run(self, periods: float = EARLY, stopping: Callable[[], bool] = lambda: False) -> None:
        """Visit the teams not visited for so many of beat's periods, for about a second.

        Raises:
            Unavailable: Redis is unavailable; what is due stays due.
        """
        try:
            self._run(periods, stopping)
        except ResponseError:  # somebody changed a key by hand that all teams share; the next run continues
            quarantine_fleet_keys(self._runtime.database)
            raise
        except Unavailable:
            if self._runtime.database.cluster is not None:  # on one server, who cannot notify can do nothing else
                self._visit_all_at = clock.monotonic() + RETURN_SECONDS
            raise

    def _run(self, periods: float, stopping: Callable[[], bool]) -> None:
        end = clock.monotonic() + RUN_SECONDS
        self._checks_left = KEYS_TEAMS
        only = self._runtime.settings.served_teams
        check_answering(self._runtime.database, FLEET)
        self._search.step(only)
        if clock.monotonic() >= self._visit_all_at:
            self._fleet.visit_all_soon(only)
            self._visit_all_at = math.inf
        while clock.monotonic() < end and not stopping():
            visits = self._fleet.claim_visits(periods * self._runtime.settings.beat_period, BATCH, only)
            self._visit(visits.active, visits.idle, end)
            if max(len(visits.active), len(visits.idle)) < BATCH and not visits.more:
                break
        unnoticed = list(self._unnoticed)  # a copy, as in `_check_keys`
        self._fleet.notice(unnoticed)
        self._unnoticed.difference_update(unnoticed)

    def list_teams(self) -> None:
        """Read the list of teams again if it is a minute old; only `visit_listed` needs it, and only on a cluster.

        Raises:
            Unavailable: the node with the list is away.
        """
        if self._runtime.database.cluster is not None and clock.monotonic() >= self._list_at:
            self._list_at = clock.monotonic() + LIST_SECONDS
            only = self._runtime.settings.served_teams
            self._listed = deque(team for team in self._fleet.known() if not only or team in only)

    def visit_listed(self) -> None:
        """Visit the teams of the last list, for about a second, if only the cluster's node with the list is away.

        Nobody can claim these visits, so they are for one process at a time: that which has beat's tick.

        Raises:
            Unavailable: no node answers.
        """
        database = self._runtime.database
        if database.cluster is None or database.answering([FLEET]):
            return
        end, left = clock.monotonic() + RUN_SECONDS, len(self._listed)
        while left > 0 and clock.monotonic() < end:
            teams = list(self._listed)[: min(BATCH, left)]
            self._listed.rotate(-len(teams))  # the next run, perhaps of another thread, begins after those
            left -= BATCH
            layouts, _, found = self._wake_at(teams)
            waiting = {place_of(shard) for shard, work in found.items() if work.is_active}
            self._unnoticed |= waiting
            self._do_duties(layouts, found, waiting, end)

    def _visit(self, active: Collection[str], idle: Collection[str], end: float) -> None:
        places = [*active, *idle]
        layouts, shards, found = self._wake_at(places)
        unfinished = self._do_duties(layouts, found, active, end)
        # race: a place that rests since stays out, and a visit too many finds nothing
        self._fleet.visit_soon([place for place in active if team_of(place) in unfinished])
        self._fleet.forget([place for place in places if team_of(place) not in layouts])  # removed, or Redis lost it
        works = {
            place: [found.get(shard, _UNKNOWN) for shard in some] or self._beyond(layouts[team_of(place)])
            for place, some in shards.items()
        }
        # No notification named the streams that a visit of a whole team found: its hosts may use plain XADD.
        silent = [place for place, some in works.items() if place in layouts and any(work.streams for work in some)]
        waiting = [place_of(shard) for shard, work in found.items() if shard.team in idle and work.is_active]
        self._fleet.notice([*silent, *waiting])
        self._fleet.rest([place for place in active if not any(work.is_active for work in works.get(place, ()))])

    def _wake_at(
        self, places: Collection[str]
    ) -> tuple[Mapping[str, Layout], Mapping[str, Sequence[Shard]], Mapping[Shard, ShardWork]]:
        """Wake the streams that wait at these places; return the teams' layouts, the places' shards and their work."""
        layouts = self._runtime.current_layouts({team_of(place) for place in places})
        shards = {place: shards_at(place, layouts[team_of(place)]) for place in places if team_of(place) in layouts}
        wanted = dict.fromkeys(shard for some in shards.values() for shard in some)
        found = self._fleet.work(list(wanted), self._runtime.settings.longest_consumer_lease)
        try:
            self._wake([stream for work in found.values() for stream in work.streams])
        except NotPublished as refusal:
            _logger.warning("scheduler.wakeup_failed", reason=str(refusal))
        return layouts, shards, found

    def _beyond(self, layout: Layout) -> list[ShardWork]:
        """Return the work of a shard beyond a layout: none, unless the node of the team's own key is away."""
        return [] if self._runtime.database.answering([layout.shard(0)]) else [_UNKNOWN]

    def _do_duties(
        self, layouts: Mapping[str, Layout], found: Mapping[Shard, ShardWork], active: Collection[str], end: float
    ) -> Collection[str]:
        """Do what is due, one duty per team at a time, so that a team with much to do does not hold up the others.

        Return the teams of which something is left.
        """
        noticed = {team_of(place) for place in active}
        duties: dict[str, set[str]] = {}
        for shard, work in found.items():
            duties.setdefault(shard.team, set()).update(work.duties)
        self._check_keys(layouts, {team: KEYS in some for team, some in duties.items()}, noticed)
        # In idle teams, a visit that follows the next notification observes it.
        clocks = [shard for shard, work in found.items() if CLOCK in work.duties and shard.team in noticed]
        skipped = {CLOCK} if self._observe_clocks(clocks) else set[str]()
        due = [
            (team, duty)
            for team, some in duties.items()
            for duty in self._due(team, some - skipped, active=team in noticed)
        ]
        due.sort(key=lambda each: _ORDER[each[1]])  # every team's fallbacks come before what may wait for the broker
        while due:
            unfinished = [(team, duty) for team, duty in due if not self._do(layouts[team], duty)]
            if unfinished and clock.monotonic() >= end:
                return {team for team, _ in unfinished}
            due = unfinished
        return ()

    def _check_keys(self, layouts: Mapping[str, Layout], wrong: Mapping[str, bool], active: Collection[str]) -> None:
        """Quarantine keys of another type, without which duties fail: where a visit met one, and now and then.

        Those that no run has room for wait, the longest due first. If each batch of visits chose from its own, the
        first teams of a large fleet would be due again before its last ones had their turn.
        """
        now = clock.monotonic()
        for team, is_wrong in wrong.items():
            due_at = self._next_check.setdefault(team, now)
            if is_wrong:
                due_at = self._check_soon(team)
            if due_at <= now:
                self._unchecked[team] = layouts[team], KEYS_SECONDS if team in active else IDLE_KEYS_SECONDS
        waiting = list(self._unchecked)  # a copy: in a pool of threads, a run that is late overlaps the next one
        due: list[Layout] = []
        for team in heapq.nsmallest(self._checks_left, waiting, key=lambda team: self._next_check.get(team, now)):
            if (one := self._unchecked.pop(team, None)) is not None:
                layout, seconds = one
                due.append(layout)
                self._next_check[team] = now + seconds
        self._checks_left -= len(due)
        try:
            if due:
                database = self._runtime.database
                quarantine_keys(database, [layout.only(database.answering(layout.all)) for layout in due])
        except Unavailable:
            raise
        except Exception:  # the duties that need no such key continue
            _logger.exception("scheduler.quarantine_failed", teams=len(due))

    def _check_soon(self, team: str) -> float:
        """Have a team's keys checked before those of others; return since when that is due."""
        now = clock.monotonic()
        due_at = self._next_check[team] = min(self._next_check.get(team, now), now - IDLE_KEYS_SECONDS)
        return due_at

    def _observe_clocks(self, shards: Sequence[Shard]) -> bool:
        """Observe these clocks in the round trips of one; return False if each team's have to be done alone."""
        try:
            observe(self._runtime.database, shards, gap_ms(self._runtime.settings.beat_period))
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - one team's broken key must not cost the others; alone, it is logged
            return False
        return True

    def _due(self, team: str, duties: Collection[str], *, active: bool) -> list[str]:
        left = set(duties)
        if not active:
            left.discard(CLOCK)
        if clock.monotonic() < self._next_decay.get(team, 0.0):
            left.discard("banks")
        elif "banks" in left:
            self._next_decay[team] = clock.monotonic() + (ACTIVE_DECAY_SECONDS if active else IDLE_DECAY_SECONDS)
        return [duty for duty in _DUTIES if duty in left]

    def _do(self, layout: Layout, duty: str) -> bool:
        """Do a duty; return False if more is left."""
        try:
            return among_answering(
                self._runtime.database,
                layout.all,
                lambda some: _DUTIES[duty](self._runtime, layout.only(some)),
            )
        except NotPublished as refusal:  # the broker is unavailable; the other duties need Redis alone
            _logger.warning("scheduler.wakeup_failed", team=layout.team, duty=duty, reason=str(refusal))
            return True
        except Unavailable:
            raise
        except Exception:  # a duty that fails must cost neither the others nor the other teams
            _logger.exception("scheduler.duty_failed", team=layout.team, duty=duty)
            self._check_soon(layout.team)  # a key that was changed by hand, perhaps
            return True


def _observe_clock(runtime: Runtime, layout: Layout) -> bool:
    observe(runtime.database, layout.all, gap_ms(runtime.settings.beat_period))
    return True


def _fire_timers(runtime: Runtime, layout: Layout) -> bool:
    wake_timers(runtime.intake(layout.team), runtime.database, layout)
    return True


def _sweep_outbox(runtime: Runtime, layout: Layout) -> bool:
    sweep_outbox(runtime, layout)
    return True


def _sweep_jobs(runtime: Runtime, layout: Layout) -> bool:
    sweep_jobs(runtime, layout)
    return True


def _decay(runtime: Runtime, layout: Layout) -> bool:
    if Decay(runtime.database, layout).due_shards():
        publish(Task.DECAY, (layout.team,), SWEEPS_QUEUE)
    return True


# In this order: first the clock, by which the others go, then fallbacks, because users wait for them.
_DUTIES: Final[dict[str, Callable[[Runtime, Layout], bool]]] = {
    CLOCK: _observe_clock,
    "turns": sweep_turns,
    "jobs": _sweep_jobs,
    "timers": _fire_timers,
    "outbox": _sweep_outbox,
    "banks": _decay,
}
_ORDER: Final = {duty: place for place, duty in enumerate(_DUTIES)}


@shared_task(name=Task.VISIT_TEAMS)
def visit_teams() -> None:
    """Visit the teams in which something may be due. Beat sends this in each period."""
    runtime = current_runtime()
    scheduler = _scheduler_of(runtime)
    try:
        scheduler.run()
        Presence(runtime.database, runtime.settings.team).note_beat()
        scheduler.list_teams()
    except Unavailable as away:
        if runtime.lines.is_due("scheduler.postponed", str(away)):
            _logger.warning("scheduler.postponed", reason=str(away))
        with suppress(Unavailable):  # nothing answers
            scheduler.visit_listed()


@lru_cache(maxsize=1)
def _scheduler_of(runtime: Runtime) -> TeamScheduler:
    """Return the scheduler of this process, which remembers how far its walk over the keys has come."""
    return TeamScheduler(runtime, lambda places: publish_wakeups(runtime.database, places, again=True))


class StandIn(RepeatingThread):
    """A thread of a worker's main process that visits what nobody else does."""

    def __init__(self, runtime: Runtime, wake: Callable[[Sequence[StreamRef]], None]) -> None:
        """Set up the thread; no other process may share the connections of `runtime`.

        `wake` gets the streams that a run found, after the run: it may wait for a broker, and users for fallbacks.
        """
        super().__init__("scheduler", _logger, "scheduler.postponed", runtime.lines, runtime.settings.beat_period / 2)
        self._found: list[StreamRef] = []
        self._wake = wake
        self._scheduler = TeamScheduler(runtime, self._found.extend)

    def repeat(self) -> None:
        """Make the visits that are due, then wake what they found."""
        try:
            self._scheduler.run(SILENT_PERIODS, self._stopping.is_set)
        finally:
            found = self._found[:]
            self._found.clear()
            self._wake(found)
