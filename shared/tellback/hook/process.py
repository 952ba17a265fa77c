"""The process of one event: read it, publish it, wait briefly, answer. Nothing may raise past `main`.

Only the failure log is imported at the top: a failing import elsewhere must be caught and logged like any other error.
"""

from __future__ import annotations

import gc
import os
import select
from collections.abc import Sequence
from typing import Final, NoReturn

from tellback.hook.failure_log import log_failure
from tellback.hook.options import EVENTS, UNUSED_EVENTS
from tellback.process_privacy import forbid_dumps

MOST_BYTES: Final = 64 << 20  # of standard input
STDIN_SECONDS: Final = 2.0  # without a byte: an agent that keeps the pipe open must not keep the hook alive


def main(arguments: Sequence[str]) -> NoReturn:
    """Handle one event. The exit code is 0 whatever happens, and nothing is printed unless there is an answer."""
    gc.disable()  # nearly all that it makes lives until it ends; collections took 2 ms of 68
    try:
        forbid_dumps()  # the environment has the password of Redis; the agent's commands run as the same user
        _handle_one(arguments)
    except BaseException as error:  # noqa: BLE001 - an agent is not to be broken by a hook, whatever goes wrong in it
        try:
            log_failure(os.environ, f"{arguments[0] if arguments else ''}: {type(error).__name__}: {error}")
        except BaseException:  # noqa: BLE001 - there is nobody left to tell
            os._exit(0)
    os._exit(0)  # without waiting for the thread, which may hang in a resolver or a handshake


def _handle_one(arguments: Sequence[str]) -> None:
    raw = _standard_input()  # first, for any event: a program may not expect that its pipe is closed
    if arguments[0] in UNUSED_EVENTS:
        return
    name = EVENTS[arguments[0]]
    from tellback.hook.handling import handle_event  # an import that fails must find the process on its guard

    handle_event(raw, name, arguments[1:])


def _standard_input() -> bytes:
    """Read standard input to its end.

    Raises:
        TimeoutError: no byte came for `STDIN_SECONDS`.
        ValueError: it is larger than `MOST_BYTES`.
    """
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
