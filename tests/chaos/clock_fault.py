"""The workers' Celery app with a fixed fault put back: leases and deadlines follow Redis' wall clock.

`celery -A tests.chaos.clock_fault worker`. A run in which that clock steps must find it.
"""

from __future__ import annotations

from contextlib import ExitStack

from tellback_workers import app as workers
from tests.simulation.put_back import leases_by_the_wall_clock

app = workers.app  # the name that Celery looks for

_STACK = ExitStack()  # never closed: the processes of the pool are forked from this one
_STACK.enter_context(leases_by_the_wall_clock())
