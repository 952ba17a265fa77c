"""The spans of a worker: of the entries that it applies, and of the commands that it runs. Requirement A-110.

Only what its publisher traced has a span, because a worker's own traces would be as many as its batches. One batch
serves many traces, so each of its entries has a span of its own, with the task that applied it as attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec
from celery import current_task

from tellback.contracts.commands import CommandRecord, CommandSubmitted
from tellback.state.intake_lease import IntakeEntry, Lease
from tellback.tracing import Attributes, Tracing, session_of

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class EntrySpans:
    """The spans of one batch, which end with the block; an exception marks them as failed."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._spans: dict[Lease, list[Span]] = {}

    def __enter__(self) -> Self:
        """Return the spans, still without any."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End them."""
        for span in (span for spans in self._spans.values() for span in spans):
            if kind is not None:
                self._tracing.fail(span, kind.__name__)
            span.end()

    def begin(self, lease: Lease, entries: Sequence[IntakeEntry]) -> list[IntakeEntry]:
        """Start the spans of a stream's entries, and return these with their contexts."""
        return [self._begin(lease, entry, len(entries)) for entry in entries]

    def current(self, lease: Lease) -> AbstractContextManager[None]:
        """Make the span of a lone entry the current one; log lines about a batch belong to no single trace."""
        spans = self._spans.get(lease, ())
        return self._tracing.current(spans[0]) if len(spans) == 1 else nullcontext()

    def drop(self, leases: Collection[Lease]) -> None:
        """Forget the spans of entries that were not applied after all."""
        for lease in leases:
            self._spans.pop(lease, None)

    def _begin(self, lease: Lease, entry: IntakeEntry, batch: int) -> IntakeEntry:
        parent = entry.message.traceparent or ""
        if not self._tracing.is_valid(parent):
            return entry
        attributes = _apply_attributes(lease, entry, batch)
        span = self._tracing.begin(f"apply {lease.family}", "consumer", attributes, parent=parent)
        self._spans.setdefault(lease, []).append(span)
        return msgspec.structs.replace(entry, trace=self._tracing.context_of(span))


def _apply_attributes(lease: Lease, entry: IntakeEntry, batch: int) -> Attributes:
    message, task = entry.message, cast("Any", current_task)  # a proxy, which is false outside of a task
    return {
        "messaging.system": "redis",
        "messaging.operation.name": "apply",
        "messaging.operation.type": "process",
        "messaging.destination.name": lease.family.value,
        "messaging.destination.partition.id": str(lease.shard.index),
        "messaging.message.id": message.event_id,
        "messaging.batch.message_count": batch,
        "tellback.event.type": type(message).__name__,
        "tellback.intake.entry": entry.id,
        "tellback.intake.deliveries": entry.deliveries,
        "tellback.task.name": task.name if task else None,
        "tellback.task.id": task.request.id if task else None,
        "gen_ai.conversation.id": session_of(message),
    }


@contextmanager
def command_span(
    tracing: Tracing, submitted: CommandSubmitted, attempt: int
) -> Generator[Callable[[CommandRecord], CommandRecord]]:
    """Trace one run of a command, if its submission was traced; pass the record to what this yields."""
    parent = submitted.traceparent or ""
    if not tracing.is_valid(parent):
        yield lambda record: record
        return
    attributes = _command_attributes(submitted, attempt)
    with tracing.span("execute_tool command", "internal", attributes, parent=parent) as span:

        def note(record: CommandRecord) -> CommandRecord:
            if record.exit_code is not None:
                span.set_attribute("process.exit.code", record.exit_code)
            if not record.succeeded:
                tracing.fail(span, record.signal or ("_OTHER" if record.exit_code is None else str(record.exit_code)))
            return record

        yield note


def _command_attributes(submitted: CommandSubmitted, attempt: int) -> Attributes:
    # Neither arguments nor output: feedback is not telemetry (requirement C-48). The program's name alone.
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "command",
        "gen_ai.tool.type": "extension",
        "gen_ai.tool.call.id": submitted.command_id,
        "gen_ai.conversation.id": submitted.session,
        "process.executable.name": PurePath(submitted.argv[0]).name if submitted.argv else None,
        "tellback.command.attempt": attempt,
    }
