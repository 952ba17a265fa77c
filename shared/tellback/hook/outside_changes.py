"""Changes that no tool call made: a person's answer, a session that was resumed, and files of the project.

A denial says that nothing has changed since a failure. The history knows what agents did. This module knows what the
agent's program told of a person, and looks at the project's files before a call is denied. Requirement G-305.
"""

from __future__ import annotations

import os
import zlib
from typing import Final

from tellback import clock
from tellback.hook.event import HookEvent
from tellback.small_files import file_names, remove_if_older, write_file

TURN_EVENTS: Final = frozenset({"SessionStart", "UserPromptSubmit", "SubagentStart"})
_KEPT: Final = "-kept"  # ends the name of such a note
_SECONDS: Final = 86_400.0  # as far back as a policy may look
_MOST_ENTRIES: Final = 20_000  # of a project, some 0.1 s; in a larger one nobody knows
_MOST_SECONDS: Final = 1.0  # on a slow disk: the agent waits
# Folders with more files than a project. Whoever installs, removes or checks something out changes their first level.
_NOT_ENTERED: Final = frozenset({".git", "node_modules", ".venv", "venv", "site-packages", ".tox", ".nox", "target"})


def note_turn(data: str, event: HookEvent, *, kept: bool) -> None:
    """Note that a person or program has just spoken to the session's agent, and may have changed anything before.

    Or that a call of the session was `kept` on disk: in the history it will seem as new as it is late.

    Raises:
        OSError: the disk is full or not writable.
    """
    folder = _folder(data)
    for name in file_names(folder)[:64]:
        remove_if_older(f"{folder}/{name}", clock.wall() - _SECONDS)
    write_file(f"{folder}/{_name_of(event)}{_KEPT if kept else ''}", b"")


def seconds_since_turn(data: str, event: HookEvent) -> float:
    """Return how long ago the last of these was: infinity if none is known, 0 if a call was kept on disk."""
    path = f"{_folder(data)}/{_name_of(event)}"
    if os.path.exists(f"{path}{_KEPT}"):
        return 0.0
    try:
        return clock.wall() - os.stat(path).st_mtime
    except OSError:
        return float("inf")


def may_differ(folder: object, seconds: float) -> bool:
    """Return whether a file in the folder or below it may have changed in the last `seconds`: True if nobody knows."""
    since, end = clock.wall() - seconds, clock.monotonic() + _MOST_SECONDS
    left = _MOST_ENTRIES
    waiting = [str(folder)] if isinstance(folder, str) and folder.startswith("/") else []
    if not waiting:
        return True
    try:
        while waiting:
            entered = waiting.pop()
            if os.stat(entered).st_ctime >= since or clock.monotonic() > end:
                return True
            with os.scandir(entered) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0 or entry.stat(follow_symlinks=False).st_ctime >= since:
                        return True
                    if entry.is_dir(follow_symlinks=False) and os.path.basename(entered) not in _NOT_ENTERED:
                        waiting.append(entry.path)
    except OSError:
        return True
    return False


def _folder(data: str) -> str:
    return f"{data}/hook/turns"


def _name_of(event: HookEvent) -> str:
    return f"{zlib.crc32(event.session.encode('utf-8', 'replace')):08x}"  # of two sessions with one, more calls pass
