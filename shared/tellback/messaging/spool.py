"""The spool: events on disk while Redis is unavailable or a stream is full, sent later in order.

Each long-lived process has a file of its own; all hooks of a host share one. Only the holder of a file's lock may write
or send it. So a file that can be locked belongs to a dead process, or is the shared one, and any process of the host
may send it. An event that is sent twice after a crash has no second effect, since it has an id, or a writer and a
number. The module avoids pathlib, because `tellback hook` imports it during an outage.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

from tellback import clock
from tellback.backoff import Backoff
from tellback.errors import SpoolFull
from tellback.log import get_logger
from tellback.messaging.spool_file import (
    SHARED,
    Chunk,
    Quarantine,
    SpoolFile,
    format_line,
    is_intake_stream,
    parse_line,
)
from tellback.messaging.spool_file import SpooledEvent as SpooledEvent  # noqa: PLC0414 - callers import it from here
from tellback.messaging.team_cache import SUFFIX, SpoolLocation
from tellback.names import Family

MAX_AGE_SECONDS: Final = 6 * 86_400  # a day less than Redis keeps marks and event ids: older events might count twice
LOCK_BACKOFF: Final = Backoff(first=0.0005, longest=0.01)
LOCK_SECONDS: Final = 1.0  # for the shared file: an append holds it briefly, but its holder may have been stopped
FOLD_BYTES: Final = 64 << 10  # a process that ends moves up to this much to the shared file, or files would pile up

RESERVE: Final = 10  # one byte in so many of the cap is kept for the families that somebody waits for
RESERVED: Final = frozenset({Family.TURNS, Family.COMMANDS})

Send = Callable[[Sequence[SpooledEvent]], None]

_logger = get_logger("tellback.spool")


class Report(Protocol):
    """A function that reports an event to a person: a log, or the failure log of a hook."""

    def __call__(self, event: str, **fields: object) -> None:
        """Report an event with its fields."""


class Spool:
    """The spool of one process for one stream, in a folder shared by all processes of the host."""

    def __init__(
        self,
        location: SpoolLocation,
        name: str,
        *,
        max_bytes: int,
        chunk: int,
        shared: bool = False,
        report: Report = _logger.error,
    ) -> None:
        """Prepare the spool; files are created by the first `append`.

        Args:
            location: the folders of the team's spools.
            name: the spool's name, FAMILY.SHARD.
            max_bytes: the cap of all files of the team together.
            chunk: most lines to send at once.
            shared: append to the file that all short-lived processes share.
            report: reports damaged, dropped and quarantined events.
        """
        self._place, self._name = location, name
        self._family = name.partition(".")[0]
        self._folder = location.folders(name)[0]
        self._max_bytes, self._most = max_bytes, chunk
        self._shared, self._report = shared, report
        self._own: SpoolFile | None = None
        self._own_since = 0.0  # the first attempt to send what it holds; by `since_boot`
        self._orphan: SpoolFile | None = None
        self._apart: SpoolFile | None = None  # locked until this process ends, so that no other sends it too early

    @property
    def pending(self) -> bool:
        """True if this process has events that were not sent."""
        own = self._own
        return own is not None and own.pending > 0

    def append(self, events: Sequence[SpooledEvent], age: float = 0.0) -> None:
        """Write events to disk, all or none; their horizon counts from `age` seconds ago.

        Raises:
            SpoolFull: the team's cap is reached, or the disk is full or not writable.
        """
        block = self._block(events, age)
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            if not (self._shared and self._append_shared(block)):
                self._own = self._own or SpoolFile.create(self._folder)
                first = clock.since_boot() - age
                self._own_since = min(self._own_since, first) if self._own.pending else first
                self._own.append(block)
        except OSError as error:
            raise self._not_writable(error) from error

    def append_apart(self, events: Sequence[SpooledEvent], age: float) -> None:
        """Write events to a file of their own in place of the last such one, for the case that this process ends now.

        Raises:
            SpoolFull: the team's cap is reached, or the disk is full or not writable.
        """
        block = self._block(events, age)
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            last, self._apart = self._apart, SpoolFile.create(self._folder)
            self._apart.append(block)
            _drop(last)
        except OSError as error:
            raise self._not_writable(error) from error

    def _block(self, events: Sequence[SpooledEvent], age: float) -> bytes:
        stamp = int((clock.wall() - age) * 1000)
        block = b"".join(format_line(event, stamp) for event in events)
        used, most = sum(spool_sizes(self._place.team)), self._max_bytes
        if self._family not in RESERVED:
            most -= most // RESERVE
        if used + len(block) > most:
            raise SpoolFull(
                f"the spool {self._place.team} holds {used} of the {most} bytes that {self._family} may fill, and "
                f"{len(block)} more wait; raise TELLBACK_SPOOL_MAX_BYTES"
            )
        return block

    def _not_writable(self, error: OSError) -> SpoolFull:
        return SpoolFull(f"the spool {self._folder} cannot be written: {error}")

    def _append_shared(self, block: bytes) -> bool:
        """Append to the shared file; return False if its lock was not free in time."""
        end, delays = clock.monotonic() + LOCK_SECONDS, LOCK_BACKOFF.delays()
        while (file := SpoolFile.take(os.path.join(self._folder, SHARED), create=True)) is None:
            if clock.monotonic() >= end:
                return False
            clock.sleep(next(delays))
        with file:
            file.append(block)
        return True

    def send_own(self, send: Send) -> None:
        """Send this process's events in order; whatever `send` raises ends it, and the rest stays on disk."""
        if self._own is not None and self._own.pending:
            self._send_file(self._own, send, None)
            with suppress(OSError):  # harmless if it fails: the mark says that everything was sent
                self._own.clear()

    def other_files(self) -> list[str]:
        """Return the files of other processes, alive or dead, oldest first, and the shared file last."""
        ours = {file.path for file in (self._own, self._orphan) if file is not None}
        found = (path for folder in self._place.folders(self._name) for path in _spool_files(folder))
        return sorted((path for path in found if path not in ours), key=os.path.basename)

    def send_orphans(self, send: Send, more: Callable[[int], bool] | None = None) -> bool:
        """Send the files of dead processes and delete them; skip a file that cannot be used.

        `more` decides whether to continue. It is called after each chunk with the number of its lines, and after each
        file with 0. Return whether the next call may have something to send.
        """
        held = [] if self._orphan is None else [self._orphan.path]
        for path in [*held, *self.other_files()]:
            try:
                file = self._take(path)
                if file is None:
                    continue
                if not self._send_orphan(file, send, more) or (more is not None and not more(0)):
                    return True
            except OSError as error:  # for example another user's file: our own events must not wait for it
                self._report("spool.orphan_left", path=path, reason=str(error))
                self._let_go()
        return False

    def _take(self, path: str) -> SpoolFile | None:
        """Lock a file to send, and keep it while anything is left: if no mark can be written, only it knows how far."""
        if self._orphan is None:
            self._orphan = SpoolFile.take(path)
            if self._orphan is not None and os.path.basename(path) == SHARED:
                self._orphan.set_apart()
        return self._orphan

    def _send_orphan(self, file: SpoolFile, send: Send, more: Callable[[int], bool] | None) -> bool:
        if not self._send_file(file, send, more):
            return False
        file.delete()
        self._let_go()
        return True

    def _let_go(self) -> None:
        if self._orphan is not None:
            with self._orphan:
                self._orphan = None

    def _send_file(self, file: SpoolFile, send: Send, more: Callable[[int], bool] | None) -> bool:
        """Send a file until `more` says stop; return whether everything was sent."""
        for chunk in file.chunks(self._most):
            self._send_chunk(file, chunk, send)
            file.mark(chunk.end)
            if more is not None and not more(len(chunk.lines)):
                return not file.pending
        return True

    def _send_chunk(self, file: SpoolFile, chunk: Chunk, send: Send) -> None:
        """Send the valid lines, then quarantine the others: only once, however often the sending failed before."""
        oldest = self._oldest(file)
        sound: list[tuple[SpooledEvent, bytes]] = []
        refused: list[tuple[str, bytes]] = []
        old = 0
        for line in chunk.lines:
            parsed = parse_line(line)
            if parsed is None:
                refused.append(("damaged", line))
            elif not is_intake_stream(
                parsed[1].stream, os.path.basename(self._place.team), self._place.shards, self._family
            ):
                refused.append(("no intake stream of this team", line))
            elif parsed[0] < oldest:
                old += 1
            else:
                sound.append((parsed[1], line))
        if sound:
            refused += _deliver(sound, send)
        if old:
            self._report("spool.dropped", path=file.path, events=old, reason="older than six days")
        if chunk.torn:
            self._report("spool.torn_line", path=file.path, bytes=chunk.torn)
        if refused:
            self._quarantine(file, refused)

    def _oldest(self, file: SpoolFile) -> int:
        """Return the time, in milliseconds, before which events are too old to be sent."""
        # The wall clock decides about other processes' files alone: it may have stepped forward since, for example
        # when a host that starts without the time gets it from the network.
        if file is self._own and clock.since_boot() - self._own_since < MAX_AGE_SECONDS:
            return 0
        return int((clock.wall() - MAX_AGE_SECONDS) * 1000)

    def _quarantine(self, file: SpoolFile, refused: list[tuple[str, bytes]]) -> None:
        quarantine = Quarantine(os.path.dirname(file.path))
        kept = quarantine.keep(refused)
        reasons = ", ".join(sorted({reason for reason, _ in refused}))
        self._report("spool.quarantined", path=quarantine.path, events=kept, reason=reasons)
        if kept < len(refused):
            self._report(
                "spool.dropped", path=file.path, events=len(refused) - kept, reason=f"the quarantine is full: {reasons}"
            )

    def abandon(self) -> None:
        """Close the parent's files in a forked child, without releasing the parent's locks."""
        for file in (self._own, self._orphan, self._apart):
            if file is not None:
                file.abandon()
        self._own = self._orphan = self._apart = None

    def close(self, *, unsent: bool = False) -> None:
        """Close this process's files; move a small rest to the shared file, and delete empty files.

        `unsent` keeps what `append_apart` wrote, since events are in neither Redis nor the other files.
        """
        if not unsent:
            with suppress(OSError):  # as below
                _drop(self._apart)
            self._apart = None
        files = self._orphan, self._own
        self._orphan = self._own = None  # before they are closed: other threads ask whether anything is pending
        for file in files:
            if file is not None:
                # A disk that refuses it keeps a file whose events were sent, or are sent again without effect.
                with suppress(OSError), file:
                    if not file.pending or self._fold(file):
                        file.delete()

    def _fold(self, file: SpoolFile) -> bool:
        """Move the lines to the shared file; otherwise every short program in an outage would leave a file."""
        try:
            return file.pending <= FOLD_BYTES and self._append_shared(file.rest())
        except OSError:  # no room for a second copy: the file stays
            return False


def _deliver(sound: list[tuple[SpooledEvent, bytes]], send: Send) -> list[tuple[str, bytes]]:
    """Send events; return the lines that Redis refuses permanently, found by trying stream by stream."""
    try:
        send([event for event, _ in sound])
    except Exception as error:
        if not _is_for_good(error):
            raise
        streams = {event.stream: "" for event, _ in sound}
        if len(streams) == 1:
            return [("WRONGTYPE", line) for _, line in sound]
        by_stream = [[one for one in sound if one[0].stream == stream] for stream in streams]
        return [refused for each in by_stream for refused in _deliver(each, send)]
    return []


def _is_for_good(error: Exception) -> bool:
    """Return whether the stream's key has another type: no retry can succeed, and it would block the file forever."""
    return "WRONGTYPE" in str(error)


def _drop(file: SpoolFile | None) -> None:
    if file is not None:
        with file:
            file.delete()


def _spool_files(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry.path for entry in entries if entry.name.endswith(SUFFIX))
    except OSError:
        return


def spool_sizes(folder: str) -> list[int]:
    """Return the sizes of the spool files below a folder, without empty ones and those that are deleted meanwhile."""
    files = (os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)
    return [size for path in files if path.endswith(SUFFIX) and (size := _size(path))]


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
