"""What Prometheus is told: turns, outbox, intake, commands, signals. Labels are few, and no user's text is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tellback.cli.metrics_commands import command_metrics
from tellback.cli.metrics_signals import signal_metrics
from tellback.client.connection import Tellback
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.state.guidance_stats import read_stats
from tellback.state.keys import stream_of
from tellback.state.presence import Presence
from tellback.state.turn_stats import ChannelState, Histogram, TurnStats

LABEL_CHARS: Final = 64
BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)  # those of turnstats.lua
TURN_EVENTS: Final = (
    *("opened", "answered", "fallback", "replaced", "late", "stale", "no_reply"),
    *("merged", "deferred", "handed_over", "restored"),
)
DELIVERY_EVENTS: Final = ("delivered", "retry", "wait", "ambiguous", "dead", "dropped")
GUIDANCE: Final = ("calls", "errors", "offered", "taken", "loops", "repeated_failures", "fires")


class TellbackCollector(Collector):
    """Asks Redis with each scrape; while it is away `tellback_up` is 0 and nothing else is told."""

    def __init__(self, tb: Tellback) -> None:
        """Take the client of the team."""
        self._tb = tb

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: registering asks no Redis."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Every metric."""
        context = self._tb.context
        try:
            found = [
                *self._turns(),
                *self._outbox(),
                *self._rest(),
                *command_metrics(context),
                *signal_metrics(context),
            ]
        except Unavailable:
            return [_gauge("up", "Whether Redis answers.", 0)]
        return [_gauge("up", "Whether Redis answers.", 1), *found]

    def _turns(self) -> Iterator[Metric]:
        stats = TurnStats(self._tb.context.database, self._tb.context.layout)
        now, counts = stats.now(), stats.counts()
        yield _gauge("turns_open", "Turns whose user still waits for a first answer.", now.open)
        yield _gauge("turns_overdue", "Open turns past their deadline.", now.overdue)
        yield _gauge("sweep_lag_seconds", "How long the longest overdue turn is past its deadline.", now.lag)
        events = CounterMetricFamily("tellback_turn_events", "What became of turns.", labels=["event"])
        for event in TURN_EVENTS:
            events.add_metric([event], counts.turns.get(event, 0))
        yield events
        first = _histogram("turn_first_answer_seconds", "From the opening of a turn to its first answer.", ["kind"])
        for kind in ("answer", "fallback"):
            _observed(first, [kind], counts.times.get(kind))
        yield first
        delay = _histogram("turn_fallback_delay_seconds", "From a turn's deadline to its fallback.", [])
        _observed(delay, [], counts.times.get("overdue"))
        yield delay
        sent = CounterMetricFamily(
            "tellback_outbox_events", "How deliveries were settled.", labels=["channel", "event"]
        )
        totals: dict[tuple[str, str], int] = {}
        for (event, channel), count in counts.deliveries.items():
            place = (channel[:LABEL_CHARS], event)
            totals[place] = totals.get(place, 0) + count
        for channel in sorted({channel for channel, _ in totals}):
            for event in DELIVERY_EVENTS:
                sent.add_metric([channel, event], totals.get((channel, event), 0))
        yield sent

    def _outbox(self) -> Iterator[Metric]:
        states: dict[str, ChannelState] = {}
        for channel, state in TurnStats(self._tb.context.database, self._tb.context.layout).channels().items():
            states.setdefault(channel[:LABEL_CHARS], state)
        for name, text, read in _CHANNEL_GAUGES:
            family = GaugeMetricFamily(f"tellback_outbox_{name}", text, labels=["channel"])
            for channel, state in states.items():
                value = read(state)
                if value is not None:
                    family.add_metric([channel], value)
            yield family

    def _rest(self) -> Iterator[Metric]:
        context = self._tb.context
        waiting = GaugeMetricFamily("tellback_intake_entries", "Facts not yet applied.", labels=["family"])
        for family in Family:
            streams = [("XLEN", stream_of(shard, family)) for shard in context.layout.all]
            waiting.add_metric([family.value], sum(context.database.pipeline(streams)))
        yield waiting
        yield _gauge("dead_letters", "Facts that could not be processed.", self._tb.dead.count())
        yield _gauge("workers", "Workers alive.", len(Presence(context.database, context.layout).workers()))
        today = GaugeMetricFamily("tellback_guidance_today", "Guidance counted today (UTC).", labels=["measure"])
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
    ("conversations", "Conversations that have deliveries.", lambda state: state.conversations),
    ("deliveries", "Deliveries that are not settled.", lambda state: state.deliveries),
    ("ambiguous", "Conversations held by a delivery that may have been sent.", lambda state: state.ambiguous),
    ("wait_seconds", "How long a delivery that may be taken has not been.", lambda state: max(0.0, state.waits)),
    ("unasked_seconds", "Since a transport last asked for deliveries.", lambda state: state.unasked),
)


def registry_of(tb: Tellback) -> CollectorRegistry:
    """A registry of its own: nothing of this process is in it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(TellbackCollector(tb))
    return registry


def metrics_text(tb: Tellback) -> str:
    """The exposition, as a scrape gets it."""
    return generate_latest(registry_of(tb)).decode()


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tellback_{name}", text, value=value)


def _histogram(name: str, text: str, labels: list[str]) -> HistogramMetricFamily:
    return HistogramMetricFamily(f"tellback_{name}", text, labels=labels)


def _observed(family: HistogramMetricFamily, labels: list[str], found: Histogram | None) -> None:
    buckets, total = list[tuple[str, float]](), 0
    for bound in (*BOUNDS, None):
        total += found.buckets.get(bound, 0) if found else 0
        buckets.append(("+Inf" if bound is None else str(bound), total))
    family.add_metric(labels, buckets, found.sum if found else 0.0)
