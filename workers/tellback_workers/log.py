"""The log format of a worker: an event name, then fields, redacted; never a payload or a command's output."""

from __future__ import annotations

import json
import logging
import sys
from typing import Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tellback import clock
from tellback.log import common_fields
from tellback.redaction import redact_text
from tellback.sanitize import terminal_json, terminal_text

# Plain tracebacks, because structlog's default shows local variables, which may hold a user's text. Fields are not
# sorted: callers put names from outside last, because redaction took `channel=telegram turn=t2-9b…` for a Telegram
# token.
_renderer = structlog.dev.ConsoleRenderer(
    colors=False, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
)


_SAY_AGAIN_SECONDS: Final = 60.0
_MOST_KNOWN: Final = 100  # lines: Celery warns of each foreign message with its body, and none of them comes again
_REPEATING: Final = ("celery.worker.consumer.consumer", "py.warnings")


class _WithoutRepeats(logging.Filter):
    """Drop a warning that was logged less than a minute ago.

    Celery loses a broker that is full six times a second, each time with a traceback and a warning of seven lines.
    """

    def __init__(self) -> None:
        super().__init__()
        self._again: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        raised = record.exc_info[0] if record.exc_info else None
        line, now = (record.getMessage(), str(raised)), clock.monotonic()
        if now < self._again.get(line, 0.0):
            return False
        if len(self._again) >= _MOST_KNOWN:
            self._again.clear()
        self._again[line] = now + _SAY_AGAIN_SECONDS
        return True


def configure(level: int, *, as_json: bool = False) -> None:
    """Send the log lines of Tellback and Celery to standard error in one format, text or an object of JSON each."""
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper("iso"),
        common_fields,
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
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(processor=_render_json if as_json else _render, foreign_pre_chain=shared)
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _REPEATING:
        logging.getLogger(name).filters[:] = [_WithoutRepeats()]
    logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO it logs each request with its URL


def _render(logger: WrappedLogger, name: str, event: EventDict) -> str:
    """Render one line; redaction and sanitising come last, so they cover messages, fields and tracebacks alike."""
    return terminal_text(redact_text(_renderer(logger, name, event)))


def _render_json(logger: WrappedLogger, name: str, event: EventDict) -> str:
    fields = structlog.processors.ExceptionRenderer()(logger, name, event)
    line = json.dumps(fields, ensure_ascii=False, default=str)
    if (redacted := redact_text(line)) != line:
        line = json.dumps({key: redact_text(str(value)) for key, value in fields.items()}, ensure_ascii=False)
        if redact_text(line) != line:  # a field's name and its value are a secret together
            kept = {key: fields[key] for key in ("level", "logger", "timestamp") if key in fields}
            line = json.dumps({"event": "log.redacted", "line": redacted, **kept}, ensure_ascii=False)
    return terminal_json(line)
