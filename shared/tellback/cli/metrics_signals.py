"""What Prometheus is told of signals: how many were applied, banks, the weekly decay, the model of the workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tellback.client.context import Context
from tellback.state.bank_stats import signals_applied
from tellback.state.decay import Decay
from tellback.state.encoders import Encoders


def signal_metrics(context: Context) -> Iterator[Metric]:
    """Every metric of signals; a bounded number of questions to Redis."""
    database, layout = context.database, context.layout
    applied = CounterMetricFamily("tellback_signals_applied", "Signals applied to banks.", labels=["type"])
    for kind, count in signals_applied(database, layout).items():
        applied.add_metric([kind], count)
    yield applied
    banks = sum(database.pipeline([("ZCARD", shard.key("banks")) for shard in layout.all]))
    yield GaugeMetricFamily("tellback_banks", "Banks that were ever signalled.", value=banks)
    yield from _decay(Decay(database, layout), database.now_ms())
    hosts = GaugeMetricFamily(
        "tellback_encoders", "Worker hosts by what they said of their embedding model within a day.", labels=["state"]
    )
    states = Counter(state.state for state in Encoders(database, layout).all())
    for state in ("loaded", "failed"):
        hosts.add_metric([state], states[state])
    yield hosts


def _decay(decay: Decay, now: int) -> Iterator[Metric]:
    due = len(decay.due())
    yield GaugeMetricFamily("tellback_decay_due", "Shards whose decay of this week is not done.", value=due)
    age = GaugeMetricFamily(
        "tellback_decay_age_seconds", "Since the weekly decay was last done, in the shard where that is longest ago."
    )
    ages = [now - state.at for state in decay.states() if state.at is not None]
    if ages:
        age.add_metric([], max(0, *ages) / 1000)
    yield age
