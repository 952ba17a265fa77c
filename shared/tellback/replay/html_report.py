"""The HTML report of a digest: one self-contained page with a timeline for each conversation.

Every text of a transcript is escaped. As a second guard, the page's Content-Security-Policy allows only its own script
and style, by their hashes. The timeline's marks differ by shape as well as by colour, for readers who can't tell the
colours apart.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from tellback.replay.analysis import GROUPS, AnalysisDigest, ConversationCard, ReportLine
from tellback.replay.markdown_report import (
    conversation_line,
    figure_rows,
    omissions,
    omitted_entries,
    omitted_errors,
    speaker,
    summary,
)
from tellback.sanitize import html_text
from tellback.truncation import single_line
from tellback.wording import count_phrase

STEP: Final = 26  # pixels from one entry to the next; marks can be clicked within 13 pixels, so none overlap

LEFT: Final = 62  # pixels for the names of the lanes

LANES: Final = {"nudges": 20, "tool calls": 52, "messages": 84}  # the height of each lane in pixels, from the top

HEIGHT: Final = 112


def timeline_svg(card: ConversationCard) -> str:
    """Return the timeline of a conversation; each mark links to its entry and has the text as a tooltip."""
    width = LEFT + STEP * max(1, len(card.lines)) + 10
    marks = "".join(mark for place, line in enumerate(card.lines) for mark in _line_marks(card, place, line))
    lanes = "".join(
        f'<text x="0" y="{y + 4}">{name}</text><line class="axis" x1="{LEFT}" y1="{y}" x2="{width}" y2="{y}"/>'
        for name, y in LANES.items()
    )
    numbers = ((card.calls, "call"), (card.errors, "error"), (card.nudges, "nudge"))
    counts = ", ".join(count_phrase(number, what) for number, what in numbers)
    label = html_text(f"Timeline of {card.label}: {counts}")
    return (
        f'<div class="line"><svg width="{width}" height="{HEIGHT}" role="group" aria-label="{label}">'
        f"{lanes}{marks}</svg></div>"
    )


def timeline_legend() -> str:
    """Return the legend of the marks."""
    names = {
        "user": "user",
        "agent": "agent",
        "success": "call that succeeded",
        "partial": "partial or nothing found",
        "error": "call that failed",
        "nudge": "feedback of a provider",
    }
    return " ".join(
        f'<span><svg width="18" height="18" aria-hidden="true">{_mark_shape(kind, 9, 9)}</svg> {name}</span>'
        for kind, name in names.items()
    )


def _line_marks(card: ConversationCard, place: int, line: ReportLine) -> Iterator[str]:
    entry = f"c{card.line}-{place}"
    x = LEFT + STEP * place + STEP // 2
    if line.kind != "call":
        tip = f"message {line.position}, {speaker(line)}: {single_line(line.text, 200)}"
        yield _mark_link(entry, line.kind, x, LANES["messages"], tip)
        return
    steps = "".join(f"\n- {single_line(step, 120)}" for step in line.steps)
    tip = f"call {line.index}: {line.headline}{steps}"
    yield _mark_link(entry, line.status, x, LANES["tool calls"], tip)
    yield f'<text x="{x}" y="{HEIGHT - 4}" text-anchor="middle">{line.index}</text>'
    for nudge in line.nudges:
        tip = f"call {line.index}, {nudge.severity}, {nudge.provider}: {nudge.summary}"
        yield _mark_link(entry, "nudge", x, LANES["nudges"], tip)


def _mark_link(entry: str, kind: str, x: int, y: int, tip: str) -> str:
    said = html_text(tip)
    return (
        f'<a href="#{entry}" data-tip="{said}" aria-label="{said}">'
        # An invisible circle around the mark: 12 pixels are hard to hit.
        f'<circle class="hit" cx="{x}" cy="{y}" r="13"/>{_mark_shape(kind, x, y)}</a>'
    )


def _mark_shape(kind: str, x: int, y: int) -> str:
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


def render_html(digest: AnalysisDigest) -> Iterator[str]:
    """Yield the page in pieces, to keep it out of memory as a whole."""
    style, script = _asset("page.css"), _asset("page.js")
    title = f"Guidance for {html_text(digest.source)}"
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_content_security_policy(style, script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n"
    )
    yield f"<p>{html_text(summary(digest))}</p>\n</header>\n<main>\n"
    yield from _figure_tables(digest)
    yield from _bad_line_section(digest)
    yield "<h2>Conversations</h2>\n"
    if digest.left_out:
        yield f"<p>{html_text(omissions(digest))}</p>\n"
    yield f'<p class="key">{timeline_legend()}</p>\n{_FORM}<div id="talks">\n'
    for card in digest.cards:
        yield from _card_section(card)
    yield f'</div>\n</main>\n<div id="tip" role="tooltip" hidden></div>\n<script>{script}</script>\n</body>\n</html>\n'


_FORM = """<form hidden role="search" aria-label="Filter conversations">
<label>Find <input type="search" name="words" placeholder="name, tool, text"></label>
<label>Outcome <select name="group"><option value="">all</option><option>solved</option><option>not solved</option>
<option>unknown</option></select></label>
<label>Order <select name="order"><option value="nudges">most nudges</option><option value="file">of the file</option>
<option value="errors">most errors</option><option value="calls">most calls</option></select></label>
<label class="box"><input type="checkbox" name="nudged"> with nudges</label>
<label class="box"><input type="checkbox" name="failed"> with errors</label>
<button type="reset">Reset</button>
<output id="shown" aria-live="polite"></output>
</form>
"""


def _asset(name: str) -> str:
    return (files("tellback.replay") / name).read_text("utf-8")


def _content_security_policy(style: str, script: str) -> str:
    # No server sends this file with headers, so the policy is a meta element and names script and style by hash.
    def source_hash(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    allowed = f"style-src {source_hash(style)}; script-src {source_hash(script)}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _figure_tables(digest: AnalysisDigest) -> Iterator[str]:
    yield '<div class="tables">\n'
    yield from _html_table(
        "Outcomes",
        ("", "conversations", "tool calls", "errors", "nudges", "with a nudge", "nudges a call"),
        [
            (name, *(f"{n:,}" for n in (f.conversations, f.calls, f.errors, f.nudges, f.nudged)), f"{f.per_call:.3f}")
            for name, f in figure_rows(digest)
        ],
    )
    yield from _html_table(
        "Nudges",
        ("provider", *GROUPS),
        [(name, *(f"{counts[group]:,}" for group in GROUPS)) for name, counts in sorted(digest.providers.items())],
    )
    yield from _html_table(
        "Outcomes of tool calls", ("state", "calls"), [(c, f"{n:,}") for c, n in digest.codes.most_common()]
    )
    yield from _html_table(
        "Suggestions", ("kind", "offered"), [(kind, f"{n:,}") for kind, n in digest.suggestions.most_common()]
    )
    yield "</div>\n"
    named = sorted(digest.errors.values(), key=lambda each: -each.count)
    yield from _html_table(
        "How errors were named",
        ("tool", "state", "what the tool said", "what the agent reads", "calls"),
        [(each.tool, each.code, each.example, each.headline, f"{each.count:,}") for each in named],
        texts=4,
    )
    if digest.errors_beyond:
        yield f"<p>{omitted_errors(digest)}</p>\n"


def _html_table(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]], texts: int = 1) -> Iterator[str]:
    """Yield a table with its title; the first `texts` columns are text, the others numbers."""
    if not rows:
        return
    yield f'<section class="scroll"><h2>{title}</h2>\n<table><thead><tr>'
    for number, head in enumerate(heads):
        yield f'<th scope="col"{_cell_class(number, texts)}>{html_text(head)}</th>'
    yield "</tr></thead><tbody>\n"
    for row in rows:
        yield (
            "<tr>"
            + "".join(f"<td{_cell_class(n, texts)}>{html_text(cell)}</td>" for n, cell in enumerate(row))
            + "</tr>\n"
        )
    yield "</tbody></table></section>\n"


def _cell_class(column: int, texts: int) -> str:
    return "" if column < texts else ' class="n"'


def _bad_line_section(digest: AnalysisDigest) -> Iterator[str]:
    if not digest.bad:
        return
    yield "<h2>Lines that hold no conversation</h2>\n<ul>\n"
    yield from (f"<li>line {bad.line}: {html_text(bad.reason)}</li>\n" for bad in digest.bad)
    if digest.bad_beyond:
        yield f"<li>and {digest.bad_beyond:,} more</li>\n"
    yield "</ul>\n"


def _card_section(card: ConversationCard) -> Iterator[str]:
    numbers = f'data-calls="{card.calls}" data-errors="{card.errors}" data-nudges="{card.nudges}"'
    yield f'<details class="talk" id="c{card.line}" data-line="{card.line}" data-group="{card.group}" {numbers}>\n'
    hot = ' class="hot"' if card.errors else ""
    spoke = ' class="spoke"' if card.nudges else ""
    first = "" if card.first_nudge is None else f"first at call {card.first_nudge}"
    yield (
        f"<summary><b>{html_text(card.label)}</b><span>{card.group}</span>"
        f"<span>{count_phrase(card.calls, 'call')}</span>"
        f"<span{hot}>{count_phrase(card.errors, 'error')}</span>"
        f"<span{spoke}>{count_phrase(card.nudges, 'nudge')}</span>"
        f"<span>{first}</span></summary>\n"
    )
    yield f'<div class="inside"><p>{html_text(conversation_line(card))}</p>\n{timeline_svg(card)}\n<ol>\n'
    for place, line in enumerate(card.lines):
        yield _card_entry(card, place, line)
    yield "</ol>\n"
    if card.left_out:
        yield f"<p>{omitted_entries(card)}</p>\n"
    yield "</div>\n</details>\n"


def _card_entry(card: ConversationCard, place: int, line: ReportLine) -> str:
    at = f'id="c{card.line}-{place}"'
    if line.kind != "call":
        heading = f'<span class="at">message {line.position} · {html_text(speaker(line))}</span>'
        return f'<li class="{line.kind}" {at}>{heading}<p>{html_text(line.text)}</p></li>\n'
    nudges = "".join(
        f'<p class="nudge">{html_text(nudge.severity)}: {html_text(nudge.provider)}</p>'
        f'<pre class="feedback">{html_text(nudge.text)}</pre>'
        for nudge in line.nudges
    )
    mark = f' <span class="nudge">◆ {count_phrase(len(line.nudges), "nudge")}</span>' if line.nudges else ""
    opened = " open" if line.nudges else ""
    return (
        f'<li class="{line.status}" {at}><details{opened}><summary>'
        f'<span class="at">message {line.position} · call {line.index} ·</span> '
        f"{html_text(line.headline)}{mark}</summary>"
        f"<p>{html_text(line.tool)} {html_text(line.arguments)}</p>"
        f"<pre>{html_text(line.text)}</pre>{nudges}</details></li>\n"
    )
