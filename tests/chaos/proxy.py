"""The link between a group of processes and Redis, which swallows replies, delays, holds and cuts on demand."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

CHUNK = 1 << 16


@dataclass
class ChaosLink:
    """A relay on loopback. The attributes may be changed from any thread at any time."""

    port: int
    """The port of Redis."""
    swallow: float = 0.0
    """The share of replies that are lost: the server has done what was asked, and the connection ends."""
    delay: float = 0.0
    """Seconds that each piece waits."""
    held: bool = False
    """True: bytes wait in both directions, as in a network that drops packets."""
    cuts: int = 0
    swallowed: int = 0
    accepted: int = 0
    forgotten: int = 0
    """The connections up to this number swallow all that comes, for ever."""
    _writers: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])

    def __enter__(self) -> Self:
        self._dice = random.Random(self.port)
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, limit=CHUNK))
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.held = False
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def url(self) -> str:
        """Redis' URL by way of this link."""
        return f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"

    def cut(self) -> None:
        """End every connection at once."""
        self._loop.call_soon_threadsafe(self._abort_all)

    def forget(self) -> None:
        """Let nothing pass any more on the connections that exist, and end none: a firewall that lost its state."""
        self.forgotten = self.accepted

    def heal(self) -> None:
        """Let everything pass again."""
        self.swallow, self.delay, self.held = 0.0, 0.0, False

    def _abort_all(self) -> None:
        self.cuts += len(self._writers)
        for writer in list(self._writers):
            writer.transport.abort()

    async def _close(self) -> None:
        self._server.close()
        self._abort_all()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.port, limit=CHUNK)
        except OSError:  # Redis is dead
            writer.transport.abort()
            return
        ends = {writer, server_writer}
        self._writers |= ends
        self.accepted += 1
        number = self.accepted
        try:
            await asyncio.gather(
                self._relay(reader, server_writer, number, replies=False),
                self._relay(server_reader, writer, number, replies=True),
            )
        except OSError:
            pass
        finally:
            self._writers -= ends
            for end in ends:
                with suppress(OSError):
                    end.transport.abort()

    async def _relay(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, number: int, *, replies: bool
    ) -> None:
        while data := await source.read(CHUNK):
            if number <= self.forgotten:
                continue
            if self.delay:
                await asyncio.sleep(self.delay)
            while self.held:  # noqa: ASYNC110 - set by another thread, which an asyncio.Event does not allow
                await asyncio.sleep(0.02)
            if replies and self.swallow and self._dice.random() < self.swallow:
                self.swallowed += 1
                raise ConnectionResetError
            sink.write(data)
            await sink.drain()
        raise ConnectionResetError  # one end has closed: so does the other
