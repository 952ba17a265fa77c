"""The options of TCP keepalive for connections to Redis.

By default the kernel probes an idle connection after two hours. Firewalls and load balancers forget one after four to
six minutes, and then drop whatever is sent on it without an answer. A probe every half minute keeps it known, and ends
a connection whose other side is gone. redis-py has the same options by itself from version 8 on, and kombu has none.

The kernel repeats what nobody acknowledges for a quarter of an hour, and does not probe meanwhile. Before kombu 5.7
nothing else ended a worker's wait for messages on such a connection, so that is bounded too.
"""

from __future__ import annotations

import socket
from typing import Final

IDLE_SECONDS: Final = 30
INTERVAL_SECONDS: Final = 5
PROBES: Final = 3  # without an answer until the connection ends


def keepalive_options() -> dict[int, int]:
    """Return the options that this platform has; macOS has another name for the first and lacks the last."""
    names = {
        "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE": IDLE_SECONDS,
        "TCP_KEEPINTVL": INTERVAL_SECONDS,
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": 1_000 * (IDLE_SECONDS + INTERVAL_SECONDS * PROBES),
    }
    return {getattr(socket, name): value for name, value in names.items() if hasattr(socket, name)}
