"""Variables of the environment that begin as ours do and that nothing reads: most are typing errors. Requirement A-421.

Workers, beat and the doctor name each. What runs often, the command line and hosts of agents, names those alone that
resemble one of ours: another one may belong to a program of yours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from tellback.log import get_logger
from tellback.settings import PREFIX, Settings

OTHERS: Final = (  # those of alerts and transports, which settings do not have; a test compares them
    *("ALERT_WEBHOOK", "ALERT_WEBHOOK_SECRET", "ALERT_SLACK", "ALERT_DOCS_URL", "ALERT_PERIOD", "ALERT_TIMEOUT"),
    *("ALERT_RESOLVE_AFTER", "ALERT_OVERDUE", "ALERT_LAG", "ALERT_DEAD_LETTERS", "ALERT_MEMORY_SHARE"),
    *("WEBHOOK_SECRET", "TELEGRAM_TOKEN"),
    *("ACCESS", "MEMORY"),  # of docker-compose.yml
    "ATTEMPT_OF",  # of commands that may be retried, for the commands that they run
)

_RESEMBLES: Final = 0.7  # takes REDIS for REDIS_URL (0.71) and TAEM for TEAM; no name of our tests resembles a setting

# Kubernetes describes to a pod the Services beside it: `tellback-metrics` by TELLBACK_METRICS_PORT and others.
_OF_A_SERVICE: Final = re.compile(r"\w+_(SERVICE_(HOST|PORT\w*)=|PORT=\w+://|PORT_\d+_(TCP|UDP|SCTP)\w*=)")


_logger = get_logger("tellback.settings")


class UnknownVariable(NamedTuple):
    """A variable that nothing reads, and the one of ours that it resembles, or ""."""

    name: str
    nearest: str

    def __str__(self) -> str:
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.name} is not a setting of Tellback{hint}"


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[UnknownVariable]:
    """Return the variables that begin with `TELLBACK_`, in upper or lower case, have a value, and are unknown."""
    known = [name.upper() for name in (*Settings.__struct_fields__, *OTHERS)]
    environ = os.environ if environ is None else environ
    return [
        UnknownVariable(name, _nearest(name, known))
        for name, value in sorted(environ.items())
        if value and name.upper().startswith(PREFIX)
        if name.removeprefix(PREFIX) not in known and not _OF_A_SERVICE.match(f"{name}={value}")
    ]


def _nearest(name: str, known: list[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - paid for only where there is such a variable

    found = get_close_matches(name.upper().removeprefix(PREFIX), known, 1, _RESEMBLES)
    return f"{PREFIX}{found[0]}" if found else ""


def mistyped_variables() -> list[UnknownVariable]:
    """Return those that resemble one of ours."""
    return [variable for variable in unknown_variables() if variable.nearest]


def log_unknown_variables() -> None:
    """Log each unknown variable of this process."""
    for variable in unknown_variables():
        _logger.warning("setting.unknown", nearest=variable.nearest, variable=variable.name)


@cache
def log_mistyped_variables() -> None:
    """Log those that resemble one of ours, once in a process."""
    for variable in mistyped_variables():
        _logger.warning("setting.unknown", nearest=variable.nearest, variable=variable.name)
