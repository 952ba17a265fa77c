"""Commands that work without Redis, workers or a client: `tellback redact` and `tellback init-runner`.

`redact` filters standard input, so that anyone can try and audit the rules that records pass through; `init-runner`
writes a runner into a project that does not depend on Tellback.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Final

import typer

from tellback.cli.common import COMMANDS, JsonOption, echo, named_directory, print_json, report_errors
from tellback.wording import count_phrase

_CHUNK: Final = 256 << 10  # bytes


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("redact", rich_help_panel=COMMANDS)(redact)
    app.command("init-runner", rich_help_panel=COMMANDS)(init_runner)


def redact(
    *,
    report: Annotated[
        bool, typer.Option("--report", help="Print to standard error how many lines each rule replaced.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Print no text. Exit 1 if any line would be replaced.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy standard input to standard output, with each line that contains a secret replaced by a marker.

    With --json, print only the report, as one object.
    """
    from tellback.redaction.stream import StreamRedactor
    from tellback.settings import load

    with report_errors():
        load()  # also activates the user's own rules (TELLBACK_REDACTION_RULES)
    filtered = StreamRedactor()
    out = sys.stdout.buffer
    try:
        for text in filtered.feed(_read_chunks(sys.stdin.buffer)):
            if text and not (check or as_json):
                out.write(text.encode("utf-8", "surrogateescape"))
                out.flush()
    except BrokenPipeError:  # as `head` does to every filter
        sys.stderr.close()
        raise typer.Exit(141) from None
    if as_json:
        print_json({"lines": filtered.lines, "replaced": dict(sorted(filtered.counts.items()))})
    elif report:
        _print_report(filtered.lines, filtered.counts)
    if check and filtered.counts:
        raise typer.Exit(1)


def _read_chunks(stream: IO[bytes]) -> Iterator[str]:
    """Yield the input as text as it arrives; bytes that are not UTF-8 pass through unchanged."""
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    read = getattr(stream, "read1", stream.read)  # `read` would hold back a slow pipe until a full chunk is there
    while data := read(_CHUNK):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def _print_report(lines: int, counts: Counter[str]) -> None:
    echo(f"{sum(counts.values()):,} of {count_phrase(lines, 'line')} replaced", err=True)
    for rule, count in counts.most_common():
        echo(f"{count:8}  {rule}", err=True)


def init_runner(
    folder: Annotated[Path, typer.Argument(parser=named_directory, metavar="DIR", help="Project directory.")] = Path(),
    *,
    head: Annotated[int, typer.Option(help="Lines to keep from the beginning of each output stream.")] = 5,
    tail: Annotated[int, typer.Option(help="Lines to keep from the end of each output stream.")] = 30,
    timeout: Annotated[float, typer.Option(help="Default time limit of a command, in seconds.")] = 30.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the files instead of writing them.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Add a standalone run_with_feedback.py (standard library only) and a skill page for agents to a project."""
    from tellback.commands.project.writing import RunnerOptions, render_project_files, write_files

    with report_errors():
        texts = render_project_files(RunnerOptions(head=head, tail=tail, timeout=timeout))
        if dry_run:
            for name, text in texts.items():
                exists = ", which exists" if (folder / name).exists() else ""
                echo(f"==> {folder / name}: {count_phrase(len(text.splitlines()), 'line')}{exists} <==")
                sys.stdout.write(f"{text}\n")  # our own templates, byte for byte
            return
        write_files(folder, texts, force=force)
    for name in texts:
        echo(f"wrote {folder / name}")
    echo("Next: review the REDACTION table in the runner, and adjust its rules to your project.")
