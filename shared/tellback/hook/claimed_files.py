"""Small files that one hook process leaves on this host's disk and a later one claims by deleting them.

A request for feedback whose reply was lost is repeated by the next process under the same operation id: the server may
have removed the feedback from the mailbox already, and it repeats its reply for ten minutes. A note about a subagent
waits for the main agent's next call. Files that nobody claimed in time are removed, so ended sessions leave none.
Requirement G-77.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from typing import Final

from tellback import clock
from tellback.small_files import file_names, read_file, remove_file, remove_if_older, write_file

REPLY_SECONDS: Final = 600.0  # as long as the server keeps the reply to an operation

NOTE_SECONDS: Final = 3_600.0  # a note that no call fetched in this time belongs to a session that ended

CHECKED: Final = 64  # files that one process checks for their age


class ClaimedFiles:
    """The files of one owner, each claimed by one process only.

    A file's name has the owner's CRC-32 and its content begins with the owner's name, since CRCs collide.
    """

    def __init__(self, folder: str, owner: str, *, seconds: float, at_once: int) -> None:
        self._folder, self._seconds, self._at_once = folder, seconds, at_once
        self._owner = f"{owner}\0".encode("utf-8", "replace")
        self._prefix = f"{zlib.crc32(self._owner):08x}-"

    def keep(self, name: str, text: str = "") -> None:
        """Keep a file for a later process.

        Raises:
            OSError: the disk is full or not writable.
        """
        write_file(f"{self._folder}/{self._prefix}{name}", self._owner + text.encode("utf-8", "replace"))

    def claim(self) -> dict[str, str]:
        """Return the text of some files by their names, and delete them; old files of any owner go too."""
        every = sorted(file_names(self._folder))
        found: dict[str, str] = {}
        for name in every:
            if len(found) < self._at_once and name.startswith(self._prefix):
                with suppress(OSError):  # another process was faster
                    content = read_file(f"{self._folder}/{name}")
                    if content.startswith(self._owner):
                        remove_file(f"{self._folder}/{name}")
                        found[name[len(self._prefix) :]] = content[len(self._owner) :].decode("utf-8", "replace")
        # A random start, or the files after the first 64 would never be removed.
        start = int.from_bytes(os.urandom(4), "big") % max(1, len(every))
        for name in [*every[start:], *every[:start]][:CHECKED]:
            remove_if_older(f"{self._folder}/{name}", clock.wall() - self._seconds)
        return found


def unanswered_requests(data: str, mailbox: str) -> ClaimedFiles:
    """Return the requests for the feedback in a mailbox whose replies were lost, by their operation ids."""
    return ClaimedFiles(f"{data}/hook/unanswered", mailbox, seconds=REPLY_SECONDS, at_once=4)


def subagent_notes(data: str, session: str) -> ClaimedFiles:
    """Return the notes for the main agent of a session about its subagents."""
    return ClaimedFiles(f"{data}/hook/subagents", session, seconds=NOTE_SECONDS, at_once=5)
