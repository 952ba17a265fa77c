"""`tellback redact`: standard input without its secrets, so that anyone can try and audit the rules."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import IO, Annotated, Final

import typer

from tellback.cli.common import COMMANDS, JsonOption, print_json, reported

_CHUNK: Final = 256 << 10  # bytes


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("redact", rich_help_panel=COMMANDS)(redact)


def redact(
    *,
    report: Annotated[
        bool, typer.Option("--report", help="Say on standard error how many lines each rule replaced.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Print no text; exit with 1 if a line would be replaced.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy standard input to standard output with a marker in place of each line that carries a secret.

    With --json only the report is printed, as one object.
    """
    from tellback.redaction.stream import Filter
    from tellback.settings import load

    with reported():
        load()  # rules of the user's own come into force with it
    filtered = Filter()
    out = sys.stdout.buffer
    try:
        for text in filtered.feed(_chunks(sys.stdin.buffer)):
            if text and not (check or as_json):
                out.write(text.encode("utf-8", "surrogateescape"))
                out.flush()
    except BrokenPipeError:  # as `head` does to every filter
        sys.stderr.close()
        raise typer.Exit(141) from None
    if as_json:
        print_json({"lines": filtered.lines, "replaced": dict(sorted(filtered.counts.items()))})
    elif report:
        _report(filtered.lines, filtered.counts)
    if check and filtered.counts:
        raise typer.Exit(1)


def _chunks(stream: IO[bytes]) -> Iterator[str]:
    """The input as text as it comes; bytes that are no UTF-8 go through unchanged."""
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    read = getattr(stream, "read1", stream.read)  # what is there, without waiting for a full chunk
    while data := read(_CHUNK):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def _report(lines: int, counts: Counter[str]) -> None:
    typer.echo(f"{sum(counts.values())} of {lines} lines replaced", err=True)
    for rule, count in counts.most_common():
        typer.echo(f"{count:8}  {rule}", err=True)
