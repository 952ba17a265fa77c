"""`python -m benchmarks.failure_modes [MODES...]`: the named failure modes with guidance off and on."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.failure_modes.coding import CODING, CodingMode
from benchmarks.failure_modes.modes import MODES, Mode
from benchmarks.failure_modes.report import Row, draw, measure, table

BY_NAME: Final[dict[str, Mode | CodingMode]] = {mode.name: mode for mode in (*MODES, *CODING)}
ALL: Final = [mode.name for mode in MODES]
GROUPS: Final = {"coding": [mode.name for mode in CODING]}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.failure_modes", description=__doc__)
    shown = f"default {', '.join(ALL)}; coding: {', '.join(GROUPS['coding'])}"
    parser.add_argument("modes", nargs="*", help=shown)
    parser.add_argument("--seeds", type=int, default=100, help="runs of each mode (default 100; of a fleet a tenth)")
    parser.add_argument("--plot", type=Path, default=Path("build/failure_modes.png"), help="where the plot goes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(words)
    names = [name for word in arguments.modes or ALL for name in GROUPS.get(word, [word])]
    unknown = set(names) - set(BY_NAME)
    if unknown:
        parser.error(f"no mode {', '.join(sorted(unknown))}; there are {', '.join(BY_NAME)}")
    if arguments.seeds < 10:
        parser.error("--seeds: use 10 or more")
    rows: list[Row] = []
    for name in names:
        mode = BY_NAME[name]
        rows += measure(mode, arguments.seeds if mode.agents == 1 else max(5, arguments.seeds // 10))
    draw(rows, arguments.plot)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        print(f"{table(rows)}\n\nplot: {arguments.plot}")


if __name__ == "__main__":
    main()
