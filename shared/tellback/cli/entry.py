"""The console script. An event of a hook is handled before anything of the command line is imported."""

from __future__ import annotations

import sys
from typing import Final

BLOCKS: Final = 2  # what agents' programs take from a hook as a refusal of what the agent was about to do
OURS: Final = (["install"], ["uninstall"], ["status"])


def main() -> None:
    """Run `tellback`."""
    if sys.argv[1:2] == ["hook"] and len(sys.argv) > 2:
        from tellback.hook.process import EVENTS
        from tellback.hook.process import main as handle

        if sys.argv[2] in EVENTS and not {"--help", "-h"} & set(sys.argv[3:]):
            handle(sys.argv[2:])
    from tellback.cli.app import main as app

    try:
        app()
    except SystemExit as end:
        if end.code == BLOCKS and sys.argv[1:2] == ["hook"] and sys.argv[2:3] not in OURS:
            sys.exit(1)  # settings of a later release may name an event that this one does not know
        raise
