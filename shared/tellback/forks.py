"""Hooks that reset objects in a forked child before anything else runs there.

Comparing process ids in each call is not enough: the child's first threads compare at the same time, each creates new
locks and buffers, and what the others put in theirs is lost: 494 of 2,400 events, when measured.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from typing import Final

_methods: Final[set[weakref.WeakMethod[Callable[[], None]]]] = set()
# A client that is open when the interpreter ends may go after what a WeakMethod needs: it printed «Exception ignored».
atexit.register(_methods.clear)


def run_in_child(method: Callable[[], None]) -> None:
    """Register a bound method to run first in every forked child, in its only thread, while the object lives.

    The method must replace locks and never acquire one: another thread of the parent may have held it at the fork.
    """
    # Weak references, since a registration must not keep a closed client alive.
    _methods.add(weakref.WeakMethod(method, _methods.discard))


class HasLock:
    """Gives an object a lock, and a new one in a forked child, where nobody would release the parent's."""

    def __init__(self) -> None:
        self._renew_lock()
        run_in_child(self._renew_lock)

    def _renew_lock(self) -> None:
        # No class with `__enter__` of its own: Ctrl-C after its `acquire` would leave it held for ever.
        self._lock = threading.Lock()


def _run() -> None:
    for reference in list(_methods):
        method = reference()
        if method is not None:
            method()


os.register_at_fork(after_in_child=_run)
