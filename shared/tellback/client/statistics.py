"""The figures behind `tellback stats`: guidance of a team or session, the state of models, and a bank over time.

Team figures come from exact daily counters. Session figures are counted from its history, which is capped, so they
cover the newest entries only. All times are milliseconds since the epoch by the server's clock, and days are UTC.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tellback import clock
from tellback.client.client_context import ClientContext
from tellback.contracts.signals import BankDay, BankStats
from tellback.guidance.summary import Summary, Totals, count_history, sum_counters, summarize
from tellback.names import Family
from tellback.state.bank_stats import BankStatistics
from tellback.state.decay import Decay
from tellback.state.embeddings import Encoders, EncoderState
from tellback.state.guidance_stats import read_stats
from tellback.state.keys import stream_of
from tellback.state.readable import readable
from tellback.state.records import read_history
from tellback.state.tool_health import CoolDown, ToolHealth
from tellback.wording import count_phrase


class DayStats(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of one UTC day; `day` is an ISO date."""

    day: str
    totals: Totals


class GuidanceStats(msgspec.Struct, frozen=True, kw_only=True):
    """Guidance figures from `since` to `until`, in milliseconds by the server's clock; `since` is None without data.

    The figures of a team are exact for each day in the window, and `by_day` has each of them. Those of a session come
    from its history, which keeps the newest 1,000 entries and does not say how feedback was delivered. `cooling` lists
    the tools that cool down now, for a team only.
    """

    team: str
    session: str | None
    since: int | None
    until: int
    summary: Summary
    by_day: list[DayStats] = []
    cooling: list[CoolDown] = []


def team_stats(context: ClientContext, days: int) -> GuidanceStats:
    """Return the figures of the team's newest `days` days.

    Raises:
        Unavailable: Redis does not answer.
    """
    found = read_stats(context.database, context.layout, days)
    return GuidanceStats(
        team=context.layout.team,
        session=None,
        since=min((day.since for day in found), default=None),
        until=context.database.now_ms(),
        summary=summarize(sum_counters(day.counters for day in found)),
        by_day=[DayStats(day=day.day.isoformat(), totals=summarize(day.counters).totals) for day in found],
        cooling=ToolHealth(context.database, context.layout).in_force(),
    )


def session_stats(context: ClientContext, session: str) -> GuidanceStats:
    """Return the figures of a session, counted from its history.

    Raises:
        InvalidInput: the session is not valid text.
        Unavailable: Redis does not answer.
    """
    entries = read_history(context.database, context.layout, session)
    counted = [entry for entry in entries if entry.get("kind") in {"tool_call", "feedback", "provider_failure"}]
    return GuidanceStats(
        team=context.layout.team,
        session=session,
        since=counted[0]["at"] if counted else None,
        until=context.database.now_ms(),
        summary=summarize(count_history(counted)),
    )


def format_time(at_ms: int) -> str:
    """Return a time in milliseconds as `YYYY-MM-DD HH:MM` in UTC."""
    return clock.utc_time(at_ms).strftime("%Y-%m-%d %H:%M")


RECENT_REPORT_MS: Final = 300_000
"""The age from which a host's report of a failing model is ignored. A host that still fails reports twice a minute."""


class ModelState(msgspec.Struct, frozen=True, kw_only=True):
    """The latest report of each worker host on its embedding model, and the number of batches that wait.

    `hosts` has reports of the last day. `waiting` counts batches that no worker has applied. `at` is the time of this
    snapshot in milliseconds since the epoch by the server's clock.
    """

    hosts: list[EncoderState]
    waiting: int
    at: int

    @property
    def problems(self) -> list[str]:
        """A line for each host whose model fails and, while batches wait, for each with another model than a bank."""
        waiting = count_phrase(self.waiting, "waiting batch", "waiting batches") + " of signals"
        lately = [host for host in self.hosts if self.at - host.at < RECENT_REPORT_MS]
        failed = [
            f"the embedding model of {host.host} fails ({host.reason}); {waiting}, and none lost: see `tellback doctor`"
            for host in lately
            if host.state == "failed"
        ]
        refused = [
            f"{waiting}, some of them for a worker with another model than that of {host.host}: {host.mismatch}"
            for host in lately
            if host.mismatch and self.waiting
        ]
        return [*failed, *refused]


def model_state(context: ClientContext) -> ModelState:
    """Return the current state of a team's embedding models.

    Raises:
        Unavailable: Redis does not answer.
    """
    # An entry leaves its stream only when it is acknowledged, so the length counts pending and deferred batches too.
    streams = [("XLEN", stream_of(shard, Family.SIGNALS)) for shard in context.layout.all]
    return ModelState(
        hosts=Encoders(context.database, context.layout).all(),
        waiting=sum(context.database.pipeline(streams)),
        at=context.database.now_ms(),
    )


MAX_HISTORIES: Final = 8

MAX_SIGNALS_READ: Final = 1_000


class FactHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A fact's global score after each of its latest signals; `at` is in milliseconds by the server's clock."""

    fact_id: str
    at: list[int]
    scores: list[float]


class BankReport(msgspec.Struct, frozen=True, kw_only=True):
    """A bank's current statistics, its latest days, and the score histories of its most signalled facts.

    `histories` come from the newest 1,000 signals, which expire seven days after the last one. `decayed` is the last
    ISO week whose decay is complete in the bank's shard, None before the first. `model` shows whether workers can apply
    signals.
    """

    stats: BankStats
    days: list[BankDay]
    histories: list[FactHistory]
    decayed: str | None
    model: ModelState


def bank_report(context: ClientContext, bank: str, days: int) -> BankReport:
    """Return the report of a bank, with its newest `days` days that had signals.

    Raises:
        NotFound: the bank has neither a signal nor a fact.
        Unavailable: Redis does not answer.
    """
    shard = context.layout.of(bank)
    found = BankStatistics(context.database, shard, bank)
    states = {state.shard: state for state in Decay(context.database, context.layout).states()}
    return BankReport(
        stats=found.stats(),
        days=found.days()[-days:],
        histories=fact_histories(found.newest_signals(MAX_SIGNALS_READ)),
        decayed=states[shard.index].done if shard.index in states else None,
        model=model_state(context),
    )


class _ScoredSignal(msgspec.Struct, frozen=True):
    fact_id: str
    at: int
    score: Annotated[float, Meta(ge=0, le=1)]


def fact_histories(signals: list[dict[str, Any]]) -> list[FactHistory]:
    """Return the score histories of the facts with the most of these signals, at most eight."""
    facts: dict[str, FactHistory] = {}
    scored = [signal for signal in signals if "score" in signal]
    for signal in readable("score of a signal", scored, lambda each: msgspec.convert(each, _ScoredSignal)):
        fact = facts.setdefault(signal.fact_id, FactHistory(fact_id=signal.fact_id, at=[], scores=[]))
        fact.at.append(signal.at)
        fact.scores.append(signal.score)
    return sorted(facts.values(), key=lambda fact: -len(fact.at))[:MAX_HISTORIES]
