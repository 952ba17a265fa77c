"""Whether this worker is shutting down, as its pool children can see.

Celery tells the main process alone, and lets it wait for tasks without limit; a command may take an hour. One byte of
memory that is shared across the fork tells the children, which then end what does not end by itself.
"""

from __future__ import annotations

import mmap
from typing import Final

from celery import signals

_flag: Final = mmap.mmap(-1, 1)  # made at import, before the pool forks


@signals.worker_shutting_down.connect
def _begin(**_: object) -> None:
    _flag[0] = 1


def shutting_down() -> bool:
    """Whether the worker was told to stop."""
    return _flag[0] != 0
