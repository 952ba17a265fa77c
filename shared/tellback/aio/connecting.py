"""`tellback.aio.connect`: awaited, or entered with `async with`."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from types import TracebackType
from typing import Any, Final

from tellback.aio.proxy import Threads, wrapped
from tellback.client.connection import connect as connect_now
from tellback.errors import InvalidInput
from tellback.settings import Settings

THREADS: Final = 32


class Connecting:
    """A connection to be: `tb = await connect()` and at the end `await tb.close()`, or `async with connect() as tb`."""

    def __init__(self, url: str | None, team: str | None, settings: Settings | None, threads: int) -> None:
        """Take the arguments of `connect`; nothing is done before this is awaited or entered."""
        self._arguments = (url, team, settings)
        self._threads = threads
        self._client: Any = None

    def __await__(self) -> Generator[Any, None, Any]:
        return self._connect().__await__()

    async def __aenter__(self) -> Any:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what is buffered and give the connections back; a task that is cancelled meanwhile still does."""
        await asyncio.shield(asyncio.ensure_future(close(self._client)))

    async def _connect(self) -> Any:
        url, team, settings = self._arguments
        threads = Threads(self._threads)
        try:
            client = await threads.run(lambda: connect_now(url, team=team, settings=settings), _close_now)
        except BaseException:
            threads.close()
            raise
        return wrapped(client, threads)


def connect(
    url: str | None = None, *, team: str | None = None, settings: Settings | None = None, threads: int = THREADS
) -> Connecting:
    """As `tellback.connect`; at most `threads` calls are with Redis at one time, and the others wait their turn.

    Raises:
        InvalidInput: `threads` is not from 1 to 1,000.
    """
    if not 1 <= threads <= 1_000:
        raise InvalidInput(f"threads is {threads}; use 1 to 1,000")
    return Connecting(url, team, settings, threads)


async def close(client: Any) -> None:
    """Send what is buffered, give the connections back, end the threads."""
    try:
        await client._threads.run(client._target.close)  # noqa: SLF001 - of this package
    finally:
        client._threads.close()  # noqa: SLF001 - as above


def _close_now(client: Any) -> None:
    client.close()
