"""A digest as one HTML page that needs nothing beside it. Every text of others is escaped.

A policy within the page lets run only its own script, by its hash: what a transcript may smuggle in stays text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files

from tellback.replay.digest import GROUPS, Card, Digest, Line
from tellback.replay.escaping import escaped
from tellback.replay.markdown import counted, facts, left_out, rows_of, speaker, summary
from tellback.replay.timeline import key, timeline


def page_of(digest: Digest) -> Iterator[str]:
    """The page, in pieces."""
    style, script = _asset("page.css"), _asset("page.js")
    title = f"Guidance for {escaped(digest.source)}"
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n"
    )
    yield f"<p>{escaped(summary(digest))}</p>\n</header>\n<main>\n"
    yield from _tables(digest)
    yield from _bad(digest)
    yield "<h2>Conversations</h2>\n"
    if digest.left_out:
        yield f"<p>{escaped(left_out(digest))}</p>\n"
    yield f'<p class="key">{key()}</p>\n{_FORM}<div id="talks">\n'
    for card in digest.cards:
        yield from _card(card)
    yield f'</div>\n</main>\n<div id="tip" role="tooltip" hidden></div>\n<script>{script}</script>\n</body>\n</html>\n'


_FORM = """<form hidden role="search" aria-label="Filter conversations">
<label>Find <input type="search" name="words" placeholder="name, tool, text"></label>
<label>Outcome <select name="group"><option value="">all</option><option>solved</option><option>not solved</option>
<option>unknown</option></select></label>
<label>Order <select name="order"><option value="file">of the file</option><option value="nudges">most nudges</option>
<option value="errors">most errors</option><option value="calls">most calls</option></select></label>
<label class="box"><input type="checkbox" name="nudged"> with nudges</label>
<label class="box"><input type="checkbox" name="failed"> with errors</label>
<button type="reset">Reset</button>
<output id="shown" aria-live="polite"></output>
</form>
"""


def _asset(name: str) -> str:
    return (files("tellback.replay") / name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    allowed = f"style-src {hashed(style)}; script-src {hashed(script)}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _tables(digest: Digest) -> Iterator[str]:
    yield '<div class="tables">\n'
    yield from _table(
        "Outcomes",
        ("", "conversations", "tool calls", "errors", "nudges", "with a nudge", "nudges a call"),
        [
            (name, *(f"{n:,}" for n in (f.conversations, f.calls, f.errors, f.nudges, f.nudged)), f"{f.per_call:.3f}")
            for name, f in rows_of(digest)
        ],
    )
    yield from _table(
        "Nudges",
        ("provider", *GROUPS),
        [(name, *(f"{counts[group]:,}" for group in GROUPS)) for name, counts in sorted(digest.providers.items())],
    )
    yield from _table(
        "What tool calls came to", ("state", "calls"), [(c, f"{n:,}") for c, n in digest.codes.most_common()]
    )
    yield from _table(
        "Suggestions", ("kind", "offered"), [(kind, f"{n:,}") for kind, n in digest.suggestions.most_common()]
    )
    yield "</div>\n"
    named = sorted(digest.errors.values(), key=lambda each: -each.count)
    yield from _table(
        "How errors were named",
        ("tool", "state", "what the tool said", "what the agent reads", "calls"),
        [(each.tool, each.code, each.example, each.headline, f"{each.count:,}") for each in named],
        texts=4,
    )
    if digest.errors_beyond:
        yield f"<p>{digest.errors_beyond:,} errors of further forms are left out here.</p>\n"


def _table(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]], texts: int = 1) -> Iterator[str]:
    """A table with its title; the first `texts` columns are texts, the others numbers."""
    if not rows:
        return
    yield f'<section class="scroll"><h2>{title}</h2>\n<table><thead><tr>'
    for number, head in enumerate(heads):
        yield f'<th scope="col"{_numeric(number, texts)}>{escaped(head)}</th>'
    yield "</tr></thead><tbody>\n"
    for row in rows:
        yield (
            "<tr>" + "".join(f"<td{_numeric(n, texts)}>{escaped(cell)}</td>" for n, cell in enumerate(row)) + "</tr>\n"
        )
    yield "</tbody></table></section>\n"


def _numeric(column: int, texts: int) -> str:
    return "" if column < texts else ' class="n"'


def _bad(digest: Digest) -> Iterator[str]:
    if not digest.bad:
        return
    yield "<h2>Lines that hold no conversation</h2>\n<ul>\n"
    yield from (f"<li>line {bad.line}: {escaped(bad.reason)}</li>\n" for bad in digest.bad)
    if digest.bad_beyond:
        yield f"<li>and {digest.bad_beyond:,} more</li>\n"
    yield "</ul>\n"


def _card(card: Card) -> Iterator[str]:
    numbers = f'data-calls="{card.calls}" data-errors="{card.errors}" data-nudges="{card.nudges}"'
    yield f'<details class="talk" id="c{card.line}" data-line="{card.line}" data-group="{card.group}" {numbers}>\n'
    hot = ' class="hot"' if card.errors else ""
    spoke = ' class="spoke"' if card.nudges else ""
    first = "" if card.first_nudge is None else f"first at call {card.first_nudge}"
    yield (
        f"<summary><b>{escaped(card.label)}</b><span>{card.group}</span><span>{counted(card.calls, 'call')}</span>"
        f"<span{hot}>{counted(card.errors, 'error')}</span><span{spoke}>{counted(card.nudges, 'nudge')}</span>"
        f"<span>{first}</span></summary>\n"
    )
    yield f'<div class="inside"><p>{escaped(facts(card))}</p>\n{timeline(card)}\n<ol>\n'
    for place, line in enumerate(card.lines):
        yield _entry(card, place, line)
    yield "</ol>\n"
    if card.left_out:
        yield f"<p>{card.left_out:,} further messages and calls are left out.</p>\n"
    yield "</div>\n</details>\n"


def _entry(card: Card, place: int, line: Line) -> str:
    at = f'id="c{card.line}-{place}"'
    if line.kind != "call":
        said = f'<span class="at">message {line.position} · {escaped(speaker(line))}</span><p>{escaped(line.text)}</p>'
        return f'<li class="{line.kind}" {at}>{said}</li>\n'
    nudges = "".join(
        f'<p class="nudge">{escaped(nudge.severity)}: {escaped(nudge.provider)}</p>'
        f'<pre class="feedback">{escaped(nudge.text)}</pre>'
        for nudge in line.nudges
    )
    told = f' <span class="nudge">◆ {counted(len(line.nudges), "nudge")}</span>' if line.nudges else ""
    opened = " open" if line.nudges else ""
    return (
        f'<li class="{line.status}" {at}><details{opened}><summary>'
        f'<span class="at">message {line.position} · call {line.index} ·</span> '
        f"{escaped(line.headline)}{told}</summary>"
        f"<p>{escaped(line.tool)} {escaped(line.arguments)}</p><pre>{escaped(line.text)}</pre>{nudges}</details></li>\n"
    )
