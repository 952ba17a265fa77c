"""`tellback alerts`: show what needs attention, and notify a webhook and Slack. Requirement A-118."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.cli.common import (
    OPERATE,
    JsonOption,
    TeamOption,
    UrlOption,
    echo,
    is_named,
    report_errors,
    show_rows,
    stop_event,
)
from tellback.errors import ConfigurationError, InvalidInput, NotFound
from tellback.wording import count_phrase

if TYPE_CHECKING:
    from tellback.alerts.settings import AlertSettings
    from tellback.alerts.sinks import Sink
    from tellback.client.connection import Tellback

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
    team: TeamOption = None,
) -> None:
    """Show the alerts of TELLBACK_TEAMS, or of your team, and exit 1 if there are any. With --send, post them."""
    from tellback.alerts.settings import load_alert_settings
    from tellback.client.connection import connect_for_command
    from tellback.settings import load

    with report_errors(), ExitStack() as open_clients:
        if send and test:
            raise InvalidInput("use --send or --test, not both")
        settings = load_alert_settings()
        served = load(redis_url=redis_url, team=team)
        if test:
            _send_tests(settings)
            return
        teams = (served.team,) if team else served.served_teams or (served.team,)
        # `--send` is a service: it may start before its team's first event, so it creates the team as a host does.
        required = is_named(team) or bool(served.served_teams)
        clients: list[Tellback] = []
        missing: list[NotFound] = []
        for each in teams:
            try:
                opened = connect_for_command(redis_url, team=each, create=send, required=required)
                clients.append(open_clients.enter_context(opened))
            except NotFound as error:  # it must not hide the alerts of the others
                missing.append(error)
        if missing and not clients:
            raise missing[0]
        if send:
            _send_until_stopped(clients, settings)
            return
        firing = _list(clients, settings, as_json=as_json)
        for absent in missing:
            echo(f"tellback: {absent}", err=True)
        if firing or missing:
            raise typer.Exit(1)


def _list(clients: list[Tellback], settings: AlertSettings, *, as_json: bool) -> bool:
    """Print the alerts of these teams; return True if there are any."""
    from tellback.alerts.watcher import firing_now
    from tellback.client.fleet import team_status

    rows: list[dict[str, str]] = []
    for tb in clients:
        status = team_status(tb.context)
        for rule, summary in firing_now(status, settings).items():
            rows.append({
                "team": status.team,
                "alert": rule.name,
                "severity": rule.severity,
                "summary": summary,
                "action": rule.action,
                "runbook": settings.runbook(rule.name),
            })  # fmt: skip
    show_rows(rows, as_json=as_json, columns=COLUMNS, spare=("action", "severity"), title="Alerts")
    return bool(rows)


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


def _send_until_stopped(clients: list[Tellback], settings: AlertSettings) -> None:
    from tellback.alerts.watcher import AlertWatcher
    from tellback.client.fleet import team_status
    from tellback.state.notified_alerts import NotifiedAlerts

    receivers = _receivers(settings)
    logging.getLogger("tellback").setLevel(logging.WARNING)  # a service: its log is where failures are looked for
    stop = stop_event()
    watchers = [
        AlertWatcher(
            sink,
            NotifiedAlerts(tb.context.database, tb.context.layout, sink.name),
            partial(team_status, tb.context),
            settings,
        )
        for sink in receivers
        for tb in clients
    ]
    threads = [threading.Thread(target=watcher.run, args=(stop,), daemon=True) for watcher in watchers]
    for thread in threads:
        thread.start()
    names = " and ".join(sink.name for sink in receivers)
    echo(f"notifying {names} of alerts of {count_phrase(len(clients), 'team')}", err=True)
    while not stop.wait(0.5):
        pass
    for thread in threads:
        thread.join(settings.timeout)
