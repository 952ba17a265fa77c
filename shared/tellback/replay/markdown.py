"""A digest as Markdown. What transcripts say is data here: no text of theirs becomes markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tellback.guidance.observations.values import one_line
from tellback.replay.digest import GROUPS, Card, Digest, Figures, Line
from tellback.replay.escaping import visible

# Underscores within a word and most brackets mean nothing; a bare address would become a link.
_MARKUP: Final = re.compile(r"([\\`*{}\[\]#|~>$@]|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.)")
_CELL: Final = 300


def markdown_of(digest: Digest) -> Iterator[str]:
    """The report, in pieces."""
    yield f"# Guidance for {said(digest.source)}\n\n"
    yield f"{summary(digest)}\n"
    yield from _figures(digest)
    yield from _errors(digest)
    yield from _bad(digest)
    yield "\n## Conversations\n"
    if digest.left_out:
        yield f"\n{left_out(digest)}\n"
    for card in digest.cards:
        yield from _card(card)


def summary(digest: Digest) -> str:
    """What was analysed, in two sentences."""
    whole = digest.whole
    return (
        f"{whole.conversations:,} conversations with {whole.calls:,} tool calls, {whole.errors:,} of them errors; "
        f"{len(digest.tools):,} tools. {whole.nudges:,} nudges would have been given in {whole.nudged:,} conversations "
        f"({whole.per_call:.3f} a tool call)."
    )


def left_out(digest: Digest) -> str:
    """What the report does not show."""
    return (
        f"Shown are the {len(digest.cards):,} conversations with the most nudges and errors; "
        f"{digest.left_out:,} others are counted above and left out here (`--top` shows more)."
    )


def rows_of(digest: Digest) -> list[tuple[str, Figures]]:
    """The groups that there are, and their sum."""
    groups = [(group, digest.groups[group]) for group in GROUPS if digest.groups[group].conversations]
    return [*groups, ("all", digest.whole)] if len(groups) != 1 else [*groups]


def _figures(digest: Digest) -> Iterator[str]:
    yield "\n| conversations | | tool calls | errors | nudges | with a nudge | nudges a call |\n"
    yield "|---|--:|--:|--:|--:|--:|--:|\n"
    for name, figures in rows_of(digest):
        yield (
            f"| {name} | {figures.conversations:,} | {figures.calls:,} | {figures.errors:,} | {figures.nudges:,} "
            f"| {figures.nudged:,} | {figures.per_call:.3f} |\n"
        )
    yield "\n## Nudges\n\n"
    yield "| provider | solved | not solved | unknown |\n|---|--:|--:|--:|\n" if digest.providers else "None.\n"
    for provider, counts in sorted(digest.providers.items()):
        yield f"| {said(provider)} | {' | '.join(f'{counts[group]:,}' for group in GROUPS)} |\n"
    yield "\n## What tool calls came to\n\n| state | calls |\n|---|--:|\n"
    yield from (f"| {code} | {count:,} |\n" for code, count in digest.codes.most_common())
    yield "\n| suggestion | offered |\n|---|--:|\n"
    yield from (f"| {kind} | {count:,} |\n" for kind, count in digest.suggestions.most_common())


def _errors(digest: Digest) -> Iterator[str]:
    if not digest.errors:
        return
    yield "\n## How errors were named\n\n| calls | tool | state | what the tool said | what the agent reads |\n"
    yield "|--:|---|---|---|---|\n"
    for named in sorted(digest.errors.values(), key=lambda each: -each.count):
        cells = (f"{named.count:,}", said(named.tool), named.code, said(named.example), said(named.headline))
        yield f"| {' | '.join(cells)} |\n"
    if digest.errors_beyond:
        yield f"\n{digest.errors_beyond:,} errors of further forms are left out here.\n"


def _bad(digest: Digest) -> Iterator[str]:
    if not digest.bad:
        return
    yield "\n## Lines that hold no conversation\n\n"
    yield from (f"- line {bad.line}: {said(bad.reason)}\n" for bad in digest.bad)
    if digest.bad_beyond:
        yield f"- and {digest.bad_beyond:,} more\n"


def _card(card: Card) -> Iterator[str]:
    yield f"\n### {said(card.label)}\n\n{facts(card)}\n"
    yield "\n| message | call | | next steps, feedback |\n|--:|--:|---|---|\n"
    for line in card.lines:
        yield from _line(line)
    if card.left_out:
        yield f"\n{card.left_out:,} further messages and calls are left out.\n"


def facts(card: Card) -> str:
    """A conversation in one line."""
    reward = "" if card.reward is None else f" · reward {card.reward:g}"
    first = "" if card.first_nudge is None else f", the first at call {card.first_nudge}"
    return (
        f"Line {card.line} · {card.group}{reward} · {counted(card.calls, 'call')}, "
        f"{counted(card.errors, 'error')} · {counted(card.nudges, 'nudge')}{first}"
    )


def counted(number: int, what: str) -> str:
    """A number with its noun: 1 call, 2 calls."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _line(line: Line) -> Iterator[str]:
    if line.kind != "call":
        yield f"| {line.position} | | {speaker(line)}: {said(line.text)} | |\n"
        return
    call = f"{said(line.headline)}<br>{said(line.tool)} {said(line.arguments)}"
    yield f"| {line.position} | {line.index} | {call} | {_joined(line.steps)} |\n"
    for nudge in line.nudges:
        who = f"**{nudge.severity}** {said(nudge.provider)}"
        yield f"| {line.position} | {line.index} | {who} | {_text(nudge.text)} |\n"


def speaker(line: Line) -> str:
    """Whose text it is."""
    return "the user" if line.kind == "user" else "the agent's answer"


def _joined(steps: Sequence[str]) -> str:
    return "<br>".join(said(step) for step in steps)


def _text(text: str) -> str:
    return "<br>".join(said(line) for line in text.splitlines() if line.strip())


def said(text: str) -> str:
    """A text of others on one line, in which nothing is markup, a link or HTML."""
    plain = one_line(text, _CELL).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKUP.sub(r"\\\1", visible(plain))
