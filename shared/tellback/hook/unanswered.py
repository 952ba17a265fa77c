"""Questions for feedback that got no answer: kept on disk, so that the next hook process asks again.

The server may have given the feedback to nobody: it took the question, and its reply came too late or was not read.
Under the same operation id it gives the same answer again, for ten minutes.
"""

from __future__ import annotations

import os
import zlib
from typing import Final

MOST: Final = 4  # asked again by one process

_FOLDER: Final = os.path.join("hook", "unanswered")  # noqa: PTH118 - without pathlib, here and below


class Unanswered:
    """The questions for one evaluation's mailbox."""

    def __init__(self, data: str, mailbox: str) -> None:
        """Take the data directory and what names the mailbox."""
        self._folder = os.path.join(data, _FOLDER)  # noqa: PTH118 - as above
        self._mailbox = mailbox.encode("utf-8", "replace")
        self._prefix = f"{zlib.crc32(self._mailbox):08x}-"

    def claim(self) -> list[str]:
        """Take questions over: each of them is had by one process."""
        try:
            names = sorted(name for name in os.listdir(self._folder) if name.startswith(self._prefix))  # noqa: PTH208 - as above
        except OSError:
            return []
        return [name[len(self._prefix) :] for name in names[: 4 * MOST] if self._is_ours(name)][:MOST]

    def _is_ours(self, name: str) -> bool:
        path = os.path.join(self._folder, name)  # noqa: PTH118 - as above
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - as above
                if file.read() != self._mailbox:
                    return False
            os.unlink(path)  # noqa: PTH108 - as above
        except OSError:  # another process has it
            return False
        return True

    def keep(self, operations: list[str]) -> None:
        """Keep questions for the next process.

        Raises:
            OSError: the disk takes nothing.
        """
        os.makedirs(self._folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - as above
        for operation in operations:
            path = os.path.join(self._folder, self._prefix + operation)  # noqa: PTH118 - as above
            draft = os.path.join(self._folder, f".{operation}.{os.getpid()}")  # noqa: PTH118 - as above
            with open(draft, "wb") as file:  # noqa: PTH123 - as above
                file.write(self._mailbox)
            os.replace(draft, path)  # noqa: PTH105 - as above
