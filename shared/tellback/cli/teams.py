"""`tellback teams`: list, create, limit, suspend, resume and remove teams. Requirements A-122, A-123, C-169, C-170."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.cli.common import (
    LISTED,
    OPERATE,
    JsonOption,
    UrlOption,
    echo,
    plain_text,
    report_errors,
    report_losses,
    show_rows,
)
from tellback.cli.steering import ByOption, WhyOption
from tellback.names import MAX_SHARDS, check_team
from tellback.wording import count_phrase

if TYPE_CHECKING:
    from tellback.settings import Settings
    from tellback.state.audit import Author
    from tellback.state.database import Database
    from tellback.state.limits import TeamLimits
    from tellback.state.teams import TeamRow, Teams

NameArgument = Annotated[str, typer.Argument(help="Name of the team.", metavar="TEAM")]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="List, create, limit, suspend or remove teams.", no_args_is_help=True)
    for command in (list_, create, limit, suspend, resume, remove, removed):
        group.command(command.__name__.rstrip("_"))(command)
    app.add_typer(group, name="teams", rich_help_panel=OPERATE)


@contextmanager
def _database(url: str | None) -> Generator[tuple[Database, Settings]]:
    from tellback.settings import load
    from tellback.state.database import Database

    with report_errors():
        settings = load(redis_url=url)
        with closing(Database(settings.redis_url)) as database:
            yield database, settings


@contextmanager
def _teams(url: str | None) -> Generator[tuple[Teams, Settings]]:
    from tellback.state.teams import Teams

    with _database(url) as (database, settings):
        yield Teams(database), settings


def list_(
    names: Annotated[list[str] | None, typer.Argument(help="Teams to list. Default: all.", metavar="TEAM")] = None,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
) -> None:
    """List the teams: their state, waiting entries, open turns and limits."""
    from tellback.state.quarantine import losses_by_node
    from tellback.state.server_info import refuse_old
    from tellback.state.teams import Teams

    with _database(redis_url) as (database, settings):
        teams = Teams(database)
        found = list(teams.rows([teams.layout(name).team for name in names] if names else None))
        if not found:
            refuse_old(database, settings.redis_url)
        losses = losses_by_node("team", teams.away)
    _show(found, as_json=as_json)
    report_losses(losses)
    if losses:
        raise typer.Exit(1)


def _show(found: list[TeamRow], *, as_json: bool) -> None:
    import msgspec

    if as_json:
        show_rows(found, as_json=True, columns=(), title="Teams")
        return
    rows = [msgspec.to_builtins(row) | {"limits": _limits_text(row.limits), "state": _state_text(row)} for row in found]
    columns = ("team", "state", "waiting", "open_turns", "shards", "limits")
    show_rows(rows, as_json=False, columns=columns, title="Teams", spare=("shards",))


def _state_text(row: TeamRow) -> str:
    unknown = count_phrase(row.unknown_shards, "shard")
    return f"{row.state}, {unknown} unknown" if row.unknown_shards else row.state


def _limits_text(limits: TeamLimits) -> str:
    counts = ((limits.open_turns, "open turn"), (limits.sessions, "session"), (limits.banks, "bank"))
    rate = limits.events_per_second
    parts = [
        count_phrase(int(rate) if rate.is_integer() else rate, "event/s", "events/s") if rate else "",
        f"{limits.intake_bytes:,} bytes" if limits.intake_bytes else "",
        *(count_phrase(most, what) for most, what in counts if most),
    ]
    return ", ".join(part for part in parts if part) or "none"


def create(
    team: NameArgument,
    *,
    shards: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_SHARDS, help="Number of shards; it can't be changed later. Default: TELLBACK_SHARDS."
        ),
    ] = None,
    why: WhyOption = "",
    by: ByOption = "",
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
) -> None:
    """Create a team. You rarely need to: the first client that connects creates its team."""
    with _teams(redis_url) as (teams, settings):
        from tellback.errors import StateConflict
        from tellback.state.audit import Author

        layout = teams.create(team, shards or settings.shards, Author.of(by, why))
        if shards and layout.shards != shards:
            raise StateConflict(f"team {team} exists and has {count_phrase(layout.shards, 'shard')}, which stay")
        _report(teams, team, count_phrase(layout.shards, "shard"), as_json=as_json)


def limit(
    team: NameArgument,
    *,
    events_per_second: Annotated[
        float | None, typer.Option(help="Events that all its hosts may publish a second. 0: no limit.", min=0)
    ] = None,
    intake_bytes: Annotated[
        int | None, typer.Option(help="Bytes that the intake streams of one family may hold. 0: no limit.", min=0)
    ] = None,
    open_turns: Annotated[int | None, typer.Option(help="Turns that may be open. 0: no limit.", min=0)] = None,
    sessions: Annotated[
        int | None, typer.Option(help="Sessions that may be active within an hour. 0: no limit.", min=0)
    ] = None,
    banks: Annotated[int | None, typer.Option(help="Banks that it may have. 0: no limit.", min=0)] = None,
    why: WhyOption = "",
    by: ByOption = "",
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
) -> None:
    """Limit what a team may send. Hosts over a limit get an error, and spool what they can't publish."""
    from tellback.errors import InvalidInput
    from tellback.state.audit import Author

    given = {
        "events_per_second": events_per_second,
        "intake_bytes": intake_bytes,
        "open_turns": open_turns,
        "sessions": sessions,
        "banks": banks,
    }
    changed = {name: value for name, value in given.items() if value is not None}
    with _teams(redis_url) as (teams, _):
        if not changed:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise InvalidInput(f"give at least one of {options}")
        limits = teams.limits(team).change(Author.of(by, why), **changed)
        _report(teams, team, _limits_text(limits), as_json=as_json)


def suspend(
    team: NameArgument,
    *,
    why: WhyOption = "",
    by: ByOption = "",
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
) -> None:
    """Refuse everything new from a team's hosts. Waiting events are still applied, and open turns get their answers."""
    _suspend(team, redis_url, by, why, as_json=as_json, suspended=True)


def resume(
    team: NameArgument,
    *,
    why: WhyOption = "",
    by: ByOption = "",
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
) -> None:
    """Accept a suspended team's events and turns again. Its hosts then send what they spooled."""
    _suspend(team, redis_url, by, why, as_json=as_json, suspended=False)


def _suspend(team: str, redis_url: str | None, by: str, why: str, *, as_json: bool, suspended: bool) -> None:
    from tellback.state.audit import Author

    with _teams(redis_url) as (teams, _):
        limits = teams.limits(team)
        is_news = limits.read().suspended != suspended
        limits.change(Author.of(by, why), suspended=suspended)
        if suspended:
            done = "suspended" if is_news else "is suspended already"
        else:
            done = "resumed" if is_news else "was not suspended"
        _report(teams, team, done, as_json=as_json)


def _report(teams: Teams, team: str, done: str, *, as_json: bool) -> None:
    """Print what was done to a team, or the team's row as `teams list` has it."""
    if as_json:
        _show(list(teams.rows([team])), as_json=True)
    else:
        echo(f"{team}: {done}")


def remove(
    team: NameArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    why: WhyOption = "",
    by: ByOption = "",
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
) -> None:
    """Delete a team with all its keys: streams, records, turns, scores, facts and history.

    Events that hosts have spooled for it stay on their disks. With --json, its row of before is printed, if it had one;
    --yes is needed then. `tellback teams removed` says who removed it, and why.
    """
    from tellback.errors import InvalidInput, StateConflict
    from tellback.messaging.spool import spool_sizes
    from tellback.messaging.team_cache import SPOOL
    from tellback.state.audit import Author

    with _teams(redis_url) as (teams, settings):
        author = Author.of(by, why)
        if as_json and not yes:
            raise InvalidInput("--json asks nothing: give --yes too")
        before, question = teams.stored(check_team(team)), _question(teams, team)
        rows = list(teams.rows([team])) if as_json else []
        if not yes:
            typer.confirm(question, abort=True)
            if teams.created_since(team, before):
                raise StateConflict(f"nothing was deleted: another team {team} was created meanwhile; ask again")
        deleted = _remove_all(teams, team, author)
    if as_json:
        _show(rows, as_json=True)
    else:
        echo(f"{team}: removed, {count_phrase(deleted, 'key')} deleted")
    folder = settings.data_path / SPOOL / team
    if spooled := sum(spool_sizes(str(folder))):
        size = count_phrase(spooled, "byte")
        echo(f"tellback: {size} spooled on this host would go to a new team of this name: delete {folder}", err=True)


def removed(
    *,
    limit: Annotated[int, typer.Option(help="Maximum number of removals.", min=1, max=10_000)] = LISTED,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
) -> None:
    """List the newest removals of teams, oldest first, with who did it and why. A team's own log goes with it."""
    from tellback.state.audit import removed_teams
    from tellback.state.server_info import refuse_old

    with _database(redis_url) as (database, settings):
        entries = removed_teams(database, limit)
        if not entries:
            refuse_old(database, settings.redis_url)
    show_rows(entries, as_json=as_json, columns=("at", "target", "by", "reason"), title="Removed teams", limit=limit)


def _question(teams: Teams, team: str) -> str:
    """Return what to ask before a team is removed, or what hosts wrote that stayed connected after its removal."""
    from tellback.errors import NotFound

    try:
        [row] = list(teams.rows([teams.layout(team).team]))
    except NotFound:
        if not teams.has_keys(team):
            raise
        return f"There is no team {team}, but keys of it. Delete them for good?"
    waiting, open_turns = count_phrase(row.waiting, "waiting event"), count_phrase(row.open_turns, "open turn")
    return f"Delete team {team} for good, with {waiting} and {open_turns}?"


def _remove_all(teams: Teams, team: str, author: Author) -> int:
    """Remove a team, with progress if standard error is a terminal; return the number of deleted keys."""
    from rich.console import Console

    console, deleted = Console(stderr=True), 0
    with console.status("deleting keys") if console.is_terminal else nullcontext() as status:
        for deleted in teams.remove(team, author):
            if status is not None:
                status.update(plain_text(f"{count_phrase(deleted, 'key')} deleted"))
    return deleted
