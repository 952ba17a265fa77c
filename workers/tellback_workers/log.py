"""Log lines of a worker: one event name, then fields; never a payload, never output of a command."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(level: int) -> None:
    """Send the lines of Tellback and of Celery to standard error, in one form."""
    shared = [structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name, structlog.processors.TimeStamper("iso")]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("httpx").setLevel(logging.WARNING)
