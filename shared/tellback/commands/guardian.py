"""The supervisor's parent: ends what the supervisor leaves if that dies before it could; Linux, standard library only.

    runner ── guardian ── supervisor ── the command and all that it starts

Without it each command would have to ask the kernel for a signal at its supervisor's death. Only the command's own
process can ask, before it becomes the program; that takes a copy of the supervisor by a full fork for each command, the
dearest part of running a short one, and its children would outlive the supervisor all the same.

The guardian does nothing but wait, so little can happen to it; if it is killed, the supervisor ends everything.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from tellback.commands.processes import LINUX, adopt_orphans, freeze, signal_all, signal_on_parents_death

LIFE_CHECK = 1.0  # between looks at the runner, in seconds
TICK = 0.02  # between looks at what is left


def guarded(descriptor: int) -> bool:
    """Part into guardian and supervisor. True in the supervisor; False in the guardian when nothing is left to do.

    `descriptor` is the socket of the runner. Its end is how the runner hears of the supervisor's, which alone keeps it.
    Where orphans are not adopted (macOS) there is no guardian, and this process is the supervisor.
    """
    if not LINUX:
        return True
    adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGTERM))
    guardian, runner = os.getpid(), os.getppid()
    supervisor = os.fork()
    if supervisor:
        os.close(descriptor)
        _guard(supervisor, runner)
        return False
    signal_on_parents_death(signal.SIGTERM)
    os.setsid()
    if os.getppid() != guardian:  # it died before its death could be watched
        os.kill(os.getpid(), signal.SIGTERM)
    return True


def _guard(supervisor: int, runner: int) -> None:
    """Until the supervisor has ended, by itself or because the runner is gone or asked for its end (SIGTERM)."""
    while os.waitpid(supervisor, os.WNOHANG) == (0, 0):
        told = signal.sigtimedwait((signal.SIGCHLD, signal.SIGTERM), LIFE_CHECK)
        if os.getppid() != runner or (told is not None and told.si_signo == signal.SIGTERM):
            with suppress(OSError):
                os.kill(supervisor, signal.SIGKILL)
    while _any_left():
        freeze(os.getpid())
        signal_all(os.getpid(), signal.SIGKILL)
        time.sleep(TICK)


def _any_left() -> bool:
    """Whether a process is left below this one, after collecting the dead."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True
