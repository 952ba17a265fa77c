"""The threads in which an asyncio client makes its calls."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from tellback.errors import StateConflict
from tellback.forks import run_in_child

MAX_PUBLISHING: Final = 4  # threads; few are enough, since publishing doesn't wait for Redis


class CallThreads:
    """The bounded thread pools of one connection; further calls queue without blocking the event loop.

    Calls that only publish have threads of their own, so reporting a tool call never queues behind calls that wait for
    Redis.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.closed = False
        self._begin()
        run_in_child(self._begin)

    def _begin(self) -> None:
        """Start with no threads, also in a forked child: its pools would count the parent's, and start none."""
        self._pool = ThreadPoolExecutor(self._most, thread_name_prefix="tellback-aio")
        self._publishers = ThreadPoolExecutor(
            min(self._most, MAX_PUBLISHING), thread_name_prefix="tellback-aio-publish"
        )
        if self.closed:
            self.close()

    async def run(
        self, call: Callable[[], Any], unclaimed: Callable[[Any], None] | None = None, *, publishes: bool = False
    ) -> Any:
        """Return the result of `call`, run in a thread.

        A call that is cancelled before it starts never runs. One that is cancelled later still finishes, and its result
        goes to `unclaimed`. Set `publishes` for a call that only publishes an event and doesn't wait for Redis.

        Raises:
            StateConflict: the connection is closed.
        """
        context = contextvars.copy_context()
        try:
            future: Future[Any] = (self._publishers if publishes else self._pool).submit(context.run, call)
        except RuntimeError:
            raise StateConflict("this client is closed: connect again") from None
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # A running thread can't be stopped. Without this the feedback that it takes from a mailbox would be lost.
            if unclaimed is not None and not future.cancelled():
                future.add_done_callback(functools.partial(_deliver_result, unclaimed))
            raise

    def close(self) -> None:
        """Refuse further calls; running ones finish by themselves."""
        self.closed = True
        self._pool.shutdown(wait=False)
        self._publishers.shutdown(wait=False)


def _deliver_result(unclaimed: Callable[[Any], None], future: Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        unclaimed(future.result())
