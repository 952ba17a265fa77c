"""The console script.

An agent waits for every hook event, so `tellback hook EVENT` is handled before the command line is imported.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from tellback.cli import INTERRUPTED

BLOCKING_EXIT: Final = 2  # Claude Code takes this exit code of a hook as a veto of what the agent was about to do
HOOK_EVENTS: Final = (["install"], ["uninstall"], ["status"])


def main() -> None:
    """Run `tellback`."""
    _replace_closed_streams()
    if sys.argv[1:2] == ["hook"] and len(sys.argv) > 2:
        from tellback.hook.options import EVENTS, UNUSED_EVENTS
        from tellback.hook.process import main as handle

        if sys.argv[2] in EVENTS.keys() | UNUSED_EVENTS and not {"--help", "-h"} & set(sys.argv[3:]):
            handle(sys.argv[2:])
    from tellback.process_privacy import forbid_dumps

    forbid_dumps()  # the environment may have a login; commands of agents may run on this host as this user
    try:
        from tellback.cli.app import main as app

        app()
    except KeyboardInterrupt:  # during the imports; a command handles its own
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        if end.code == BLOCKING_EXIT and sys.argv[1:2] == ["hook"] and sys.argv[2:3] not in HOOK_EVENTS:
            sys.exit(1)  # settings of a newer release may name an event that this one does not know: don't veto
        raise


def _replace_closed_streams() -> None:
    """Open /dev/null in place of each standard stream that the caller has closed, as `tellback ... >&-` does.

    The next socket or file would get its number, and what is printed would go there. For standard output it is opened
    for reading alone, so that what prints a result fails, as it does on a full disk.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            mode = os.O_RDONLY if name == "stdout" else os.O_RDWR
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest free number, which is this one
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: PTH123, SIM115 - a stream
