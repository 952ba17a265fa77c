"""The soak: all loops under steady load for a long time, and the check that nothing grows.

`lifetimes` shortens what sessions leave behind, `worker` and `load` are the processes of a run, `system` starts them,
`sampler` measures them, `verdict` judges the series, and `plot` draws them. `python -m tests.soak` runs all of it.
"""

from typing import Final

LIFETIME: Final = "SOAK_LIFETIME"  # variable of each process: seconds until a session's keys expire

LEAK: Final = "SOAK_LEAK"  # variable of the worker `loops`: if set, each task leaks, and the verdict must see it

HOSTS: Final = 2

AGENTS: Final = 6  # threads of a host

CALLS: Final = 20  # tool calls of a session

QUERIES: Final = 8  # different ones that recalls ask: a bank keeps them, so their number is bounded
