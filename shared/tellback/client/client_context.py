"""The state that all calls of one client share: connections, shards, publisher, circuit breaker and local model.

`connect` makes one `ClientContext`, and prompts, banks and turns hold a reference to it. It has two connection pools:
`quick_database` gives up at the call deadline of `prompt.feedback`, `database` waits as long as a decision may take.
Whatever holds locks or threads must register with `run_in_child`, since hosts fork.
"""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from cachetools import TTLCache
from redis import exceptions

from tellback import clock
from tellback.contracts.signals import RecallReply, RecallRequested
from tellback.errors import ConfigurationError, Unavailable
from tellback.forks import HasLock, run_in_child
from tellback.log import get_logger
from tellback.messaging.append_call import notification
from tellback.messaging.publisher import Publisher
from tellback.messaging.team_cache import SpoolLocation, TeamCache, TeamIdentity
from tellback.messaging.team_renewal import TeamRenewal
from tellback.names import Family
from tellback.settings import PREFIX, Settings, put_into_force
from tellback.settings_checks import wrong_setting
from tellback.state.admission import Counted, admit_call, is_limited
from tellback.state.call_deadline import CircuitBreaker
from tellback.state.database import Database
from tellback.state.keys import FLEET, Layout, Shard
from tellback.state.list_waiter import ListWaiter
from tellback.state.team import existing_layouts, no_team, open_layout, team_id
from tellback.state.tool_health import FleetHealth, ToolHealth
from tellback.state.unavailable import RedisFull
from tellback.tracing import Tracing, tracing_of
from tellback.urls import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from tellback.embedding.recall import RecallAnswerer

REPEAT_SECONDS: Final = 60.0
"""Seconds after which a client asks again."""

MAX_NAMES: Final = 10_000


class Admission:
    """Asks whether the team may have one more session or bank: before its first event, and once a minute.

    Safe across threads, and in a forked child. Requirement A-122. A team without limits costs a round trip a minute for
    each shard that gets something new. While Redis is away, everything is let in: the events wait on the host's disk,
    and agents continue.
    """

    def __init__(self, database: Database, layout: Layout, breaker: CircuitBreaker) -> None:
        self._db = database
        self._layout = layout
        self._breaker = breaker
        self._begin()
        run_in_child(self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._known: TTLCache[tuple[str, Shard, str], None] = TTLCache(MAX_NAMES, REPEAT_SECONDS, clock.monotonic)

    def ask(self, kind: Counted, name: str) -> None:
        """Return if the team may use this session or bank.

        Raises:
            TooMany: it has as many as an operator allows.
        """
        shard = self._layout.of(name)
        unlimited, admitted = (kind, shard, ""), (kind, shard, name)
        with self._lock:
            if unlimited in self._known or admitted in self._known:
                return
        if self._breaker.is_open:
            return
        try:
            reply = self._db.run(admit_call(shard, kind, name))
        except Unavailable:  # the append that follows says why
            self._breaker.trip()
            return
        limited = is_limited(shard, kind, reply)
        with self._lock:
            self._known[admitted if limited else unlimited] = None


class AwaitedEvents(HasLock):
    """Knows, for each bank, the last event about its facts that this client published and has not seen applied.

    A recall waits for it (requirement S-47). Safe across threads, and in a forked child. Of more than `MAX_NAMES`
    banks, those that published longest ago are forgotten.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, str] = {}

    def of(self, bank: str) -> str | None:
        """Return the event's id; None if there is nothing to wait for."""
        return self._last.get(bank)

    def note(self, bank: str, event_id: str) -> None:
        """Note an event that was published."""
        with self._lock:
            self._last.pop(bank, None)
            self._last[bank] = event_id
            if len(self._last) > MAX_NAMES:
                del self._last[next(iter(self._last))]

    def forget(self, bank: str, event_id: str) -> None:
        """Forget an event that was applied, unless a later one was published meanwhile."""
        with self._lock:
            if self._last.get(bank) == event_id:
                del self._last[bank]


class LocalRecall:
    """Answers recalls in this process, without a worker. Requirement S-41.

    One instance serves all banks of a client. The first recall loads the model, so a client that never recalls does
    not pay for it.
    """

    def __init__(self, settings: Settings, database: Database, layout: Layout) -> None:
        self._settings = settings
        self._db = database
        self._layout = layout
        self._begin()
        run_in_child(self._begin)

    def _begin(self) -> None:
        """Reset the model, also in a forked child, where its threads are gone and its locks may be held."""
        self._answering: RecallAnswerer | None = None
        self._guard = threading.Lock()

    def answer(self, request: RecallRequested) -> RecallReply:
        """Return the hits, or the reason why there are none. The first call loads the model.

        Raises:
            ConfigurationError: a package that the model needs is not installed on this host.
            Unavailable: the model does not load, or Redis does not answer.
        """
        answering = self._answerer()
        answering.clusters.embedder.ready()
        shard = self._layout.of(request.bank)
        vectors, failures = answering.clusters.embedder.embed_each([request.query], shard, urgent=True)
        for failure in failures.values():
            return answering.answer_without_vector(shard, request, failure)
        return answering.answer(shard, request, vectors[request.query])

    def _answerer(self) -> RecallAnswerer:
        with self._guard:
            if self._answering is None:
                self._answering = self._load_answerer()
            return self._answering

    def _load_answerer(self) -> RecallAnswerer:
        try:
            from tellback.embedding.clusters import ClusterCache  # noqa: PLC0415 - numpy is not of the base install
            from tellback.embedding.encoder import encoder_for  # noqa: PLC0415 - as above
            from tellback.embedding.recall import RecallAnswerer  # noqa: PLC0415 - as above
        except ImportError as error:
            raise ConfigurationError(
                f"TELLBACK_RECALL_IN_PROCESS is set, and this host lacks {error.name}: install tellback[workers], or "
                "let workers answer"
            ) from error
        return RecallAnswerer(ClusterCache(self._settings, self._db, self._layout, encoder_for(self._settings)))


class ActivityNotice:
    """Notifies the scheduler that this client decides something for its team.

    A turn comes into being without an event, and its deadline needs visits of its team. They continue for a minute
    after a notification, so one in `EVERY` seconds is enough.
    """

    EVERY: ClassVar[float] = 20.0

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._team = layout.team
        self._renewal = TeamRenewal(database, layout)
        self._next = -math.inf

    def send(self) -> None:
        """Notify the scheduler before the decision, unless this client did so lately.

        The decision needs only the node of its own shard, so it goes on while the node of a cluster that takes
        notifications is away. Workers that know the team visit its places meanwhile all the same.

        Raises:
            Unavailable: Redis does not answer, or workers must first quarantine the key of the notifications.
        """
        now = clock.monotonic()
        if now < self._next or not self._db.answering([FLEET]):
            return
        try:
            self._db.command(*notification(self._team))
        except RedisFull:
            pass  # it opens no turn either, and an answer must not fail for this
        except exceptions.ResponseError as error:  # somebody changed the stream's key by hand
            raise Unavailable(f"the scheduler cannot be notified; try again in some seconds: {error}") from error
        except Unavailable as away:
            hangs = isinstance(away.__cause__, exceptions.TimeoutError)  # and took the time of the whole call
            if hangs or self._db.answering([FLEET]):
                raise
            return  # the next decision notifies, if it is back by then
        self._renewal.renew()
        self._next = now + self.EVERY


@dataclass(frozen=True, slots=True)
class ClientContext:
    """The shared state of one client; `quick_database` is the same Redis with the short call deadline."""

    settings: Settings
    database: Database
    quick_database: Database
    layout: Layout
    publisher: Publisher
    feedback_waiter: ListWaiter = field(init=False)
    """Blocks until a mailbox has feedback."""
    health: FleetHealth = field(init=False)
    """The tools that cool down for the whole team; one cache for all prompts of this client."""

    breaker: CircuitBreaker = field(default_factory=CircuitBreaker, init=False)
    """Open for half a second after a call of `quick_database` went unanswered."""

    awaited_events: AwaitedEvents = field(default_factory=AwaitedEvents, init=False)
    """For each bank, the event about its facts that a recall waits for."""
    activity: ActivityNotice = field(init=False)
    """Makes the scheduler visit the team."""
    admission: Admission = field(init=False)
    """Asks whether the team may have one more session or bank."""
    local_recall: LocalRecall = field(init=False)
    """Answers recalls in this process if `recall_in_process` is set."""
    tracing: Tracing | None = field(init=False)
    """The tracing of this process, if it is set."""

    def __post_init__(self) -> None:
        """Make the parts that depend on others; `object.__setattr__`, since the class is frozen."""
        object.__setattr__(self, "feedback_waiter", ListWaiter(self.quick_database))
        object.__setattr__(self, "health", FleetHealth(ToolHealth(self.quick_database, self.layout), self.breaker))
        object.__setattr__(self, "activity", ActivityNotice(self.database, self.layout))
        object.__setattr__(self, "admission", Admission(self.quick_database, self.layout, self.breaker))
        object.__setattr__(self, "local_recall", LocalRecall(self.settings, self.database, self.layout))
        object.__setattr__(self, "tracing", tracing_of(self.settings))

    def flush(self) -> None:
        """Send the buffered events, for a call that must come after them.

        Raises:
            Unavailable: Redis does not answer, so the call itself need not wait for it again. They are in the spool.
            SpoolFull: Redis does not answer, and the spool is full.
        """
        away = self.publisher.flush()
        if away is not None:
            raise away

    def prepare_turn(self) -> None:
        """Send what a new turn must not wait for.

        Raises:
            Unavailable: Redis does not answer.
        """
        # A host that only makes decisions never publishes, so answers of its dead predecessor would stay on disk.
        self.publisher.send_orphans(Family.TURNS)
        self.activity.send()


_logger = get_logger("tellback.client")


def check_url(url: object) -> str | None:
    """Return the URL that a host passed, None if it passed none.

    Raises:
        ConfigurationError: it is not text.
    """
    if url is not None and not isinstance(url, str):
        raise ConfigurationError(f"url is {type(url).__name__}; use a text such as redis://127.0.0.1:6379/0")
    return url


def check_settings(settings: object) -> Settings:
    """Return the settings that a host passed, once they are checked as those of the environment are, and in force.

    Raises:
        ConfigurationError: they are of another type, or one of them is wrong.
    """
    if not isinstance(settings, Settings):
        raise ConfigurationError(f"settings is {type(settings).__name__}; use tellback.Settings(redis_url=..., ...)")
    values = msgspec.structs.asdict(settings)
    try:
        msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        name, wrong = wrong_setting(str(error), values)
        raise ConfigurationError(f"{PREFIX}{name.upper()}: {wrong}") from error
    put_into_force(settings, f"{PREFIX}TEAM")
    return settings


def locate_team(
    database: Database, settings: Settings, created: Callable[[], object] | None = None
) -> tuple[Layout, SpoolLocation]:
    """Return the team's layout and the folder on this host where events for this Redis are spooled.

    `created` is called if there was no such team.

    While Redis is away, the shards are those that the host cached from the last connection. If it never connected, they
    are those of the settings.
    """
    cache = TeamCache(str(settings.data_path), settings.team, settings.redis_url)
    known = cache.read()
    try:
        layout = _open_team(database, settings, created)
        id_ = team_id(database, settings.team)
    except Unavailable:
        _logger.warning("connect.redis_unavailable", url=without_secrets(settings.redis_url))
        return Layout(settings.team, known.shards if known else settings.shards), cache.spool_location(known)
    # The id, not the URL, names the spool's folder: events for one Redis must never reach another (requirement A-34).
    fresh = known.updated(layout.shards, id_) if known else TeamIdentity(layout.shards, id_)
    if fresh != known:
        try:
            cache.write(fresh)
        except OSError as error:  # a host with a read-only disk still works, except while Redis is away
            _logger.debug("connect.team_not_cached", reason=str(error))
    return layout, cache.spool_location(fresh)


def find_team(database: Database, settings: Settings, *, required: bool) -> tuple[Layout, SpoolLocation]:
    """Return what `locate_team` returns, without creating the team.

    Raises:
        NotFound: there is no such team, and it is `required`.
    """
    try:
        exists = bool(existing_layouts(database, [settings.team]))
    except Unavailable:
        exists = True  # the caller's own call reports it, after it has checked its arguments
    if exists:
        return locate_team(database, settings)
    if required:
        raise no_team(settings.team)
    from tellback.state.server_info import refuse_old  # noqa: PLC0415 - only commands find no team

    refuse_old(database, settings.redis_url)
    cache = TeamCache(str(settings.data_path), settings.team, settings.redis_url)
    return Layout(settings.team, settings.shards), cache.spool_location(cache.read())


def _open_team(database: Database, settings: Settings, created: Callable[[], object] | None) -> Layout:
    """Return the team's layout. A new team is announced, so that `tellback teams list` has it before its first event.

    Raises:
        Unavailable: Redis does not answer.
    """
    for layout in existing_layouts(database, [settings.team]):
        return layout
    layout = open_layout(database, settings.team, settings.shards)
    with suppress(exceptions.ResponseError):  # the stream's key is unusable for now; the first event announces it too
        database.command(*notification(settings.team))  # race: another client that has just opened it announces it too
    if created is not None:
        created()
    return layout
