"""Spans by OpenTelemetry, for processes with `TELLBACK_TRACING`; no other one imports its packages. Requirement A-110.

A span's context travels as a W3C `traceparent`: in the message of an event, with a queued command, with a turn, and
with feedback. So one trace goes from an agent's tool call through the intake and its effect to the feedback's delivery.

An agent's process that has set up OpenTelemetry keeps its own provider. Any other one gets a provider that exports by
OTLP, as the `OTEL_*` variables say. Texts pass through redaction before they become attributes.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from tellback import clock
from tellback.contracts.commands import CommandSubmitted
from tellback.contracts.guidance import Feedback, ToolInvoked
from tellback.contracts.message import Message
from tellback.errors import ConfigurationError
from tellback.forks import run_in_child
from tellback.log import add_fields
from tellback.redaction import redact_text

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import Link, Span, Tracer, TracerProvider

    from tellback.settings import Settings

HOST: Final = "tellback-host"
WORKER: Final = "tellback-worker"
_ATTRIBUTE_CHARS: Final = 256
_FLUSH_SECONDS: Final = 2.0  # at the end of a process, for spans that were not exported yet

Kind: TypeAlias = Literal["internal", "producer", "consumer"]
Attributes: TypeAlias = Mapping[str, str | int | None]
_Message = TypeVar("_Message", bound=Message)


class Tracing:
    """Starts the spans of this process."""

    def __init__(self, service: str) -> None:
        """Import OpenTelemetry; `service` is the name of a process that has none of its own.

        Raises:
            ConfigurationError: OpenTelemetry is not installed.
        """
        try:
            from opentelemetry import trace

            import_module(
                "opentelemetry.exporter.otlp.proto.http.trace_exporter"
            )  # else only the first span would miss it
        except ImportError as error:
            raise ConfigurationError(
                f"TELLBACK_TRACING is set, and {error.name} is missing: pip install 'tellback[otel]'"
            ) from error
        self._api = trace
        self._service = service
        self._begin()
        run_in_child(self._begin)
        add_fields(self._log_fields)

    def _begin(self) -> None:
        # Also in a forked child: a provider's export thread and connections are its parent's.
        self._lock = threading.Lock()
        self._provider: TracerProvider | None = None
        self._ending = threading.Event()
        self._flushing: threading.Thread | None = None

    def begin(
        self, name: str, kind: Kind, attributes: Attributes, *, parent: str = "", at: int | None = None, link: str = ""
    ) -> Span:
        """Start a span under a `traceparent`, or else under this thread's span; `at` is in nanoseconds."""
        links = [found for found in (self._link(link),) if found is not None]
        return self._tracer().start_span(
            name,
            context=self._context(parent) if parent else None,
            kind=self._api.SpanKind[kind.upper()],
            attributes=_clean(attributes),
            links=links,
            start_time=at,
        )

    @contextmanager
    def span(self, name: str, kind: Kind, attributes: Attributes, *, parent: str = "") -> Generator[Span]:
        """Run the block within a span, which an exception marks as failed."""
        span = self.begin(name, kind, attributes, parent=parent)
        with self.current(span):
            try:
                yield span
            except BaseException as error:
                self.fail(span, type(error).__name__)
                raise
            finally:
                span.end()

    @contextmanager
    def current(self, span: Span) -> Generator[None]:
        """Make a span this thread's current one: log lines in the block have its ids."""
        with self._api.use_span(span, record_exception=False, set_status_on_exception=False):
            yield

    def fail(self, span: Span, error: str) -> None:
        """Mark a span as failed; `error` is a kind of error and never its message, which may quote anything."""
        span.set_attributes(_clean({"error.type": error}))
        span.set_status(self._api.StatusCode.ERROR)

    def context_of(self, span: Span) -> str:
        """Return a span's `traceparent`."""
        context = span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def traceparent(self) -> str:
        """Return the `traceparent` of this thread's span; empty if there is none."""
        span = self._api.get_current_span()
        return self.context_of(span) if span.get_span_context().is_valid else ""

    def is_valid(self, traceparent: str) -> bool:
        """Check whether this is a `traceparent`; one that is not counts as none, as W3C has it."""
        return bool(traceparent) and self._link(traceparent) is not None

    def is_within_tool(self) -> bool:
        """Check whether this thread's span is that of a tool call, by another instrumentation."""
        attributes: Any = getattr(self._api.get_current_span(), "attributes", None)  # only a recording span has them
        return bool(attributes) and attributes.get("gen_ai.operation.name") == "execute_tool"

    def close(self) -> None:
        """Export what is left, for at most two seconds; for processes that end without `atexit` too."""
        if self._flushing is not None:
            self._ending.set()
            self._flushing.join(_FLUSH_SECONDS)

    def _tracer(self) -> Tracer:
        with self._lock:
            if self._provider is None:
                self._provider = self._own_provider()
                # The SDK ignores the time that a flush may take. Since Python 3.12 no thread starts within `atexit`.
                self._flushing = threading.Thread(
                    target=self._flush_at_end, args=(self._provider, self._ending), name="tellback-flush", daemon=True
                )
                self._flushing.start()
        return self._provider.get_tracer("tellback")

    def _flush_at_end(self, provider: TracerProvider, ending: threading.Event) -> None:
        ending.wait()
        flush = getattr(provider, "force_flush", None)
        if flush is not None:
            flush()

    def _own_provider(self) -> TracerProvider:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider as Provider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        given = self._api.get_tracer_provider()
        if not isinstance(given, self._api.ProxyTracerProvider):
            return given
        # By itself it waits half a minute for a collector that does not answer.
        provider = Provider(resource=resource_of(self._service), shutdown_on_exit=False)
        atexit.register(self.close)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return provider

    def _context(self, traceparent: str) -> Context:
        from opentelemetry.context import Context
        from opentelemetry.trace.propagation.tracecontext import (
            TraceContextTextMapPropagator,
        )

        return TraceContextTextMapPropagator().extract({"traceparent": traceparent}, context=Context())

    def _link(self, traceparent: str) -> Link | None:
        found = self._api.get_current_span(self._context(traceparent)).get_span_context() if traceparent else None
        return self._api.Link(found) if found is not None and found.is_valid else None

    def _log_fields(self) -> dict[str, str]:
        _, trace_id, span_id, _ = (self.traceparent() or "---").split("-")
        return {"trace_id": trace_id, "span_id": span_id} if trace_id else {}


def resource_of(service: str) -> Resource:
    """Return the attributes of this process, whose service is `service` unless an `OTEL_*` variable names one."""
    from opentelemetry.sdk.resources import Resource

    found = Resource.create()
    named = not str(found.attributes.get("service.name", "")).startswith("unknown_service")
    return found if named else found.merge(Resource({"service.name": service}))


_shared = lru_cache(maxsize=2)(Tracing)


def tracing_of(settings: Settings, service: str = HOST) -> Tracing | None:
    """Return the tracing of this process, or None without `TELLBACK_TRACING`.

    Raises:
        ConfigurationError: it is set, and OpenTelemetry is not installed.
    """
    return _shared(service) if settings.tracing else None


def with_context(tracing: Tracing, message: _Message) -> _Message:
    """Return a message with the context of its span `publish`, which for a tool call lies within that of the call."""
    call = _tool_span(tracing, message) if isinstance(message, ToolInvoked) else None
    parent = "" if call is None else tracing.context_of(call)
    span = tracing.begin(f"publish {message.family}", "producer", publish_attributes(message), parent=parent)
    span.end()
    if call is not None:
        call.end()
    return msgspec.structs.replace(message, traceparent=tracing.context_of(span))


def publish_attributes(message: Message) -> Attributes:
    """Return the attributes of an event on its way, by the conventions for messaging."""
    return {
        "messaging.system": "redis",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": message.family.value,
        "messaging.message.id": message.event_id,
        "tellback.event.type": type(message).__name__,
        "gen_ai.conversation.id": session_of(message),
        "gen_ai.tool.call.id": message.command_id if isinstance(message, CommandSubmitted) else None,
    }


def session_of(message: Message) -> str | None:
    """Return the session of an event, if its type has one."""
    session = getattr(message, "session", None)
    return session if isinstance(session, str) else None


def _tool_span(tracing: Tracing, event: ToolInvoked) -> Span | None:
    """Start the span of a call that has just ended, unless the agent's own instrumentation has one around it."""
    if tracing.is_within_tool():
        return None
    took = (event.duration_ms or 0) * 1_000_000
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": event.tool,
        "gen_ai.tool.type": "function",  # the conventions' word for a tool that the model's caller runs
        "gen_ai.tool.call.id": event.call_id,
        "gen_ai.conversation.id": event.session,
    }
    span = tracing.begin(f"execute_tool {event.tool}", "internal", attributes, at=int(clock.wall() * 1e9) - took)
    outcome = event.outcome
    if event.status == "error" or event.error is not None or (outcome is not None and outcome.status == "error"):
        tracing.fail(span, "_OTHER" if outcome is None else outcome.code)
    return span


def note_delivered(tracing: Tracing, session: str, feedback: Sequence[Feedback]) -> None:
    """Record that an agent has got feedback: a span in the trace of the call that earned it, linked to this one."""
    for item in feedback:
        if tracing.is_valid(item.traceparent):
            attributes = {
                "messaging.operation.name": "deliver",
                "messaging.operation.type": "receive",
                "gen_ai.conversation.id": session,
                "tellback.feedback.provider": item.provider_name,
                "tellback.feedback.severity": item.severity,
            }
            begin = tracing.begin(
                "deliver feedback", "consumer", attributes, parent=item.traceparent, link=tracing.traceparent()
            )
            begin.end()


class TurnNames(Protocol):
    """The names of a turn that its spans carry."""

    @property
    def id(self) -> str:
        """The turn's id."""
        ...

    @property
    def channel(self) -> str:
        """The turn's channel."""
        ...

    @property
    def session(self) -> str:
        """The turn's session."""
        ...


@contextmanager
def turn_span(
    tracing: Tracing | None, name: str, turn: TurnNames, *, answer: str | None = None, opened: str = ""
) -> Generator[str]:
    """Trace a call about a turn and yield the span's context; empty without tracing.

    The span lies under the caller's, else under `opened`, the context in which the turn was opened.
    """
    if tracing is None:
        yield ""
        return
    attributes = {
        "gen_ai.conversation.id": turn.session,
        "tellback.turn.id": turn.id,
        "tellback.turn.channel": turn.channel,
        "tellback.turn.answer": answer,
    }
    parent = opened if tracing.is_valid(opened) and not tracing.traceparent() else ""
    with tracing.span(name, "internal", attributes, parent=parent) as span:
        yield tracing.context_of(span)


def _clean(attributes: Attributes) -> dict[str, str | int]:
    """Return attributes without empty ones, their texts redacted and shortened."""
    return {
        name: redact_text(value)[:_ATTRIBUTE_CHARS] if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None and value != ""
    }
