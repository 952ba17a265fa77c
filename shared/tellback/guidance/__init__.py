"""Decide which feedback a tool call earns, as pure logic: nothing in this package imports Redis or Celery.

- `observations` turns a result into what happened and what to do next, on the host.
- `progress` finds what an agent repeats without making progress; `stuck_feedback` and `next_steps` put it in words.
- `evaluation` applies events to the stored `state`, and asks the providers: `builtin_providers` and those of
  `registry`, by the contract in `provider`.
- `measures` and `summary` count, `repeats` says which calls are the same attempt, and `shell` splits command lines.
"""
