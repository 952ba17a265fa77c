"""Output of commands that are followed while they run: a short stream of pieces for each, with any number of readers.

The worker numbers the pieces and notes how many bytes of output precede each one. From that a reader knows how much it
has missed, whichever side dropped it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tellback.contracts.commands import Stream
from tellback.state.database import Database
from tellback.state.keys import FAMILIES, Layout, lifetime_ms
from tellback.state.script_calls import Arg
from tellback.state.scripts import commands as scripts

if TYPE_CHECKING:
    from tellback.commands.follow import OutputChunk  # a client must not import the redaction of output

MAX_PIECES: Final = FAMILIES["follow"].cap or 0
MAX_BYTES: Final = 1 << 20
CALL_BYTES: Final = 256 << 10  # of one script call, to keep it short
READ_BATCH: Final = 16  # pieces in one reply


class FollowedPiece(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece as stored in Redis: `raw` bytes of output, `at` bytes after the beginning. The last one has `end`."""

    at: int
    raw: int = 0
    stream: Stream = "stdout"
    text: str = ""
    end: bool = False


_decoder = msgspec.json.Decoder(FollowedPiece)


class FollowedOutput:
    """The output of one attempt, as its worker publishes it."""

    def __init__(self, database: Database, layout: Layout, session: str, command_id: str) -> None:
        self._db = database
        self._key = layout.of(session).key("follow", command_id)
        self._number = 0
        self._at = 0
        self._unsent: deque[tuple[int, bytes]] = deque()
        self._sizes: deque[int] = deque()  # of the newest pieces, sent or not
        self._kept = 0

    @property
    def unsent(self) -> bool:
        """True if pieces wait to be sent."""
        return bool(self._unsent)

    def add(self, pieces: Iterable[OutputChunk]) -> None:
        """Add pieces; the next `send` sends them."""
        for piece in pieces:
            at = self._at + piece.dropped
            self._add(FollowedPiece(at=at, raw=piece.raw, stream=piece.stream, text=piece.text))
            self._at = at + piece.raw

    def end(self, dropped: int) -> None:
        """Add the end marker; `dropped` bytes after the last piece are not published."""
        self._add(FollowedPiece(at=self._at + dropped, end=True))

    def send(self) -> None:
        """Send the waiting pieces.

        Raises:
            Unavailable: Redis is away; unsent pieces wait for the next call.
        """
        while self._unsent:
            count = size = 0
            for _, piece in self._unsent:
                if count and size + len(piece) > CALL_BYTES:
                    break
                count, size = count + 1, size + len(piece)
            pieces = list(islice(self._unsent, count))
            call = scripts.publish_output(
                follow=self._key,
                keep=len(self._sizes),
                lifetime_ms=lifetime_ms("follow"),
                numbers=[number for number, _ in pieces],
                pieces=[piece for _, piece in pieces],
            )
            self._db.run(call)
            for _ in pieces:
                self._unsent.popleft()

    def _add(self, piece: FollowedPiece) -> None:
        self._number += 1
        encoded = msgspec.json.encode(piece)
        self._unsent.append((self._number, encoded))
        self._sizes.append(len(encoded))
        self._kept += len(encoded)
        while len(self._sizes) > MAX_PIECES or self._kept > MAX_BYTES:
            self._kept -= self._sizes.popleft()


class FollowedOutputs:
    """The output of a team's commands, as followers read it."""

    def __init__(self, database: Database, layout: Layout) -> None:
        self._db = database
        self._layout = layout

    def read(self, session: str, command_id: str, after: int, wait: float) -> list[tuple[int, FollowedPiece]]:
        """Return numbered pieces after number `after`, waiting at most `wait` seconds for one."""
        key = self._layout.of(session).key("follow", command_id)
        block: list[Arg] = ["BLOCK", max(1, round(wait * 1000))] if wait > 0 else []
        reply: Any = self._db.command("XREAD", "COUNT", READ_BATCH, *block, "STREAMS", key, f"{after}-0")
        entries: list[tuple[bytes, list[bytes]]] = reply[0][1] if reply else []
        return [(int(id_.partition(b"-")[0]), _decoder.decode(fields[1])) for id_, fields in entries]
