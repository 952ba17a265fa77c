"""The search for survivors: processes of an earlier attempt whose watchers were all killed at the same moment (Linux).

The command's own process dies with its supervisor (`ExecPreparation`), but the processes that it started survive, and
may run beside the retry. The next attempt on the same host finds them by an environment variable that children inherit.
It does not find a process that cleared its environment, nor one whose retry runs on another host.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import psutil

from tellback import clock
from tellback.commands.process_tree import LINUX

MARK: Final = "TELLBACK_ATTEMPT_OF"  # in the environment of a command that may be retried
_ROUNDS: Final = 100  # a process that forks during one round is found by a later one
_POLL: Final = 0.02  # seconds, until killed processes are gone


def end_survivors(mark: str) -> int:
    """Kill every process that carries this mark, wait until none is left, and return how many there were.

    Raises:
        TimeoutError: a process does not die.
    """
    found: set[int] = set()
    for _ in range(_ROUNDS):
        alive = _carrying(mark) if LINUX else []
        if not alive:
            return len(found)
        found.update(process.pid for process in alive)
        for process in alive:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.kill()  # psutil checks that the id is still that process's
        clock.sleep(_POLL)
    raise TimeoutError(f"{len(found)} processes of the attempt before cannot be killed")


def _carrying(mark: str) -> list[psutil.Process]:
    """Return the processes with this mark; another user's, and a zombie, show no environment."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark:
                found.append(process)
    return found
