"""Log lines of the library: an event name, then fields, through the standard library's `logging`.

structlog prints to standard output by default. A library must not: its host may speak a protocol there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import structlog
    from structlog.typing import EventDict, WrappedLogger


_sources: Final[list[Callable[[], Mapping[str, str]]]] = []


class Logger:
    """A logger that imports structlog and logging with its first line; most short-lived processes log nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _bound(self) -> structlog.stdlib.BoundLogger:
        import logging  # noqa: PLC0415 - importing both would cost a short-lived process too much

        import structlog  # noqa: PLC0415 - as above

        # wrap_logger and not structlog.configure: the configuration belongs to the host, and is global.
        logger = structlog.wrap_logger(
            logging.getLogger(self._name),
            processors=[common_fields, _render_event],
            wrapper_class=structlog.stdlib.BoundLogger,
        )
        return cast("structlog.stdlib.BoundLogger", logger)

    def debug(self, event: str, **fields: Any) -> None:
        """Log a detail for debugging."""
        self._bound.debug(event, **fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log something that happened as intended."""
        self._bound.info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log a problem from which the process recovers by itself."""
        self._bound.warning(event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log that something was lost or not done."""
        self._bound.error(event, **fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log an error with the traceback of the exception that is being handled."""
        self._bound.exception(event, **fields)


def get_logger(name: str) -> Logger:
    """Return a logger that writes wherever the host's `logging` does; by default warnings go to standard error."""
    return Logger(name)


def add_fields(source: Callable[[], Mapping[str, str]]) -> None:
    """Add what `source` returns to every line from now on, such as the ids of a trace."""
    _sources.append(source)


def common_fields(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Return a line's fields with those of `add_fields`: a processor of structlog."""
    for source in _sources:
        event.update(source())
    return event


def _render_event(_logger: WrappedLogger, _method: str, event: EventDict) -> tuple[tuple[str], dict[str, Any]]:
    name, trace = event.pop("event"), event.pop("exc_info", None)
    text = " ".join([str(name), *(f"{field}={value!r}" for field, value in event.items())])
    return (text,), {"exc_info": trace} if trace else {}
