"""The tables of `docs/operations/capacity.md`, written from the figures between the page's own marks."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Final

from benchmarks.capacity.figures import CapacityFigures, Growth
from benchmarks.capacity.loads import CALLS

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "operations" / "capacity.md"
AGENTS: Final = (1_000, 10_000, 100_000, 1_000_000)
CALL_EVERY: Final = 10.0
"""Seconds between two tool calls of an agent: an assumption, which the page labels as one."""
BUSY: Final = 0.5
"""The share of a process or a server that is to be used: above it, queues grow quickly."""
DAYS: Final = 7.0
"""Days for which a session is kept."""
OF_A_SESSION: Final = ("command", "turn", "signal", "recall")
"""Of which each session of twenty calls has one, as the soak's agents do."""


def write_tables(figures: CapacityFigures) -> None:
    """Replace what stands between the marks of each table."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables(figures).items():
        begin, end = f"<!-- {name}: written by `python -m benchmarks capacity` -->", f"<!-- end of {name} -->"
        marks = re.compile(rf"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        found = marks.findall(text)
        text, count = text.replace(found[0], f"{begin}\n\n{table}\n\n{end}"), len(found)
        assert count == 1, f"{PAGE} has no place for {name}"
    PAGE.write_text(text, encoding="utf-8")


def tables(figures: CapacityFigures) -> dict[str, str]:
    """Return each table by its name."""
    runs = "one run" if figures.runs == 1 else f"the median of {figures.runs} runs"
    taken = (
        f"Taken on {figures.date} on {figures.machine}, {runs} of each, beside other work that made a load of"
        f" {figures.load_average}."
    )
    return {
        "date": taken,
        "rates": _table(
            ("unit", "", "applied a second", "a process could", "a Redis could"),
            [(u.name, u.unit, _number(u.rate), _number(u.of_a_process), _number(u.of_redis)) for u in figures.units],
        ),
        "costs": _table(
            ("unit", "host", "worker", "Redis", "commands", "bytes to and from Redis", "bytes stored"),
            [
                (
                    *(u.name, _number(u.host_us), _number(u.worker_us), _number(u.redis_us)),
                    *(
                        _number(u.redis_calls),
                        _number(u.redis_bytes),
                        _number(u.stored_bytes) if u.stored_bytes > 0 else "–",
                    ),
                )
                for u in figures.units
            ],
        ),
        "growth": _table(
            ("events with", "applied a second", "worker µs", "Redis µs"),
            [(_growth(g), _number(g.rate), _number(g.worker_us), _number(g.redis_us)) for g in figures.growth],
        ),
        "fleet": _table(
            ("agents", "events a second", "processes for events", "for all else", "Redis nodes", "memory of sessions"),
            [_fleet(figures, agents) for agents in AGENTS],
        ),
    }


def _growth(growth: Growth) -> str:
    one = {"worker processes": "worker process", "Redis nodes": "Redis node"}
    return f"{growth.count} {one[growth.of] if growth.count == 1 else growth.of}"


def _fleet(figures: CapacityFigures, agents: int) -> tuple[str, ...]:
    events = agents / CALL_EVERY
    sessions = events / CALLS
    session, rest = figures.unit("session"), [figures.unit(name) for name in OF_A_SESSION]
    processes = sessions * session.worker_us / 1e6 / BUSY
    others = sessions * sum(unit.worker_us for unit in rest) / 1e6 / BUSY
    redis = sessions * (session.redis_us + sum(unit.redis_us for unit in rest)) / 1e6 / BUSY
    stored = sessions * DAYS * 86_400 * session.stored_bytes
    return (
        *(f"{agents:,}", f"{events:,.0f}", f"{math.ceil(processes):,}", f"{math.ceil(others):,}"),
        *(f"{math.ceil(redis):,}", f"{stored / 2**30:,.0f} GiB"),
    )


def _number(value: float) -> str:
    """Return a number with two significant digits."""
    if abs(value) < 10:
        return f"{value:.1f}"
    digits = 2 - len(str(int(abs(value))))
    return f"{round(value, digits):,.0f}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    aligned = "|" + "|".join("---" if n == 0 or not name else "--:" for n, name in enumerate(head)) + "|"
    return "\n".join([f"| {' | '.join(head)} |", aligned, *(f"| {' | '.join(row)} |" for row in rows)])
