"""`tellback alerts`: show what needs attention, and notify a webhook and Slack. Requirement A-118."""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.cli.common import (
    OPERATE,
    JsonOption,
    UrlOption,
    echo,
    is_named,
    reading_client,
    report_errors,
    report_losses,
    show_rows,
    stop_event,
)
from tellback.errors import ConfigurationError, InvalidInput, NotFound, Unavailable
from tellback.urls import servers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tellback.alerts.settings import AlertSettings
    from tellback.alerts.sinks import Sink
    from tellback.alerts.watcher import ServersStatus
    from tellback.client.connection import Tellback
    from tellback.client.fleet import TeamStatus
    from tellback.state.database import Database

COLUMNS: Final = ("team", "alert", "severity", "summary", "action", "runbook")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("alerts", rich_help_panel=OPERATE)(alerts)


def alerts(
    *,
    send: Annotated[
        bool, typer.Option("--send", help="Post each change to TELLBACK_ALERT_WEBHOOK and _SLACK, until SIGTERM.")
    ] = False,
    test: Annotated[bool, typer.Option("--test", help="Post one test notice to each receiver.")] = False,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: Annotated[
        str | None,
        typer.Option("--team", help="Team name. Default: TELLBACK_TEAMS, else TELLBACK_TEAM, else all teams."),
    ] = None,
) -> None:
    """Show the alerts of all teams, or of those that you name, and exit 1 if there are any. With --send, post them."""
    from tellback.alerts.settings import load_alert_settings
    from tellback.settings import load
    from tellback.state.database import Database
    from tellback.state.server_info import refuse_old
    from tellback.state.teams import Teams

    with report_errors():
        if send and test:
            raise InvalidInput("use --send or --test, not both")
        settings = load_alert_settings()
        served = load(redis_url=redis_url, team=team)
        if test:
            _send_tests(settings)
            return
        named = (served.team,) if team else served.served_teams or ((served.team,) if is_named(None) else ())
        with closing(Database(served.redis_url)) as database:
            teams = Teams(database)
            if send:
                _send_until_stopped(database, partial(tuple, named) if named else teams.names, settings)
                return
            chosen = named or teams.names()
            if not chosen:
                refuse_old(database, served.redis_url)
            rows = _server_rows(database, settings)
        _list(rows, served.redis_url, chosen, settings, required=bool(named), as_json=as_json)


def _list(
    rows: list[dict[str, str]],
    url: str,
    teams: Sequence[str],
    settings: AlertSettings,
    *,
    required: bool,
    as_json: bool,
) -> None:
    """Print `rows`, and the alerts of these teams; exit 1 if there are any, or if something could not be read."""
    from tellback.state.quarantine import losses_by_node

    servers = servers_of(url)
    losses: list[str] = []
    missing: list[NotFound] = []  # they must not hide the alerts of the others, nor must those that are away
    away: dict[str, Unavailable] = {}
    for team in teams:
        try:
            with reading_client(url, team, losses, required=required) as tb:
                rows += _firing_rows(tb, settings)
        except NotFound as error:
            missing.append(error)
        except Unavailable as error:
            if servers is None or servers.kind != "cluster":
                raise  # all teams are on the one Redis, and each would wait for it
            away[team] = error
    if teams and len(missing) + len(away) == len(teams):
        raise [*away.values(), *missing][0]
    show_rows(rows, as_json=as_json, columns=COLUMNS, spare=("action", "severity"), title="Alerts")
    report_losses([*losses, *losses_by_node("team", away)])
    for absent in missing:
        echo(f"tellback: {absent}", err=True)
    if rows or losses or missing or away:
        raise typer.Exit(1)


def _firing_rows(tb: Tellback, settings: AlertSettings) -> list[dict[str, str]]:
    from tellback.client.fleet import team_status

    return _rows_of(team_status(tb.context.database, tb.context.layout), settings)


def _server_rows(database: Database, settings: AlertSettings) -> list[dict[str, str]]:
    from tellback.alerts.watcher import read_servers

    return _rows_of(read_servers(database), settings)


def _rows_of(status: TeamStatus | ServersStatus, settings: AlertSettings) -> list[dict[str, str]]:
    from tellback.alerts.watcher import firing_now

    return [
        {
            "team": status.team,
            "alert": rule.name,
            "severity": rule.severity,
            "summary": summary,
            "action": rule.action.format(team=status.team),
            "runbook": settings.runbook(rule.name),
        }
        for rule, summary in firing_now(status, settings).items()
    ]


def _send_tests(settings: AlertSettings) -> None:
    from tellback import clock
    from tellback.alerts.sinks import AlertNotice, NotDelivered

    failed = False
    now = round(clock.wall() * 1000)
    text = "a test: alerts of Tellback reach this place"
    for sink in _receivers(settings):
        notice = AlertNotice(
            key=f"test:{now}", team="test", alert="test", state="test", severity="warning", summary=text,
            action="", runbook=settings.runbook("index"), since=now, at=now,
        )  # fmt: skip
        try:
            sink.send(notice)
        except NotDelivered as error:
            failed = True
            echo(f"{sink.name}: {error}", err=True)
        else:
            echo(f"{sink.name}: delivered")
    if failed:
        raise typer.Exit(1)


def _receivers(settings: AlertSettings) -> list[Sink]:
    from tellback.alerts.sinks import sinks_of

    found = sinks_of(settings)
    if not found:
        raise ConfigurationError("no receiver is configured: set TELLBACK_ALERT_WEBHOOK or TELLBACK_ALERT_SLACK")
    return found


def _send_until_stopped(database: Database, names: Callable[[], Sequence[str]], settings: AlertSettings) -> None:
    from tellback.alerts.fleet_watcher import FleetWatcher

    receivers = _receivers(settings)
    logging.getLogger("tellback").setLevel(logging.WARNING)  # a service: its log is where failures are looked for
    stop = stop_event()
    watchers = [FleetWatcher(sink, database, names, settings) for sink in receivers]
    threads = [threading.Thread(target=watcher.run, args=(stop,), daemon=True) for watcher in watchers]
    for thread in threads:
        thread.start()
    echo(f"notifying {' and '.join(sink.name for sink in receivers)} of alerts", err=True)
    while not stop.wait(0.5):
        pass
    for thread in threads:
        thread.join(settings.timeout)
