"""Log lines of the library: an event name, then fields, through the standard library's logging.

A library must not write to its host's standard output, which structlog does by default and which may be a protocol.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import structlog
    from structlog.typing import EventDict, WrappedLogger


class Logger:
    """Made with its module, and bound when it first has something to say: most short-lived processes never have."""

    def __init__(self, name: str) -> None:
        """Take the name that `logging` knows it by."""
        self._name = name

    @cached_property
    def _bound(self) -> structlog.stdlib.BoundLogger:
        import logging  # noqa: PLC0415 - the import of both costs more than a short-lived process has

        import structlog  # noqa: PLC0415 - as above

        logger = structlog.wrap_logger(
            logging.getLogger(self._name), processors=[_line], wrapper_class=structlog.stdlib.BoundLogger
        )
        return cast("structlog.stdlib.BoundLogger", logger)

    def debug(self, event: str, **fields: Any) -> None:
        """What only who looks for a fault wants to know."""
        self._bound.debug(event, **fields)

    def info(self, event: str, **fields: Any) -> None:
        """What happened."""
        self._bound.info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        """What is not as it should be, and goes on."""
        self._bound.warning(event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        """What was lost or left undone."""
        self._bound.error(event, **fields)

    def exception(self, event: str, **fields: Any) -> None:
        """As `error`, with the traceback of the exception that is being handled."""
        self._bound.exception(event, **fields)


def get_logger(name: str) -> Logger:
    """A logger whose lines go where the host sends those of `logging`; by default warnings go to standard error."""
    return Logger(name)


def _line(_logger: WrappedLogger, _method: str, event: EventDict) -> tuple[tuple[str], dict[str, Any]]:
    name, trace = event.pop("event"), event.pop("exc_info", None)
    text = " ".join([str(name), *(f"{field}={value!r}" for field, value in event.items())])
    return (text,), {"exc_info": trace} if trace else {}
