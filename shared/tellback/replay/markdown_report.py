"""The Markdown report of a digest.

Transcripts hold text of users, tools and models, any of which may be hostile. Every such text passes `cell_text` here,
or `html_text` in the HTML report; otherwise it could become markup, a link or HTML in the reader's browser.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tellback.replay.analysis import GROUPS, AnalysisDigest, ConversationCard, GroupFigures, ReportLine
from tellback.sanitize import markdown_text
from tellback.truncation import single_line
from tellback.wording import be, count_phrase

_CELL: Final = 300  # characters of a text in a table cell


def render_markdown(digest: AnalysisDigest) -> Iterator[str]:
    """Yield the report in pieces, to keep it out of memory as a whole."""
    yield f"# Guidance for {cell_text(digest.source)}\n\n"
    yield f"{summary(digest)}\n"
    yield from _figure_section(digest)
    yield from _error_section(digest)
    yield from _bad_lines(digest)
    yield "\n## Conversations\n"
    if digest.left_out:
        yield f"\n{omissions(digest)}\n"
    for card in digest.cards:
        yield from _card_section(card)


def summary(digest: AnalysisDigest) -> str:
    """Return two sentences about the data that was analysed."""
    whole = digest.totals
    return (
        f"{count_phrase(whole.conversations, 'conversation')} with {count_phrase(whole.calls, 'tool call')}, "
        f"{whole.errors:,} of them errors; {count_phrase(len(digest.tools), 'tool')}. "
        f"{count_phrase(whole.nudges, 'nudge')} would have been given in "
        f"{count_phrase(whole.nudged, 'conversation')} ({whole.per_call:.3f} a tool call)."
    )


def omissions(digest: AnalysisDigest) -> str:
    """Return a sentence about the conversations that the report leaves out."""
    return (
        f"Shown: {count_phrase(len(digest.cards), 'conversation')} with the most nudges and errors; "
        f"{count_phrase(digest.left_out, 'other')} {be(digest.left_out)} counted above and left out here "
        "(`--top` shows more)."
    )


def omitted_errors(digest: AnalysisDigest) -> str:
    """Return a sentence about the named errors that the report leaves out."""
    return f"{count_phrase(digest.errors_beyond, 'error')} of further forms {be(digest.errors_beyond)} left out here."


def omitted_entries(card: ConversationCard) -> str:
    """Return a sentence about the entries of a conversation that the report leaves out."""
    entries = count_phrase(card.left_out, "further message or call", "further messages and calls")
    return f"{entries} {be(card.left_out)} left out."


def figure_rows(digest: AnalysisDigest) -> list[tuple[str, GroupFigures]]:
    """Return the groups that have conversations, and their sum if there are several."""
    groups = [(group, digest.groups[group]) for group in GROUPS if digest.groups[group].conversations]
    return [*groups, ("all", digest.totals)] if len(groups) != 1 else [*groups]


def _figure_section(digest: AnalysisDigest) -> Iterator[str]:
    yield "\n| conversations | | tool calls | errors | nudges | with a nudge | nudges a call |\n"
    yield "|---|--:|--:|--:|--:|--:|--:|\n"
    for name, figures in figure_rows(digest):
        yield (
            f"| {name} | {figures.conversations:,} | {figures.calls:,} | {figures.errors:,} | {figures.nudges:,} "
            f"| {figures.nudged:,} | {figures.per_call:.3f} |\n"
        )
    yield "\n## Nudges\n\n"
    yield "| provider | solved | not solved | unknown |\n|---|--:|--:|--:|\n" if digest.providers else "None.\n"
    for provider, counts in sorted(digest.providers.items()):
        yield f"| {cell_text(provider)} | {' | '.join(f'{counts[group]:,}' for group in GROUPS)} |\n"
    yield "\n## Outcomes of tool calls\n\n| state | calls |\n|---|--:|\n"
    yield from (f"| {code} | {count:,} |\n" for code, count in digest.codes.most_common())
    yield "\n| suggestion | offered |\n|---|--:|\n"
    yield from (f"| {kind} | {count:,} |\n" for kind, count in digest.suggestions.most_common())


def _error_section(digest: AnalysisDigest) -> Iterator[str]:
    if not digest.errors:
        return
    yield "\n## How errors were named\n\n| calls | tool | state | what the tool said | what the agent reads |\n"
    yield "|--:|---|---|---|---|\n"
    for named in sorted(digest.errors.values(), key=lambda each: -each.count):
        cells = (
            f"{named.count:,}",
            cell_text(named.tool),
            named.code,
            cell_text(named.example),
            cell_text(named.headline),
        )
        yield f"| {' | '.join(cells)} |\n"
    if digest.errors_beyond:
        yield f"\n{omitted_errors(digest)}\n"


def _bad_lines(digest: AnalysisDigest) -> Iterator[str]:
    if not digest.bad:
        return
    yield "\n## Lines that hold no conversation\n\n"
    yield from (f"- line {bad.line}: {cell_text(bad.reason)}\n" for bad in digest.bad)
    if digest.bad_beyond:
        yield f"- and {digest.bad_beyond:,} more\n"


def _card_section(card: ConversationCard) -> Iterator[str]:
    yield f"\n### {cell_text(card.label)}\n\n{conversation_line(card)}\n"
    yield "\n| message | call | | next steps, feedback |\n|--:|--:|---|---|\n"
    for line in card.lines:
        yield from _card_line(line)
    if card.left_out:
        yield f"\n{omitted_entries(card)}\n"


def conversation_line(card: ConversationCard) -> str:
    """Return one line about a conversation."""
    reward = "" if card.reward is None else f" · reward {card.reward:g}"
    first = "" if card.first_nudge is None else f", the first at call {card.first_nudge}"
    return (
        f"Line {card.line} · {card.group}{reward} · {count_phrase(card.calls, 'call')}, "
        f"{count_phrase(card.errors, 'error')} · {count_phrase(card.nudges, 'nudge')}{first}"
    )


def _card_line(line: ReportLine) -> Iterator[str]:
    if line.kind != "call":
        yield f"| {line.position} | | {speaker(line)}: {cell_text(line.text)} | |\n"
        return
    call = f"{cell_text(line.headline)}<br>{cell_text(line.tool)} {cell_text(line.arguments)}"
    yield f"| {line.position} | {line.index} | {call} | {_joined(line.steps)} |\n"
    for nudge in line.nudges:
        who = f"**{nudge.severity}** {cell_text(nudge.provider)}"
        yield f"| {line.position} | {line.index} | {who} | {_joined(filter(str.strip, nudge.text.splitlines()))} |\n"


def speaker(line: ReportLine) -> str:
    """Return who wrote a message."""
    return "the user" if line.kind == "user" else "the agent's answer"


def _joined(lines: Iterable[str]) -> str:
    return "<br>".join(map(cell_text, lines))


def cell_text(text: str) -> str:
    """Return a foreign text on one line of at most 300 characters, in which nothing is markup, a link or HTML."""
    return markdown_text(single_line(text, _CELL))
