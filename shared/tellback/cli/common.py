"""Building blocks of every command: shared options, a client, tables or JSON lines, plot files, one-line errors.

Imports of msgspec, Rich and the client stay inside functions: `tellback --help` must not pay for them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tellback.contracts.limits import MAX_ID_CHARS
from tellback.errors import ConfigurationError, InvalidInput, TellbackError
from tellback.sanitize import ascii_json, terminal_json, terminal_line, terminal_text

if TYPE_CHECKING:
    from rich.text import Text

    from tellback.client.connection import Tellback
    from tellback.settings import Settings

BEGIN: Final = "Get started"
COMMANDS: Final = "Run commands"  # typer puts a panel named "Commands" first, whatever was registered first
GUIDANCE: Final = "Guidance"
TURNS: Final = "Turns"
SIGNALS: Final = "Signals"
OPERATE: Final = "Operate"

UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE})

PANELS: Final = (BEGIN, COMMANDS, GUIDANCE, TURNS, SIGNALS, OPERATE)
"""The panels of `tellback --help`, in the order in which it shows them."""

LISTED: Final = 100
"""Rows of a listing without --limit."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]

OneJsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--redis-url",
        help="Redis URL: redis://, rediss://, unix://, sentinel:// or redis+cluster://. Default: TELLBACK_REDIS_URL, "
        "or that of a running `tellback up`.",
    ),
]

TeamOption = Annotated[str | None, typer.Option("--team", help="Team name. Default: TELLBACK_TEAM.")]


def named_directory(text: str) -> Path:
    """Return the path. An empty text, as of a variable that is not set, would name the current directory."""
    if not text:
        raise typer.BadParameter("is empty: name a directory")
    return Path(text)


def given_text(text: str) -> str:
    """Return the text. An empty one, as of a variable that is not set, would match nothing, or everything."""
    if not text:
        raise typer.BadParameter("is empty: give a text, or leave it out")
    return text


def given_id(text: str) -> str:
    """Return the id. An empty one, as of a variable that is not set, names nothing; an error would quote a long one."""
    if not 0 < len(text) <= MAX_ID_CHARS:
        raise typer.BadParameter(f"has {len(text)} characters; use 1 to {MAX_ID_CHARS}")
    return text


def text_option(description: str, *names: str) -> Any:
    """Return an option of a text that may be left out, but not be empty."""
    return typer.Option(*names, parser=given_text, metavar="<str>", help=description)


def echo(text: str, *, err: bool = False) -> None:
    """Print lines on standard output or error; they may quote names and errors from outside."""
    typer.echo(terminal_text(text), err=err)


def plain_text(text: str, style: str = "") -> Text:
    """Return text for a Rich console that is neither markup nor a command to the terminal."""
    from rich.text import Text

    return Text(terminal_text(text), style)


@contextmanager
def client(url: str | None, team: str | None) -> Generator[Tellback, None, None]:
    """Open a client for a command that publishes, and say so if that creates the team which the user named."""
    from tellback.client.connection import connect_for_command
    from tellback.settings import load

    def say_so() -> None:
        if is_named(team):
            echo(f"tellback: there was no team {load(team=team).team}; this created it", err=True)

    with report_errors(), connect_for_command(url, team=team, create=True, created=say_so) as tb:
        yield tb


@contextmanager
def existing_team(url: str | None, team: str | None) -> Generator[Tellback, None, None]:
    """Open a client for a command that reads, or acts on what is there. It creates no team.

    A team that the user names, by `--team` or by TELLBACK_TEAM, must exist: else a typing error looks like a team at
    rest. If nobody names one, and there is none yet, the default team is shown as empty.
    """
    from tellback.client.connection import connect_for_command

    with report_errors(), connect_for_command(url, team=team, create=False, required=is_named(team)) as tb:
        yield tb


@contextmanager
def listed_team(url: str | None, team: str | None) -> Generator[Tellback, None, None]:
    """Open a client as `existing_team` does, for a listing, and name at the end what it had to leave out.

    It leaves out keys of another type and, on a cluster, the shards whose node is away while others answer.
    """
    losses: list[str] = []
    with report_errors():
        try:
            with reading_client(url, team, losses, required=is_named(team)) as tb:
                yield tb
        finally:
            report_losses(losses)
    if losses:
        raise typer.Exit(1)


@contextmanager
def reading_client(
    url: str | None, team: str | None, losses: list[str], *, required: bool
) -> Generator[Tellback, None, None]:
    """Open a client that reads what it has to leave out as absent, and adds a line about each to `losses`.

    Raises:
        NotFound: there is no such team, and it is `required`; or what the caller asks for is nowhere.
        Unavailable: Redis is away, or nobody here knows how many shards the team has.
    """
    from tellback.client.connection import connect_for_command
    from tellback.errors import NotFound
    from tellback.messaging.team_cache import TeamCache
    from tellback.state.quarantine import ReadingDatabase

    with connect_for_command(url, team=team, create=False, required=required, database=ReadingDatabase) as tb:
        database = tb.context.database
        assert isinstance(database, ReadingDatabase), "as it was asked for"
        settings = tb.context.settings
        if database.away and TeamCache(str(settings.data_path), settings.team, settings.redis_url).read() is None:
            raise next(iter(database.away.values()))
        try:
            yield tb
        except NotFound as error:  # it may be where nobody answers
            raise next(iter(database.away.values()), error) from None
        finally:
            losses += database.losses()


def report_losses(losses: Iterable[str]) -> None:
    """Say on standard error what a listing had to leave out."""
    for line in losses:
        echo(terminal_line(f"tellback: left out: {line}"), err=True)


def is_named(team: str | None) -> bool:
    """Return True if the user named the team, by `--team` or by TELLBACK_TEAM."""
    from tellback.settings import PREFIX

    return bool(team or os.environ.get(f"{PREFIX}TEAM"))


def place_options(settings: Settings) -> str:
    """Return ` --redis-url URL --team NAME` for a command in a message, each unless the environment says the same."""
    import shlex

    from tellback.settings import load
    from tellback.urls import without_secrets

    own, url = load(), shlex.quote(without_secrets(settings.redis_url))
    options = "" if settings.redis_url == own.redis_url else f" --redis-url {url}"
    return options if settings.team == own.team else f"{options} --team {settings.team}"


@contextmanager
def report_errors() -> Generator[None, None, None]:
    """Turn a `TellbackError` into one line on standard error; exit 2 for invalid input or settings, otherwise 1."""
    try:
        yield
    except TellbackError as error:
        echo(terminal_line(f"tellback: {error}"), err=True)
        raise typer.Exit(2 if isinstance(error, (InvalidInput, ConfigurationError)) else 1) from error
    except Exception as error:
        if not str(error).startswith("WRONGTYPE"):  # of redis-py, which must not be imported here
            raise
        from tellback.state.quarantine import advice_of

        echo(terminal_line(f"tellback: {advice_of(getattr(error, 'keys', ['a key']))}"), err=True)
        raise typer.Exit(1) from error


def report_unwritten(error: OSError) -> bool:
    """Say in one line that standard output takes no more, and drop the rest; return False if that is not the error.

    Nothing is said of a reader that went away, as `head` does: who reads no further knows.
    """
    closed = error.errno == errno.EBADF and not _is_writable(sys.stdout.fileno())
    if error.errno not in UNWRITABLE and not closed:
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left in the buffer
    if error.errno != errno.EPIPE:
        reason = "standard output is closed" if closed else error.strerror
        with suppress(OSError):  # it may be standard error that is full
            echo(f"tellback: can't write{f' {error.filename}' if error.filename else ''}: {reason}", err=True)
    return True


def _is_writable(descriptor: int) -> bool:
    """Return False for the /dev/null that takes the place of a closed standard output."""
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def stop_event() -> threading.Event:
    """Return an event that SIGTERM and Ctrl-C set, for a command that runs until then."""
    from queue import SimpleQueue

    stop = threading.Event()
    # A signal may interrupt this thread within `stop.wait`, which holds the lock that `set` waits for. `put` waits for
    # none, and starts no thread: at the limit of processes none would start.
    signals: SimpleQueue[int] = SimpleQueue()

    def set_on_signal() -> None:
        signals.get()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: signals.put(number))
    threading.Thread(target=set_on_signal, daemon=True).start()
    return stop


@contextmanager
def progress_bar(task: str, total: int | None = None) -> Generator[Callable[..., None], None, None]:
    """Show a progress bar if standard error is a terminal; yield the function that updates it."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        yield partial(progress.update, progress.add_task(task, total=total))


def warn_of_models(tb: Tellback) -> None:
    """Warn on standard error about worker hosts that cannot apply signals."""
    from tellback.client.statistics import model_state

    for line in model_state(tb.context).problems:
        echo(f"tellback: {line}", err=True)


def show_rows(
    rows: Iterable[Any], *, as_json: bool, columns: Sequence[str], title: str, spare: Sequence[str] = (), limit: int = 0
) -> None:
    """Print rows (structs or mappings) as JSON lines or as a table; narrow terminals lose `spare` columns first.

    A listing that ends at a `limit` that nobody chose says so.
    """
    import msgspec

    plain: list[Mapping[str, Any]] = [msgspec.to_builtins(row) for row in rows]
    if as_json:
        for row in plain:
            print_json(row)
    elif plain:
        from tellback.cli.listing import show_table

        show_table(plain, columns, title=title, spare=spare)
    else:
        echo(f"{title}: none")
    if limit == LISTED <= len(plain):
        echo(f"tellback: the list ends after {limit} rows; --limit N shows more", err=True)


def print_json(value: Any) -> None:
    """Print a struct or a mapping as one JSON line on standard output."""
    import json

    import msgspec

    # Lone surrogates reach us in file names and command output; replaced here, they don't end the whole listing.
    text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode("utf-8", "replace").decode()
    line = terminal_json(text)
    if (sys.stdout.encoding or "utf-8").lower() not in {"utf-8", "utf8"}:
        line = ascii_json(line)  # another encoding lacks characters, and their escapes of Python are no JSON
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


PICTURES: Final = (".png", ".svg", ".pdf")


def plot_path(plot: str | None) -> Path | None:
    """Return the file to draw into, or None if there is no plot or it goes to the terminal.

    Raises:
        InvalidInput: the name's ending is not a supported format, or there is no such folder.
    """
    if plot is None or plot == "-":
        return None
    path = Path(plot)
    if path.suffix.lower() not in PICTURES:
        raise InvalidInput(f"--plot {plot}: use a file name ending in {', '.join(PICTURES)}, or - for the terminal")
    check_folder("--plot", path)
    return path


def check_folder(option: str, path: Path) -> None:
    """Check that the folder of an option's file exists: a missing one is usually a typing error.

    Raises:
        InvalidInput: there is no such folder.
    """
    if not path.parent.exists():
        raise InvalidInput(f"{option} {path}: there is no folder {path.parent}; correct the path, or create it")


@contextmanager
def reporting_plot_errors(path: Path) -> Generator[None, None, None]:
    """Wrap importing the plot module and drawing: translate errors, and report the written file on success.

    Raises:
        ConfigurationError: matplotlib is not installed.
        InvalidInput: the file cannot be written.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            "--plot FILE requires matplotlib: pip install 'tellback[plot]', or use --plot - for the terminal"
        ) from error
    except OSError as error:
        raise InvalidInput(f"--plot: can't write {path}: {error.strerror}") from error
    echo(f"plot written to {path}", err=True)
