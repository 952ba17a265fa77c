"""A conversation as a picture: who spoke, what each call came to, where a nudge would have come.

Shapes tell these apart, not colours alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tellback.guidance.observations.values import one_line
from tellback.replay.digest import Card, Line
from tellback.replay.escaping import escaped
from tellback.replay.markdown import speaker

STEP: Final = 26  # pixels from one entry to the next
LEFT: Final = 62
LANES: Final = {"nudges": 20, "tool calls": 52, "messages": 84}
HEIGHT: Final = 112


def timeline(card: Card) -> str:
    """The picture; each mark is a link to its entry, and has its text as a tip."""
    width = LEFT + STEP * max(1, len(card.lines)) + 10
    marks = "".join(mark for place, line in enumerate(card.lines) for mark in _marks(card, place, line))
    lanes = "".join(
        f'<text x="0" y="{y + 4}">{name}</text><line class="axis" x1="{LEFT}" y1="{y}" x2="{width}" y2="{y}"/>'
        for name, y in LANES.items()
    )
    label = escaped(f"Timeline of {card.label}: {card.calls} calls, {card.errors} errors, {card.nudges} nudges")
    return (
        f'<div class="line"><svg width="{width}" height="{HEIGHT}" role="group" aria-label="{label}">'
        f"{lanes}{marks}</svg></div>"
    )


def key() -> str:
    """What the marks mean."""
    names = {
        "user": "user",
        "agent": "agent",
        "success": "call that succeeded",
        "partial": "partial or nothing found",
        "error": "call that failed",
        "nudge": "feedback of a provider",
    }
    return " ".join(
        f'<span><svg width="18" height="18" aria-hidden="true">{_shape(kind, 9, 9)}</svg> {name}</span>'
        for kind, name in names.items()
    )


def _marks(card: Card, place: int, line: Line) -> Iterator[str]:
    entry = f"c{card.line}-{place}"
    x = LEFT + STEP * place + STEP // 2
    if line.kind != "call":
        tip = f"message {line.position}, {speaker(line)}: {one_line(line.text, 200)}"
        yield _mark(entry, line.kind, x, LANES["messages"], tip)
        return
    steps = "".join(f"\n- {one_line(step, 120)}" for step in line.steps)
    tip = f"call {line.index}: {line.headline}{steps}"
    yield _mark(entry, line.status, x, LANES["tool calls"], tip)
    yield f'<text x="{x}" y="{HEIGHT - 4}" text-anchor="middle">{line.index}</text>'
    for nudge in line.nudges:
        tip = f"call {line.index}, {nudge.severity}, {nudge.provider}: {nudge.summary}"
        yield _mark(entry, "nudge", x, LANES["nudges"], tip)


def _mark(entry: str, kind: str, x: int, y: int, tip: str) -> str:
    said = escaped(tip)
    return (
        f'<a href="#{entry}" data-tip="{said}" aria-label="{said}">'
        f'<circle class="hit" cx="{x}" cy="{y}" r="13"/>{_shape(kind, x, y)}</a>'
    )


def _shape(kind: str, x: int, y: int) -> str:
    if kind == "user":
        return f'<rect class="user" x="{x - 6}" y="{y - 6}" width="12" height="12"/>'
    if kind == "agent":
        return f'<rect class="agent" x="{x - 6}" y="{y - 6}" width="12" height="12" rx="6"/>'
    if kind == "partial":
        return f'<path class="partial" d="M{x} {y - 8}l8 14h-16z"/>'
    if kind == "error":
        return f'<path class="error" d="M{x - 6} {y - 6}l12 12m0 -12l-12 12"/>'
    if kind == "nudge":
        return f'<path class="nudge" d="M{x} {y - 8}l8 8l-8 8l-8 -8z"/>'
    return f'<circle class="success" cx="{x}" cy="{y}" r="6"/>'
