"""Notes for the main agent about subagents that ended stuck or failed, delivered with its next call.

The notes are files in the data directory, because a subagent's last hook process is another one than that of the main
agent's next call, and both run on one host. Requirement G-77.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from typing import Any, Final, cast

from tellback import clock
from tellback.contracts.feedback_text import feedback_text
from tellback.hook.event import HookEvent
from tellback.hook.reading import AgentView, progress_of
from tellback.sanitize import inert_line
from tellback.small_files import file_names, read_file, remove_file, remove_if_older, write_file

LEAST_FAILURES: Final = 2  # in a row at the end; a single one is often the very finding, such as a test that fails
LAST_CALLS: Final = 5  # a warning within so many calls of the end was not overcome
KEPT_SECONDS: Final = 3_600.0  # a note that no call fetched in this time belongs to a session that ended
MOST_AT_ONCE: Final = 5  # notes for one call
_CHARS: Final = 200

FOLDER: Final = "hook/subagents"


def ending_of(event: HookEvent, view: AgentView) -> str:
    """Return what the main agent should know about a subagent that ends; "" if it did not end stuck or failed."""
    state = view.state
    failing, calls = int(progress_of(state).get("failing") or 0), int(state.get("calls") or 0)
    said = cast("dict[str, Any]", state.get("last_feedback") or {})
    recent = calls - int(said.get("call_index") or 0) < LAST_CALLS
    stuck = said.get("severity") == "warning" and recent
    if failing < LEAST_FAILURES and not stuck:
        return ""
    name = inert_line(str(event.given.get("agent_type") or "subagent"))[:_CHARS]
    ended = f"its last {failing} tool calls failed" if failing >= LEAST_FAILURES else "it was stuck"
    evidence = [("Calls", str(calls))]
    own = [call for call in view.calls if call.get("evaluation") == event.evaluation and call.get("error")]
    if failing >= LEAST_FAILURES and own:
        evidence.append(("Last error", inert_line(str(own[-1]["error"]))[:_CHARS]))
    if stuck:
        evidence.append(("It was told", inert_line(str(said.get("summary") or ""))[:_CHARS]))
    advice = ["Check what it reports before you build on it."]
    return feedback_text("Subagent", f"The subagent {name} has ended; {ended}.", evidence, advice)


class SubagentNotes:
    """The notes for the main agent of one session, each a file; the process that deletes it delivers the note."""

    def __init__(self, data: str, session: str) -> None:
        self._folder = f"{data}/{FOLDER}"
        self._session = session.encode("utf-8", "replace")
        self._prefix = f"{zlib.crc32(self._session):08x}-"

    def keep(self, text: str) -> None:
        """Keep a note.

        Raises:
            OSError: the disk is full or not writable.
        """
        path = f"{self._folder}/{self._prefix}{os.urandom(8).hex()}"
        write_file(path, self._session + b"\n" + text.encode("utf-8", "replace"))

    def claim(self) -> list[str]:
        """Return the notes, and delete them; those of sessions that ended long ago go too."""
        found: list[str] = []
        for name in file_names(self._folder):
            path = f"{self._folder}/{name}"
            if name.startswith(self._prefix) and len(found) < MOST_AT_ONCE:
                with suppress(OSError):  # another process was faster
                    found += self._take_note(path)
            else:
                remove_if_older(path, clock.wall() - KEPT_SECONDS)
        return found

    def _take_note(self, path: str) -> list[str]:
        session, _, text = read_file(path).partition(b"\n")
        if session != self._session:  # CRCs collide
            return []
        remove_file(path)
        return [text.decode("utf-8", "replace")]
