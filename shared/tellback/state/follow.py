"""Output of commands that are followed while they run: a short stream of pieces for each, which many may read.

The worker numbers the pieces and says of each how many bytes of output came before it, so that a reader can tell what
it has missed, whoever dropped it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tellback.contracts.commands import Stream
from tellback.state.database import Arg, Database
from tellback.state.keys import FAMILIES, Layout, lifetime_ms
from tellback.state.script import Script

if TYPE_CHECKING:
    from tellback.commands.follow import Piece  # a client does not load what redacts output

KEPT_PIECES: Final = FAMILIES["follow"].cap or 0
KEPT_BYTES: Final = 1 << 20
CALL_BYTES: Final = 256 << 10  # of one script: no call takes long
READ: Final = 16  # pieces in one reply

_publish = Script("publish_output")


class FollowedPiece(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece as it stands in Redis: `raw` bytes of output, `at` bytes after the beginning. The last one has `end`."""

    at: int
    raw: int = 0
    stream: Stream = "stdout"
    text: str = ""
    end: bool = False


_decoder = msgspec.json.Decoder(FollowedPiece)


class FollowedOutput:
    """The output of one attempt, as its worker publishes it."""

    def __init__(self, database: Database, layout: Layout, session: str, command_id: str) -> None:
        """Take the Redis, the team's shards and whose output it is."""
        self._db = database
        self._key = layout.of(session).key("follow", command_id)
        self._number = 0
        self._at = 0
        self._unsent: deque[tuple[int, bytes]] = deque()
        self._sizes: deque[int] = deque()  # of the newest pieces, sent or not
        self._kept = 0

    @property
    def unsent(self) -> bool:
        """Whether pieces wait to be sent."""
        return bool(self._unsent)

    def add(self, pieces: Iterable[Piece]) -> None:
        """Take pieces; they are sent with the next `send`."""
        for piece in pieces:
            at = self._at + piece.dropped
            self._add(FollowedPiece(at=at, raw=piece.raw, stream=piece.stream, text=piece.text))
            self._at = at + piece.raw

    def end(self, dropped: int) -> None:
        """Nothing more comes, and `dropped` bytes after the last piece are not told."""
        self._add(FollowedPiece(at=self._at + dropped, end=True))

    def send(self) -> None:
        """Send what waits. What was not sent, since it raised, waits for the next time.

        Raises:
            Unavailable: Redis is away.
        """
        while self._unsent:
            args: list[Arg] = [len(self._sizes), lifetime_ms("follow")]
            count = size = 0
            for number, piece in self._unsent:
                if count and size + len(piece) > CALL_BYTES:
                    break
                args += [number, piece]
                count, size = count + 1, size + len(piece)
            self._db.run(_publish.call([self._key], args))
            for _ in range(count):
                self._unsent.popleft()

    def _add(self, piece: FollowedPiece) -> None:
        self._number += 1
        encoded = msgspec.json.encode(piece)
        self._unsent.append((self._number, encoded))
        self._sizes.append(len(encoded))
        self._kept += len(encoded)
        while len(self._sizes) > KEPT_PIECES or self._kept > KEPT_BYTES:
            self._kept -= self._sizes.popleft()


class FollowedOutputs:
    """The output of a team's commands, as followers read it."""

    def __init__(self, database: Database, layout: Layout) -> None:
        """Take the Redis and the team's shards."""
        self._db = database
        self._layout = layout

    def read(self, session: str, command_id: str, after: int, wait: float) -> list[tuple[int, FollowedPiece]]:
        """Pieces after the one of number `after`, if there are any within `wait` seconds; with their numbers."""
        key = self._layout.of(session).key("follow", command_id)
        block: list[Arg] = ["BLOCK", max(1, round(wait * 1000))] if wait > 0 else []
        reply: Any = self._db.command("XREAD", "COUNT", READ, *block, "STREAMS", key, f"{after}-0")
        entries: list[tuple[bytes, list[bytes]]] = reply[0][1] if reply else []
        return [(int(id_.partition(b"-")[0]), _decoder.decode(fields[1])) for id_, fields in entries]
