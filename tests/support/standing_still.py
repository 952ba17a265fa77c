"""The workers' app, whose first pool process to run a command stops itself right after its last look at the lease.

Give it to `Workers` as `app`. The process with its id in the file that `STOPPED` names is there; SIGCONT continues it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, cast

from tellback.commands.runner import CommandResult, ExecutionSpec, run
from tellback_workers import jobs
from tellback_workers.app import app

__all__ = ["STOPPED", "app"]  # `celery -A` finds the app here

STOPPED = "TELLBACK_TEST_STOPPED"


def _stand_still(execution: ExecutionSpec, **options: Any) -> CommandResult:
    try:
        descriptor = os.open(Path(os.environ[STOPPED]), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return run(execution, **options)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    os.close(descriptor)
    os.kill(os.getpid(), signal.SIGSTOP)
    return run(execution, **options)


if STOPPED in os.environ:  # a worker: who imports the name alone runs commands as ever
    cast("Any", jobs).run = _stand_still  # the name is imported there, not exported
