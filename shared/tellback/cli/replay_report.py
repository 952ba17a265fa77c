"""`tellback replay --report`: analyse the guidance that conversations would have received, without Redis.

Also home to the progress bars, which both kinds of replay share.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

import typer

from tellback.cli import INTERRUPTED
from tellback.cli.common import echo, plain_text, print_json, report_errors
from tellback.cli.input_file import input_name, open_input
from tellback.errors import InvalidInput
from tellback.wording import count_phrase

if TYPE_CHECKING:
    from rich.progress import Progress

    from tellback.replay.analysis import AnalysisDigest
    from tellback.replay.transcript import BadLine

_PAGES: Final = (".html", ".htm")
_TEXTS: Final = (".md", ".markdown")


def write_reports(name: str, reports: Sequence[Path], top: int, *, as_json: bool) -> None:
    """Analyse a file, write the reports and print the figures; exit 2 if the file contains no conversation."""
    with report_errors():
        _check_report_paths(reports)
    digest = _analyze(name, top)
    name = input_name(name)
    for bad in digest.bad:
        echo(f"tellback: {name}, line {bad.line}: {bad.reason}", err=True)
    if digest.bad_beyond:
        echo(f"tellback: {name}: {count_phrase(digest.bad_beyond, 'more line')} without a conversation", err=True)
    if not digest.totals.conversations:
        echo(f"tellback: {name} contains no conversation", err=True)
        raise typer.Exit(2)
    with report_errors():
        for path in reports:
            _write_atomically(path, _render_report(path, digest))
    if as_json:
        print_json(digest_dict(digest, [str(path) for path in reports]))
    else:
        _print_digest(digest, reports)


def _check_report_paths(reports: Sequence[Path]) -> None:
    for path in reports:
        if path.suffix.lower() not in (*_PAGES, *_TEXTS):
            raise InvalidInput(f"--report {path}: use a file name ending in .html or .md")
        if not path.parent.is_dir():
            raise InvalidInput(f"--report {path}: the directory {path.parent} does not exist")


def _analyze(name: str, top: int) -> AnalysisDigest:
    from rich.console import Console
    from rich.progress import Progress

    from tellback.replay.analysis import analyze_file

    console = Console(stderr=True)
    try:
        with (
            report_errors(),
            open_input(name) as source,
            Progress(console=console, disable=not console.is_terminal) as progress,
        ):
            bar = progress.add_task("analysing", total=input_size(source))

            def advance(conversations: int) -> None:
                with suppress(OSError):  # a pipe has no position
                    progress.update(bar, completed=source.tell())
                progress.update(bar, description=f"analysing {count_phrase(conversations, 'conversation')}")

            shown = input_name(name if name == "-" else Path(name).name)
            return analyze_file(source, source=shown, top=top, progress=advance)
    except KeyboardInterrupt:
        echo("tellback: interrupted; nothing was written", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _render_report(path: Path, digest: AnalysisDigest) -> Iterator[str]:
    from tellback.replay.html_report import render_html
    from tellback.replay.markdown_report import render_markdown

    make: Callable[[AnalysisDigest], Iterator[str]] = render_html if path.suffix.lower() in _PAGES else render_markdown
    return make(digest)


def _write_atomically(path: Path, pieces: Iterator[str]) -> None:
    """Write a file whole or not at all; an existing one stays until the new one is complete."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("x", encoding="utf-8", errors="replace") as file:
            file.writelines(pieces)
        draft.replace(path)
    except OSError as error:
        raise InvalidInput(f"can't write {path}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # it is not there, as on a read-only file system
            draft.unlink()


def digest_dict(digest: AnalysisDigest, reports: Sequence[str]) -> dict[str, Any]:
    """Return the figures for JSON, with the nudges of each conversation shown."""
    from dataclasses import asdict

    whole = digest.totals
    return {
        "source": digest.source,
        "reports": list(reports),
        "groups": {name: {**asdict(figures), "per_call": figures.per_call} for name, figures in digest.groups.items()},
        "all": {**asdict(whole), "per_call": whole.per_call},
        "providers": {name: dict(counts) for name, counts in digest.providers.items()},
        "codes": dict(digest.codes),
        "suggestions": dict(digest.suggestions),
        "tools": digest.tools,
        "errors": [asdict(named) for named in digest.errors.values()],
        "conversations": [
            {
                "line": card.line,
                "name": card.label,
                "reward": card.reward,
                "calls": card.calls,
                "errors": card.errors,
                "nudges": [
                    {"call": line.index, "message": line.position, **asdict(nudge)}
                    for line in card.lines
                    for nudge in line.nudges
                ],
            }
            for card in digest.cards
        ],
        "conversations_left_out": digest.left_out,
        "bad_lines": [asdict(bad) for bad in digest.bad],
        "bad_lines_left_out": digest.bad_beyond,
    }


def _print_digest(digest: AnalysisDigest, reports: Sequence[Path]) -> None:
    from rich.console import Console
    from rich.table import Table

    from tellback.replay.markdown_report import figure_rows, summary

    console = Console()
    console.print(plain_text(summary(digest)))
    table = Table(title="Guidance that would have been delivered", title_justify="left")
    table.add_column("", no_wrap=True)
    for head in ("conversations", "calls", "errors", "nudges", "nudged", "nudges a call"):
        table.add_column(head, justify="right")
    for name, f in figure_rows(digest):
        numbers = (f.conversations, f.calls, f.errors, f.nudges, f.nudged)
        table.add_row(name, *(f"{number:,}" for number in numbers), f"{f.per_call:.3f}")
    console.print(table)
    for path in reports:
        console.print(plain_text(f"report: {path}"), soft_wrap=True)


class ReplayBars:
    """Two progress bars on a terminal, nothing in a pipe; bad lines are reported in both."""

    def __init__(self, name: str, source: BinaryIO, counting: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        self._name = name
        self._source = source
        console = Console(stderr=True)
        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
        self._progress: Progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._playing = self._progress.add_task("playing", total=input_size(source))
        self._counting = self._progress.add_task(counting, total=None, start=False)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def played(self, conversations: int) -> None:
        """Advance the first bar to the position in the file."""
        with suppress(OSError):  # a pipe has no position
            self._progress.update(self._playing, completed=self._source.tell())
        self._progress.update(self._playing, description=f"playing {count_phrase(conversations, 'conversation')}")

    def bad(self, line: BadLine) -> None:
        """Report a line without a conversation on standard error."""
        said = plain_text(f"tellback: {self._name}, line {line.line}: {line.reason}")
        self._progress.console.print(said, soft_wrap=True)

    def counted(self, done: int, wanted: int) -> None:
        """Advance the second bar."""
        self._progress.start_task(self._counting)
        self._progress.update(self._counting, completed=done, total=wanted)


def input_size(source: BinaryIO) -> int | None:
    """Return the size of a file in bytes, or None for a pipe."""
    import os

    try:
        return os.fstat(source.fileno()).st_size or None
    except OSError:  # no file behind it
        return None
