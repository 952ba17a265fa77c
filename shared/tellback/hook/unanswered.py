"""The requests for feedback whose reply was lost, on this host's disk.

The next hook process repeats them under the same operation id: the server may have removed the feedback from the
mailbox already, and it repeats its reply for ten minutes. Older requests get no reply any more and are deleted, so
ended sessions leave no files.
"""

from __future__ import annotations

import os
import zlib
from typing import Final

from tellback import clock
from tellback.small_files import file_names, read_file, remove_file, remove_if_older, write_file

MAX_REQUESTS: Final = 4  # unanswered requests that one process repeats

KEPT_SECONDS: Final = 600.0  # as long as the server keeps the reply to an operation

REMOVED: Final = 64  # files that one process checks for their age

_FOLDER: Final = "hook/unanswered"


class UnansweredRequests:
    """The unanswered requests for one evaluation's mailbox, as files in the data directory.

    A file's name has the mailbox's CRC-32 and its content the mailbox's name, since CRCs collide.
    """

    def __init__(self, data: str, mailbox: str) -> None:
        self._folder = f"{data}/{_FOLDER}"
        self._mailbox = mailbox.encode("utf-8", "replace")
        self._prefix = f"{zlib.crc32(self._mailbox):08x}-"

    def claim(self) -> list[str]:
        """Claim unanswered requests by deleting their files; each is claimed by one process only."""
        every = sorted(file_names(self._folder))
        found: list[str] = []
        for name in every:
            if len(found) < MAX_REQUESTS and name.startswith(self._prefix) and self._is_request_file(name):
                found.append(name[len(self._prefix) :])
        # A random start, or the files after the first 64 would never be removed.
        start = int.from_bytes(os.urandom(4), "big") % max(1, len(every))
        self._remove_old([*every[start:], *every[:start]][:REMOVED])
        return found

    def _remove_old(self, names: list[str]) -> None:
        oldest = clock.wall() - KEPT_SECONDS
        for name in names:
            remove_if_older(f"{self._folder}/{name}", oldest)

    def _is_request_file(self, name: str) -> bool:
        path = f"{self._folder}/{name}"
        try:
            if read_file(path) != self._mailbox:
                return False
            remove_file(path)
        except OSError:  # another process claimed it
            return False
        return True

    def keep(self, operations: list[str]) -> None:
        """Keep requests for the next process.

        Raises:
            OSError: the disk is full or not writable.
        """
        for operation in operations:
            write_file(f"{self._folder}/{self._prefix}{operation}", self._mailbox)
