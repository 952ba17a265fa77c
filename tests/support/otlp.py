"""A receiver of OTLP over HTTP in this process, and what it got."""

from __future__ import annotations

import gzip
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.http_server import HttpServer, Request, http_server, reply
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class ReceivedSpan:
    """One span; `failed` is its status, times are in nanoseconds."""

    trace: str
    id: str
    parent: str
    name: str
    kind: int
    service: str
    attributes: dict[str, Any]
    links: tuple[str, ...]
    failed: bool
    start: int
    end: int


def _body(request: Request) -> bytes:
    return gzip.decompress(request.body) if request.headers.get("content-encoding") == "gzip" else request.body


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@dataclass(frozen=True)
class OtlpReceiver:
    """A receiver of exports to `url`."""

    server: HttpServer

    @property
    def env(self) -> dict[str, str]:
        """The environment of a process that exports here, at once."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.server.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def bodies(self, path: str) -> list[bytes]:
        return [_body(request) for request in list(self.server.requests) if request.path == path]

    def spans(self) -> list[ReceivedSpan]:
        """All spans, in the order of their start."""
        found = [
            _received(span, _values(resource.resource.attributes)["service.name"])
            for body in self.bodies("/v1/traces")
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: span.start)

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans() if span.name == name]

    def wait_for(self, name: str, count: int = 1) -> list[ReceivedSpan]:
        """Return the spans of this name as soon as there are so many."""
        wait_until(partial(self._has, name, count), f"{count} spans {name!r}")
        return self.named(name)

    def _has(self, name: str, count: int) -> bool:
        return len(self.named(name)) >= count

    def metrics(self) -> dict[str, Metric]:
        """The newest state of each metric."""
        return {
            metric.name: metric
            for body in self.bodies("/v1/metrics")
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def _received(span: Span, service: str) -> ReceivedSpan:
    return ReceivedSpan(
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        name=span.name,
        kind=span.kind,
        service=service,
        attributes=_values(span.attributes),
        links=tuple(link.span_id.hex() for link in span.links),
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
    )


@contextmanager
def otlp_receiver() -> Generator[OtlpReceiver]:
    """A receiver on a port of its own, which takes everything."""
    with http_server(reply(200)) as server:
        yield OtlpReceiver(server)
