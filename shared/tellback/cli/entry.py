"""The console script. An event of a hook is handled before anything of the command line is imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `tellback`."""
    if sys.argv[1:2] == ["hook"] and len(sys.argv) > 2:
        from tellback.hook.process import EVENTS
        from tellback.hook.process import main as handle

        if sys.argv[2] in EVENTS and not {"--help", "-h"} & set(sys.argv[3:]):
            handle(sys.argv[2:])
    from tellback.cli.app import main as app

    app()
