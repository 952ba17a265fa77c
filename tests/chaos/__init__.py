"""Chaos: a real system of many processes under load and faults, then a check of what it did against what it promises.

`python -m tests.chaos --seed 7 --seconds 60` runs it. `plan` draws the faults from the seed, `system` starts the
processes, `injector` applies the faults, `host`, `peers` and `loads` make the load and write the history, `settling`
waits for the end, `end_state` reads Redis, and the modules `check_*` decide the invariants.
"""
