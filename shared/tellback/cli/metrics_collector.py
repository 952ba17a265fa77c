"""The Prometheus collector: turns, outbox, intake, commands and signals, read from Redis at each scrape.

Counters live in Redis, not in this process, so that a restart of the exporter resets none. Label values are bounded
in number and length, and never hold a user's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from redis.exceptions import NoPermissionError

from tellback.client.client_context import ClientContext
from tellback.client.connection import Tellback
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.sanitize import terminal_line
from tellback.state.bank_stats import signals_applied
from tellback.state.decay import Decay
from tellback.state.embeddings import Encoders
from tellback.state.gauges import ChannelState, Histogram, TurnStats, command_gauges, records_by_outcome
from tellback.state.guidance_stats import read_stats
from tellback.state.keys import stream_of
from tellback.state.presence import Presence
from tellback.state.quarantine import ReadingDatabase
from tellback.state.server_info import read_eviction
from tellback.state.unavailable import NotPermitted

LABEL_CHARS: Final = 64  # of pools and channels, which hosts name; equal beginnings share one series


def _label(name: str) -> str:
    """Return a name from outside as a label's value; a scrape is also read in a terminal."""
    return terminal_line(name)[:LABEL_CHARS]


def command_metrics(context: ClientContext) -> Iterator[Metric]:
    """Yield the metrics of commands, with a bounded number of Redis calls."""
    now = command_gauges(context.database, context.layout)
    yield GaugeMetricFamily("tellback_commands_running", "Commands under a worker's lease.", value=now.running)
    yield GaugeMetricFamily(
        "tellback_commands_lease_expired",
        "Commands whose lease expired and that the sweep has not declared lost yet.",
        value=now.lease_expired,
    )
    queued = GaugeMetricFamily("tellback_commands_queued", "Commands waiting for a worker.", labels=["pool"])
    waiting: dict[str, int] = {}
    for pool, count in now.queued.items():
        label = _label(pool)
        waiting[label] = waiting.get(label, 0) + count
    for pool, count in waiting.items():
        queued.add_metric([pool], count)
    yield queued
    records = CounterMetricFamily("tellback_command_records", "Records of finished commands.", labels=["outcome"])
    for outcome, count in records_by_outcome(context.database, context.layout).items():
        records.add_metric([outcome], count)
    yield records


def signal_metrics(context: ClientContext) -> Iterator[Metric]:
    """Yield the metrics of signals, with a bounded number of Redis calls."""
    database, layout = context.database, context.layout
    applied = CounterMetricFamily("tellback_signals_applied", "Signals applied to banks.", labels=["type"])
    for kind, count in signals_applied(database, layout).items():
        applied.add_metric([kind], count)
    yield applied
    banks = sum(database.pipeline([("ZCARD", shard.key("banks")) for shard in layout.all]))
    yield GaugeMetricFamily("tellback_banks", "Banks that have received a signal.", value=banks)
    yield from _decay_metrics(Decay(database, layout), database.now_ms())
    hosts = GaugeMetricFamily(
        "tellback_encoders", "Worker hosts by the state of their embedding model in the last day.", labels=["state"]
    )
    reports, workers = Encoders(database, layout).all(), Presence(database, layout.team).workers()
    for state in ("loaded", "failed"):
        # A host reports to a team once the team needs the model; a worker that loads it at its start says so before.
        reported = [report.host for report in reports if report.state == state]
        preloaded = {worker.host for worker in workers if worker.preload == state}
        hosts.add_metric([state], len(reported) + len(preloaded.difference(reported)))
    yield hosts


def _decay_metrics(decay: Decay, now: int) -> Iterator[Metric]:
    due = len(decay.due_shards())
    yield GaugeMetricFamily("tellback_decay_due", "Shards whose decay of this week is pending.", value=due)
    age = GaugeMetricFamily(
        "tellback_decay_age_seconds", "Time since the last weekly decay, in the shard where it is longest ago."
    )
    ages = [now - state.at for state in decay.states() if state.at is not None]
    if ages:
        age.add_metric([], max(0, *ages) / 1000)
    yield age


def eviction_metrics(context: ClientContext) -> Iterator[Metric]:
    """Yield what the servers delete when they are full; without a value if this user may not ask them."""
    servers = GaugeMetricFamily("tellback_evicting_servers", "Redis servers whose policy may delete keys.")
    keys = CounterMetricFamily("tellback_evicted_keys", "Keys that Redis deleted because it was full.")
    with suppress(NotPermitted, NoPermissionError):
        found = read_eviction(context.database)
        servers.add_metric([], len(found.policies))
        keys.add_metric([], found.keys)
    yield servers
    yield keys


BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)  # as in turnstats.lua

TURN_EVENTS: Final = (
    *("opened", "answered", "fallback", "replaced", "late", "stale", "no_reply"),
    *("merged", "deferred", "handed_over", "restored"),
)

DELIVERY_EVENTS: Final = ("delivered", "retry", "wait", "ambiguous", "dead", "dropped")

GUIDANCE: Final = ("calls", "errors", "offered", "taken", "loops", "repeated_failures", "fires")


class TellbackCollector(Collector):
    """Reads Redis at each scrape; while Redis is unavailable, reports `tellback_up` as 0 and nothing else."""

    def __init__(self, tb: Tellback) -> None:
        self._tb = tb

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering this collector makes no Redis call."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return every metric, or `tellback_up` alone if Redis is unavailable."""
        context = self._tb.context
        try:
            found = [
                *self._turn_metrics(),
                *self._outbox_metrics(),
                *self._other_metrics(),
                *command_metrics(context),
                *signal_metrics(context),
                *eviction_metrics(context),
            ]
            if isinstance(context.database, ReadingDatabase) and context.database.away:
                raise next(iter(context.database.away.values()))  # sums without a shard would look like counters reset
        except Unavailable:
            return [_build_gauge("up", "1 if Redis answered this scrape, else 0.", 0)]
        return [_build_gauge("up", "1 if Redis answered this scrape, else 0.", 1), *found]

    def _turn_metrics(self) -> Iterator[Metric]:
        stats = TurnStats(self._tb.context.database, self._tb.context.layout)
        now, counts = stats.gauges(), stats.counts()
        yield _build_gauge("turns_open", "Turns whose user is waiting for a first answer.", now.open)
        yield _build_gauge("turns_overdue", "Open turns past their deadline.", now.overdue)
        yield _build_gauge("sweep_lag_seconds", "Time since the deadline of the most overdue turn.", now.lag)
        events = CounterMetricFamily("tellback_turn_events", "Turns by what happened to them.", labels=["event"])
        for event in TURN_EVENTS:
            events.add_metric([event], counts.turns.get(event, 0))
        yield events
        first = _build_histogram("turn_first_answer_seconds", "Time from opening a turn to its first answer.", ["kind"])
        for kind in ("answer", "fallback"):
            _add_histogram(first, [kind], counts.times.get(kind))
        yield first
        delay = _build_histogram("turn_fallback_delay_seconds", "Time from a turn's deadline to its fallback.", [])
        _add_histogram(delay, [], counts.times.get("overdue"))
        yield delay
        sent = CounterMetricFamily(
            "tellback_outbox_events", "Deliveries by how they were settled.", labels=["channel", "event"]
        )
        totals: dict[tuple[str, str], int] = {}
        for (event, channel), count in counts.deliveries.items():
            place = (_label(channel), event)
            totals[place] = totals.get(place, 0) + count
        for channel in sorted({channel for channel, _ in totals}):
            for event in DELIVERY_EVENTS:
                sent.add_metric([channel, event], totals.get((channel, event), 0))
        yield sent

    def _outbox_metrics(self) -> Iterator[Metric]:
        states: dict[str, ChannelState] = {}
        for channel, state in TurnStats(self._tb.context.database, self._tb.context.layout).channels().items():
            label = _label(channel)
            states[label] = states[label] + state if label in states else state
        for name, text, read in _CHANNEL_GAUGES:
            family = GaugeMetricFamily(f"tellback_outbox_{name}", text, labels=["channel"])
            for channel, state in states.items():
                value = read(state)
                if value is not None:
                    family.add_metric([channel], value)
            yield family

    def _other_metrics(self) -> Iterator[Metric]:
        context = self._tb.context
        waiting = GaugeMetricFamily("tellback_intake_entries", "Entries not yet applied.", labels=["family"])
        for family in Family:
            streams = [("XLEN", stream_of(shard, family)) for shard in context.layout.all]
            waiting.add_metric([family.value], sum(context.database.pipeline(streams)))
        yield waiting
        yield _build_gauge("dead_letters", "Entries that could not be applied.", self._tb.dead.count())
        yield _build_gauge("workers", "Live workers.", len(Presence(context.database, context.layout.team).workers()))
        today = GaugeMetricFamily("tellback_guidance_today", "Guidance counters of today (UTC).", labels=["measure"])
        totals = dict.fromkeys(GUIDANCE, 0)
        for day in read_stats(context.database, context.layout, days=1):
            for counter, count in day.counters.items():
                measure = counter.rpartition(":")[2]
                if counter.startswith(("tool:", "provider:")) and measure in totals:
                    totals[measure] += count
        for measure, count in totals.items():
            today.add_metric([measure], count)
        yield today


_CHANNEL_GAUGES: Final[tuple[tuple[str, str, Callable[[ChannelState], float | None]], ...]] = (
    ("conversations", "Conversations with unsettled deliveries.", lambda state: state.conversations),
    ("deliveries", "Unsettled deliveries.", lambda state: state.deliveries),
    ("ambiguous", "Conversations held by a delivery that may have been sent.", lambda state: state.ambiguous),
    ("wait_seconds", "Time that the oldest ready delivery has waited.", lambda state: max(0.0, state.waits)),
    ("unpolled_seconds", "Time since a transport last asked for deliveries.", lambda state: state.unpolled),
)


def build_registry(tb: Tellback) -> CollectorRegistry:
    """Build a registry of its own, without the metrics of this process that the default registry adds."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(TellbackCollector(tb))
    return registry


def render_metrics(tb: Tellback) -> str:
    """Return the text that a scrape gets."""
    return generate_latest(build_registry(tb)).decode()


def _build_gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tellback_{name}", text, value=value)


def _build_histogram(name: str, text: str, labels: list[str]) -> HistogramMetricFamily:
    return HistogramMetricFamily(f"tellback_{name}", text, labels=labels)


def _add_histogram(family: HistogramMetricFamily, labels: list[str], found: Histogram | None) -> None:
    buckets, total = list[tuple[str, float]](), 0
    for bound in (*BOUNDS, None):
        total += found.buckets.get(bound, 0) if found else 0
        buckets.append(("+Inf" if bound is None else str(bound), total))
    family.add_metric(labels, buckets, found.sum if found else 0.0)
