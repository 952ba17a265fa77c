"""Log lines of a worker: one event name, then fields; never a payload, never output of a command."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tellback.redaction import redact_text

# Plain tracebacks: the default one shows local variables, which may hold what a user wrote. Fields stand as they were
# given, with names that come from outside last: `channel=telegram turn=t2-9b…` would read as a token of Telegram's.
_renderer = structlog.dev.ConsoleRenderer(
    colors=False, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
)


def configure(level: int) -> None:
    """Send the lines of Tellback and of Celery to standard error, in one form."""
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper("iso"),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=_render, foreign_pre_chain=shared))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("httpx").setLevel(logging.WARNING)


def _render(logger: WrappedLogger, name: str, event: EventDict) -> str:
    """One line, redacted last, so that neither a message nor an exception's text carries a secret."""
    return redact_text(_renderer(logger, name, event))
