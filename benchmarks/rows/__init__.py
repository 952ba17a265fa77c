"""One file for each row of the budgets; each has `measure(system) -> Result`."""

from __future__ import annotations

from importlib import import_module

from benchmarks.measure import RowResult
from benchmarks.system import system

ROWS = (
    "tool_events",
    "teams",
    "evaluation_cost",
    "feedback_latency",
    "command_throughput",
    "command_output",
    "signals_distinct",
    "signals_known",
    "sweep",
    "decay",
    "recall",
    "turns",
    "redaction",
    "hook",
    "weakincentives",
)


def measured(name: str) -> tuple[RowResult, ...]:
    """Return the results of one row, on a system of its own."""
    with system() as fresh:
        found: RowResult | tuple[RowResult, ...] = import_module(f"benchmarks.rows.{name}").measure(fresh)
    return found if isinstance(found, tuple) else (found,)
