"""What Prometheus is told of commands: queued by pool, running, and what they ended in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tellback.client.context import Context
from tellback.state.command_stats import commands_now, records_by_outcome

LABEL_CHARS: Final = 64


def command_metrics(context: Context) -> Iterator[Metric]:
    """Every metric of commands; a bounded number of questions to Redis."""
    now = commands_now(context.database, context.layout)
    yield GaugeMetricFamily("tellback_commands_running", "Commands under a worker's lease.", value=now.running)
    yield GaugeMetricFamily(
        "tellback_commands_silent", "Commands whose lease has ended and which are not yet lost.", value=now.silent
    )
    queued = GaugeMetricFamily("tellback_commands_queued", "Commands that wait for a worker.", labels=["pool"])
    waiting: dict[str, int] = {}
    for pool, count in now.queued.items():
        waiting[pool[:LABEL_CHARS]] = waiting.get(pool[:LABEL_CHARS], 0) + count
    for pool, count in waiting.items():
        queued.add_metric([pool], count)
    yield queued
    records = CounterMetricFamily("tellback_command_records", "Records that commands ended in.", labels=["outcome"])
    for outcome, count in records_by_outcome(context.database, context.layout).items():
        records.add_metric([outcome], count)
    yield records
