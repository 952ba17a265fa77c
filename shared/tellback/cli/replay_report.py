"""`tellback replay --report`: the guidance that conversations would have been given, without Redis."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from tellback.cli.common import print_json, reported
from tellback.cli.replay import INTERRUPTED, opened, size_of
from tellback.errors import InvalidInput

if TYPE_CHECKING:
    from tellback.replay.digest import Digest

_PAGES: Final = (".html", ".htm")
_TEXTS: Final = (".md", ".markdown")


def analyse_file(name: str, reports: Sequence[Path], top: int, *, as_json: bool) -> None:
    """Analyse a file, write the reports, print the figures; exit code 2 if the file holds no conversation."""
    with reported():
        _check(reports)
    digest = _analysed(name, top)
    for bad in digest.bad:
        typer.echo(f"tellback: {name}, line {bad.line}: {bad.reason}", err=True)
    if digest.bad_beyond:
        typer.echo(f"tellback: {name}: {digest.bad_beyond:,} further lines hold no conversation", err=True)
    if not digest.whole.conversations:
        typer.echo(f"tellback: {name} holds no conversation", err=True)
        raise typer.Exit(2)
    with reported():
        for path in reports:
            _write(path, _pieces(path, digest))
    if as_json:
        print_json(plain(digest, [str(path) for path in reports]))
    else:
        _print(digest, reports)


def _check(reports: Sequence[Path]) -> None:
    for path in reports:
        if path.suffix.lower() not in (*_PAGES, *_TEXTS):
            raise InvalidInput(f"--report {path}: end the name in .html (a page) or .md (Markdown)")
        if not path.parent.is_dir():
            raise InvalidInput(f"--report {path}: there is no directory {path.parent}")


def _analysed(name: str, top: int) -> Digest:
    from rich.console import Console
    from rich.progress import Progress

    from tellback.replay.analysis import analyse

    console = Console(stderr=True)
    try:
        with opened(name) as source, Progress(console=console, disable=not console.is_terminal) as progress:
            bar = progress.add_task("analysing", total=size_of(source))

            def told(conversations: int) -> None:
                with suppress(OSError):  # a pipe has no position
                    progress.update(bar, completed=source.tell())
                progress.update(bar, description=f"analysing {conversations} conversations")

            with reported():
                shown = "standard input" if name == "-" else Path(name).name
                return analyse(source, source=shown, top=top, told=told)
    except KeyboardInterrupt:
        typer.echo("tellback: interrupted; nothing was written", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _pieces(path: Path, digest: Digest) -> Iterator[str]:
    from tellback.replay.markdown import markdown_of
    from tellback.replay.page import page_of

    make: Callable[[Digest], Iterator[str]] = page_of if path.suffix.lower() in _PAGES else markdown_of
    return make(digest)


def _write(path: Path, pieces: Iterator[str]) -> None:
    """Whole or not at all: what was there before stays until the new one is complete."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("x", encoding="utf-8", errors="replace") as file:
            file.writelines(pieces)
        draft.replace(path)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


def plain(digest: Digest, reports: Sequence[str]) -> dict[str, Any]:
    """The figures, and of each conversation that is shown when its nudges come."""
    from dataclasses import asdict

    whole = digest.whole
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


def _print(digest: Digest, reports: Sequence[Path]) -> None:
    from rich.console import Console
    from rich.table import Table

    from tellback.replay.markdown import rows_of, summary

    console = Console()
    console.print(summary(digest), markup=False, highlight=False)
    table = Table(title="Guidance that would have been delivered", title_justify="left")
    table.add_column("", no_wrap=True)
    for head in ("conversations", "calls", "errors", "nudges", "nudged", "nudges a call"):
        table.add_column(head, justify="right")
    for name, f in rows_of(digest):
        numbers = (f.conversations, f.calls, f.errors, f.nudges, f.nudged)
        table.add_row(name, *(f"{number:,}" for number in numbers), f"{f.per_call:.3f}")
    console.print(table)
    for path in reports:
        console.print(f"report: {path}", markup=False, highlight=False, soft_wrap=True)
