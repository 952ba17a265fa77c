"""One file for each row of the budgets; each has `measure(system) -> Result`."""

from __future__ import annotations

ROWS = (
    "tool_events",
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
