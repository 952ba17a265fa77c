"""The process of one event: read, publish, wait a moment, answer. Nothing in here may raise past `main`."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from typing import Final, NoReturn

from tellback.hook.troubles import note

EVENTS: Final = {  # as the command line calls them -> as agents call them
    "session-start": "SessionStart",
    "user-prompt-submit": "UserPromptSubmit",
    "post-tool-use": "PostToolUse",
    "post-tool-use-failure": "PostToolUseFailure",
    "stop": "Stop",
}
MOST_BYTES: Final = 64 << 20  # of standard input
STDIN_SECONDS: Final = 2.0  # without a byte


def main(arguments: Sequence[str]) -> NoReturn:
    """Handle one event. The exit code is 0 whatever happens, and without an answer nothing is printed."""
    try:
        _handle(arguments)
    except BaseException as error:  # noqa: BLE001 - an agent is not to be broken by a hook, whatever goes wrong in it
        try:
            note(os.environ, f"{arguments[0] if arguments else ''}: {type(error).__name__}: {error}")
        except BaseException:  # noqa: BLE001 - there is nobody left to tell
            os._exit(0)
    os._exit(0)  # what the thread may hang in must not hold the process up


def _handle(arguments: Sequence[str]) -> None:
    name = EVENTS[arguments[0]]
    raw = _standard_input()
    from tellback.hook.handling import handle  # noqa: PLC0415 - an import that fails must find the process on its guard

    handle(raw, name, arguments[1:])


def _standard_input() -> bytes:
    """All that comes, for as long as something does."""
    chunks: list[bytes] = []
    size = 0
    while select.select([0], [], [], STDIN_SECONDS)[0]:
        chunk = os.read(0, 1 << 20)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        size += len(chunk)
        if size > MOST_BYTES:
            raise ValueError(f"standard input has more than {MOST_BYTES} bytes")
    raise TimeoutError(f"standard input brought nothing for {STDIN_SECONDS:g} s and did not end")
