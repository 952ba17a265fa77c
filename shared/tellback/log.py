"""Log lines of the library: an event name, then fields, through the standard library's logging.

A library must not write to its host's standard output, which structlog does by default and which may be a protocol.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import structlog
from structlog.typing import EventDict, WrappedLogger


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger whose lines go where the host sends those of `logging`; by default warnings go to standard error."""
    logger = structlog.wrap_logger(
        logging.getLogger(name), processors=[_line], wrapper_class=structlog.stdlib.BoundLogger
    )
    return cast("structlog.stdlib.BoundLogger", logger)


def _line(_logger: WrappedLogger, _method: str, event: EventDict) -> tuple[tuple[str], dict[str, Any]]:
    name, trace = event.pop("event"), event.pop("exc_info", None)
    text = " ".join([str(name), *(f"{field}={value!r}" for field, value in event.items())])
    return (text,), {"exc_info": trace} if trace else {}
