"""The requests for feedback whose reply was lost, on this host's disk.

The next hook process repeats them under the same operation id: the server may have removed the feedback from the
mailbox already, and it repeats its reply for ten minutes. Older requests get no reply any more and are deleted, so
ended sessions leave no files.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from typing import Final

from tellback import clock

MAX_REQUESTS: Final = 4  # unanswered requests that one process repeats

KEPT_SECONDS: Final = 600.0  # as long as the server keeps the reply to an operation

REMOVED: Final = 64  # files that one process checks for their age

_FOLDER: Final = os.path.join("hook", "unanswered")  # noqa: PTH118 - without pathlib, here and below


class UnansweredRequests:
    """The unanswered requests for one evaluation's mailbox, as files in the data directory.

    A file's name has the mailbox's CRC-32 and its content the mailbox's name, since CRCs collide.
    """

    def __init__(self, data: str, mailbox: str) -> None:
        self._folder = os.path.join(data, _FOLDER)  # noqa: PTH118 - as above
        self._mailbox = mailbox.encode("utf-8", "replace")
        self._prefix = f"{zlib.crc32(self._mailbox):08x}-"

    def claim(self) -> list[str]:
        """Claim unanswered requests by deleting their files; each is claimed by one process only."""
        try:
            every = sorted(os.listdir(self._folder))  # noqa: PTH208 - as above
        except OSError:
            return []
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
            path = os.path.join(self._folder, name)  # noqa: PTH118 - as above
            with suppress(OSError):  # another process claimed it
                if os.stat(path).st_mtime < oldest:  # noqa: PTH116 - as above
                    os.unlink(path)  # noqa: PTH108 - as above

    def _is_request_file(self, name: str) -> bool:
        path = os.path.join(self._folder, name)  # noqa: PTH118 - as above
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - as above
                if file.read() != self._mailbox:
                    return False
            os.unlink(path)  # noqa: PTH108 - as above
        except OSError:  # another process claimed it
            return False
        return True

    def keep(self, operations: list[str]) -> None:
        """Keep requests for the next process.

        Raises:
            OSError: the disk is full or not writable.
        """
        os.makedirs(self._folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - as above
        for operation in operations:
            path = os.path.join(self._folder, self._prefix + operation)  # noqa: PTH118 - as above
            draft = os.path.join(self._folder, f".{operation}.{os.getpid()}")  # noqa: PTH118 - as above
            try:
                with open(draft, "wb") as file:  # noqa: PTH123 - as above
                    file.write(self._mailbox)
                os.replace(draft, path)  # noqa: PTH105 - as above
            except OSError:
                with suppress(OSError):  # otherwise every process on a full disk would leave an empty draft
                    os.unlink(draft)  # noqa: PTH108 - as above
                raise
