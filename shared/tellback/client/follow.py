"""Following a command's output from an agent host: pieces as its worker publishes them, until there is a record."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from typing import Final

from tellback import clock
from tellback.client.context import Context
from tellback.contracts.commands import CommandRecord, CommandSubmitted, OutputPiece, Stream
from tellback.errors import Timeout, Unavailable
from tellback.state.follow import FollowedOutputs, FollowedPiece
from tellback.state.records import AWAY_PATIENCE, PAUSE, Records

LOOK: Final = 0.5  # seconds of one blocking read; between two of them a record is looked for

_Found = list[tuple[int, FollowedPiece]]


def follow(
    context: Context, submitted: CommandSubmitted, next_attempt: Callable[[str], str | None], timeout: float | None
) -> Iterator[OutputPiece]:
    """Output of a command and of its further attempts. See `tellback.Job.follow`."""
    end = clock.monotonic() + (math.inf if timeout is None else timeout)
    command_id: str | None = submitted.command_id
    while command_id is not None:
        record = yield from _Attempt(context, submitted.session, command_id, end).pieces()
        command_id = None if record.may_advance else next_attempt(command_id)


class _Attempt:
    """One attempt, from wherever it is to its record."""

    def __init__(self, context: Context, session: str, command_id: str, end: float) -> None:
        self._outputs = FollowedOutputs(context.database, context.layout)
        self._records = Records(context.database, context.layout)
        self._session = session
        self._command_id = command_id
        self._end = end
        self._number = 0  # of the last piece that was read
        self._at = 0  # bytes of output up to there
        self._ended = False  # the worker has said that no more comes
        self._record: CommandRecord | None = None

    def pieces(self) -> Generator[OutputPiece, None, CommandRecord]:
        """Pieces until the record, which is returned."""
        wait = 0.0
        while not self._ended:
            found = self._patient_look(wait)
            for number, piece in found:
                yield from self._told(number, piece)
            if not found and self._record is not None:
                yield from self._recorded(self._record)
                return self._record
            left = self._end - clock.monotonic()
            if not found and left <= 0:
                raise self._timeout()
            wait = 0.0 if self._record else max(0.0, min(LOOK, left))
        left = self._end - clock.monotonic()
        record = self._record or self._records.wait(self._session, self._command_id, left)
        if record is None:
            raise self._timeout()
        return record

    def _patient_look(self, wait: float) -> _Found:
        """What is there within `wait` seconds; a Redis that is away is asked again for a while."""
        away_until = clock.monotonic() + AWAY_PATIENCE
        while True:
            try:
                return self._look(wait)
            except Unavailable:
                if clock.monotonic() >= min(self._end, away_until):
                    raise
                clock.sleep(PAUSE)

    def _look(self, wait: float) -> _Found:
        found = self._read(wait)
        if not found and self._record is None:
            self._record = self._records.wait(self._session, self._command_id, 0.0)
            if self._record is not None:
                return self._read(0.0)  # what came before it is there now, if it ever will be
        return found

    def _read(self, wait: float) -> _Found:
        return self._outputs.read(self._session, self._command_id, self._number, wait)

    def _told(self, number: int, piece: FollowedPiece) -> Iterator[OutputPiece]:
        dropped = piece.at - self._at
        self._number, self._at, self._ended = number, piece.at + piece.raw, piece.end
        if piece.text or dropped:
            yield OutputPiece(command_id=self._command_id, stream=piece.stream, text=piece.text, dropped=dropped)

    def _recorded(self, record: CommandRecord) -> Iterator[OutputPiece]:
        tails: tuple[tuple[Stream, str], ...] = (("stdout", record.stdout_tail), ("stderr", record.stderr_tail))
        for stream, tail in tails:
            if tail:
                yield OutputPiece(command_id=self._command_id, stream=stream, text=f"{tail}\n", recorded=True)

    def _timeout(self) -> Timeout:
        return Timeout(f"command {self._command_id} has no record in the time that was given; it may still run")
