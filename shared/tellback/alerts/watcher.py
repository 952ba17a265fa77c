"""The rules, and the check of one team or of the servers for one receiver: send each change of what it knows once.

A rule says when a state is an alert, what it says, and which runbook it links to.

Each receiver has a thread and a memory of its own, so that one that hangs or fails delays no other. A notice is built
again for each attempt: after an outage, the receiver learns the present state, not an old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from redis.exceptions import NoPermissionError

from tellback import clock
from tellback.alerts.settings import AlertSettings
from tellback.alerts.sinks import AlertNotice, NotDelivered, NoticeState, Sink
from tellback.backoff import Backoff
from tellback.client.fleet import TeamStatus
from tellback.errors import Unavailable
from tellback.log import get_logger
from tellback.state.database import Database
from tellback.state.notified_alerts import NotifiedAlerts
from tellback.state.server_info import Eviction, read_eviction
from tellback.state.unavailable import NotPermitted
from tellback.wording import be, count_phrase

BACKOFF: Final = Backoff(first=1.0, longest=300.0)
LEASE_PERIODS: Final = 3.0  # checks that a process may miss before another takes over
MAX_RETRY_AFTER: Final = 3_600.0  # seconds; a receiver that asks for more is asked again after an hour

_logger = get_logger("tellback.alerts")

AlertSeverity = Literal["critical", "warning"]


class ServersStatus(NamedTuple):
    """The Redis servers now: they are all teams', so that `team` is empty."""

    at: int
    eviction: Eviction
    team: str = ""


def read_servers(database: Database) -> ServersStatus:
    """Return the state of the servers; a user who may not ask them sees no alert.

    Raises:
        Unavailable: Redis does not answer.
    """
    try:
        found = read_eviction(database)
    except (NotPermitted, NoPermissionError):
        found = Eviction({})
    return ServersStatus(database.now_ms(), found)


class AlertRule(NamedTuple):
    """One rule. `name` is also that of its runbook; `summary` says what holds now, or is None while all is well.

    `action` has `{team}` where the name of the team belongs: its reader's own team may be another.
    """

    name: str
    severity: AlertSeverity
    summary: Callable[[Any, AlertSettings], str | None]  # of a `TeamStatus`, or in `SERVER_RULES` a `ServersStatus`
    action: str


def _overdue(status: TeamStatus, settings: AlertSettings) -> str | None:
    if status.sweep_lag <= settings.overdue:
        return None
    count = count_phrase(status.turns_overdue, "turn")
    longest = f"the longest by {status.sweep_lag:.0f} s"
    return f"{count} {be(status.turns_overdue)} overdue, {longest}; their users hear nothing"


def _dead_letters(status: TeamStatus, settings: AlertSettings) -> str | None:
    if status.dead_letters < settings.dead_letters:
        return None
    return f"{count_phrase(status.dead_letters, 'event')} could not be applied"


def _lag(status: TeamStatus, settings: AlertSettings) -> str | None:
    late = {family: waited for family, waited in status.waited.items() if waited > settings.lag}
    if not late:
        return None
    return "events wait: " + ", ".join(
        f"{status.waiting[family]} of {family}, the oldest for {waited:.0f} s" for family, waited in late.items()
    )


def _memory(status: TeamStatus, settings: AlertSettings) -> str | None:
    share = status.memory_share
    if share is None or share <= settings.memory_share:
        return None
    return f"the team takes about {share:.0%} of Redis' memory; its share is {settings.memory_share:.0%}"


def _eviction(status: ServersStatus, _settings: AlertSettings) -> str | None:
    found = status.eviction
    if not found.policies:
        return None
    policies = " and ".join(sorted(set(found.policies.values())))
    gone = f"; {count_phrase(found.keys, 'key')} deleted since it started" if found.keys else ""
    return f"Redis may delete events and answers that wait: its maxmemory-policy is {policies}{gone}"


RULES: Final[tuple[AlertRule, ...]] = (
    AlertRule(
        "overdue-turns",
        "critical",
        _overdue,
        "Start a worker, any one; `tellback doctor --team {team}` says what is missing.",
    ),
    AlertRule(
        "dead-letters",
        "warning",
        _dead_letters,
        "`tellback dead list --team {team}` says why; fix the cause, then replay.",
    ),
    AlertRule(
        "intake-lag", "warning", _lag, "Start more workers of these queues; see `tellback doctor --team {team}`."
    ),
    AlertRule(
        "memory-share",
        "warning",
        _memory,
        "See what grows with `tellback team --team {team}`; end it, or raise `maxmemory`.",
    ),
)

SERVER_RULES: Final[tuple[AlertRule, ...]] = (
    AlertRule(
        "eviction",
        "critical",
        _eviction,
        "Set `maxmemory-policy noeviction` on the server that `tellback doctor` names.",
    ),
)


def _rules_of(status: TeamStatus | ServersStatus) -> tuple[AlertRule, ...]:
    return SERVER_RULES if isinstance(status, ServersStatus) else RULES


class AlertWatcher:
    """Notifies one receiver of the alerts of one team, or of the servers."""

    def __init__(
        self,
        sink: Sink,
        notified: NotifiedAlerts,
        read: Callable[[], TeamStatus | ServersStatus],
        settings: AlertSettings,
    ) -> None:
        self._sink = sink
        self._notified = notified
        self._read = read
        self._settings = settings
        self._well_since: dict[str, float] = {}
        self._since: dict[str, int] = {}  # of those that the receiver has not accepted yet: each attempt has one key
        self._delays: Iterator[float] = BACKOFF.delays()

    def release(self) -> None:
        """Let another process notify the receiver at once.

        Raises:
            Unavailable: Redis does not answer.
        """
        self._notified.release()

    def step(self) -> float:
        """Check once, send what has changed, and return the seconds to wait, which grow with each failure."""
        try:
            self._check()
        except NotDelivered as error:
            own = next(self._delays)
            delay = own if error.retry_after is None else max(own, min(error.retry_after, MAX_RETRY_AFTER))
            _logger.warning(
                "alerts.not_delivered", receiver=self._sink.name, reason=str(error), retry_in=round(delay, 1)
            )
            return delay
        except Unavailable as error:
            _logger.warning("alerts.redis_unavailable", receiver=self._sink.name, reason=str(error))
            return self._settings.period
        except Exception:  # a key that somebody changed by hand, perhaps: no thread may end for good
            _logger.exception("alerts.failed", receiver=self._sink.name)
            return self._settings.period
        self._delays = BACKOFF.delays()
        return self._settings.period

    def _check(self) -> None:
        lease = max(LEASE_PERIODS * self._settings.period, 2 * self._settings.timeout)
        if not self._notified.acquire(lease):
            self._since.clear()
            return
        status, known = self._read(), self._notified.firing()
        if known:
            self._notified.renew()
        for rule in _rules_of(status):
            summary = rule.summary(status, self._settings)
            if summary is None or rule.name in known:
                self._since.pop(rule.name, None)
            if summary is not None:
                self._well_since.pop(rule.name, None)
                if rule.name not in known:
                    since = self._since.setdefault(rule.name, status.at)
                    self._send(rule, status, "firing", summary, since)
                    self._notified.note_firing(rule.name, since)
            elif rule.name in known and self._is_well(rule.name):
                seconds = (status.at - known[rule.name]) / 1000
                self._send(rule, status, "resolved", f"over, after {seconds:.0f} s", known[rule.name])
                self._notified.note_resolved(rule.name)
                self._well_since.pop(rule.name, None)
            if not self._notified.acquire(lease):  # the receiver took so long that another process has taken over
                return

    def _send(
        self, rule: AlertRule, status: TeamStatus | ServersStatus, state: NoticeState, summary: str, since: int
    ) -> None:
        self._sink.send(
            AlertNotice(
                key=f"{status.team}:{rule.name}:{since}:{state}",
                team=status.team,
                alert=rule.name,
                state=state,
                severity=rule.severity,
                summary=summary,
                action=rule.action.format(team=status.team),
                runbook=self._settings.runbook(rule.name),
                since=since,
                at=status.at,
            )
        )

    def _is_well(self, alert: str) -> bool:
        """Check whether the alert's condition has been false long enough: one that flickers is one alert."""
        since = self._well_since.setdefault(alert, clock.monotonic())
        return clock.monotonic() - since >= self._settings.resolve_after


def firing_now(status: TeamStatus | ServersStatus, settings: AlertSettings) -> Mapping[AlertRule, str]:
    """Return the rules whose condition is true, each with its text."""
    found = ((rule, rule.summary(status, settings)) for rule in _rules_of(status))
    return {rule: summary for rule, summary in found if summary is not None}
