"""Export of the metrics by OTLP: the same ones as a Prometheus scrape gets, read by the same collector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.environment_variables import OTEL_METRIC_EXPORT_INTERVAL
from opentelemetry.sdk.metrics import export as otel
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from tellback import clock
from tellback.log import get_logger
from tellback.tracing import resource_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
    from prometheus_client.samples import Sample

DEFAULT_PERIOD: Final = 60.0  # seconds, as OpenTelemetry has it

# Smallest and largest value: optional in OTLP, but not by the type of the SDK. Prometheus has neither.
_UNKNOWN: Final = cast("float", None)

_logger = get_logger("tellback.metrics")


def period_of(environ: Mapping[str, str]) -> float:
    """Return the seconds between two exports: `OTEL_METRIC_EXPORT_INTERVAL` in milliseconds, or a minute."""
    given = environ.get(OTEL_METRIC_EXPORT_INTERVAL, "")
    return int(given) / 1000 if given.isdecimal() and int(given) else DEFAULT_PERIOD


def export_until(stopped: Callable[[float], bool], collector: Collector, period: float) -> None:
    """Export every `period` seconds, and once more when `stopped`, which waits that long, returns True."""
    exporter: Any = OTLPMetricExporter()  # Any: its methods take untyped keywords
    began = _now()
    ended = False
    while not ended:
        ended = stopped(period)
        result = exporter.export(convert(collector.collect(), began, _now()))
        if result is not otel.MetricExportResult.SUCCESS:
            _logger.warning("metrics.not_exported")  # counters are cumulative, so the next export makes up for it
    exporter.shutdown()


def _now() -> int:
    return int(clock.wall() * 1e9)


def convert(families: Iterable[Metric], began: int, now: int) -> otel.MetricsData:
    """Return Prometheus' families as OpenTelemetry has them; times are in nanoseconds.

    Redis keeps the counters, so `began`, the start of this exporter, is the earliest time of which it can speak.
    """
    metrics = [_metric(family, began, now) for family in families if family.samples]
    scope = otel.ScopeMetrics(InstrumentationScope("tellback"), metrics, "")
    return otel.MetricsData([otel.ResourceMetrics(resource_of("tellback-metrics"), [scope], "")])


def _metric(family: Metric, began: int, now: int) -> otel.Metric:
    cumulative = otel.AggregationTemporality.CUMULATIVE
    data: otel.Sum | otel.Gauge | otel.Histogram
    if family.type == "histogram":
        data = otel.Histogram(_histogram_points(family.samples, began, now), cumulative)
    else:
        points = [otel.NumberDataPoint(sample.labels, began, now, sample.value) for sample in family.samples]
        data = otel.Sum(points, cumulative, is_monotonic=True) if family.type == "counter" else otel.Gauge(points)
    name = f"{family.name}_total" if family.type == "counter" else family.name  # as a scrape names it
    return otel.Metric(name, family.documentation, "s" if family.name.endswith("_seconds") else "1", data)


def _histogram_points(samples: Sequence[Sample], began: int, now: int) -> list[otel.HistogramDataPoint]:
    """Return one point for each set of labels; Prometheus' buckets are cumulative, OpenTelemetry's are not."""
    series: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        series.setdefault(labels, []).append(sample)
    points: list[otel.HistogramDataPoint] = []
    for labels, found in series.items():
        buckets = [(float(sample.labels["le"]), int(sample.value)) for sample in found if "le" in sample.labels]
        counts = [count for _, count in buckets]
        single = [count - before for count, before in zip(counts, [0, *counts], strict=False)]
        total = sum(sample.value for sample in found if sample.name.endswith("_sum"))
        bounds = [bound for bound, _ in buckets[:-1]]
        points.append(
            otel.HistogramDataPoint(dict(labels), began, now, counts[-1], total, single, bounds, _UNKNOWN, _UNKNOWN)
        )
    return points
