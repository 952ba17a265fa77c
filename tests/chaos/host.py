"""A process of the load: `python -m tests.chaos.host ROLE WHO FOLDER`, which ends when it is asked to by SIGTERM."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import tellback
from tests.chaos.history import History
from tests.chaos.loads import CommandsLoad, GuidanceLoad, Load, SignalsLoad, TurnsLoad
from tests.chaos.peers import run_foreign, run_hooks, run_transport

STOP: Final = threading.Event()


def main() -> None:
    """Run the role that the arguments name."""
    role, who, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    signal.signal(signal.SIGTERM, _stop)
    with ExitStack() as stack:
        history = stack.enter_context(History(folder / "history", who))
        if role == "hooks":
            run_hooks(history, STOP)
            return
        tb = stack.enter_context(tellback.connect())
        if role == "host":
            _run_loops(tb, history, folder)
        elif role == "transport":
            run_transport(tb, history, STOP)
        else:
            run_foreign(tb, history, STOP)


def _stop(*_: object) -> None:
    STOP.set()


def _run_loops(tb: tellback.Tellback, history: History, folder: Path) -> None:
    loads: list[Load] = [load(tb, history, STOP) for load in (GuidanceLoad, SignalsLoad, TurnsLoad)]
    loads.append(CommandsLoad(tb, history, STOP, folder / "commands"))
    threads = [threading.Thread(target=load.run) for load in loads]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():  # `join` without a timeout would keep the signal's handler from running
            thread.join(0.2)


if __name__ == "__main__":
    main()
