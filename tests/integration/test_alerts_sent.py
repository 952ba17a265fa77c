"""Alerts to a webhook and to Slack: real receivers on real sockets, a real Redis."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from typer.testing import CliRunner

from tellback import ConfigurationError, Settings, Tellback, connect
from tellback.alerts.fleet_watcher import FleetWatcher
from tellback.alerts.settings import AlertSettings, load_alert_settings
from tellback.alerts.sinks import AlertNotice, Sink, SlackSink, WebhookSink, slack_text
from tellback.alerts.watcher import RULES, AlertWatcher
from tellback.cli.app import app
from tellback.client.fleet import TeamStatus, team_status
from tellback.state.database import Database
from tellback.state.keys import FLEET
from tellback.state.notified_alerts import NotifiedAlerts
from tellback.state.teams import Teams
from tellback.transports.webhook import SIGNATURE, TIMESTAMP, sign
from tests.support.commands import TOOL
from tests.support.http_server import HttpServer, http_server, reply, reset, silent
from tests.support.turns import overdue
from tests.support.waiting import wait_until

SECRET: Final = "correct-horse-battery"
DOCS: Final = "http://127.0.0.1/docs"
RUNBOOKS: Final = Path(__file__).resolve().parents[2] / "docs" / "operations" / "runbooks"


@pytest.fixture
def server() -> Generator[HttpServer]:
    with http_server(reply(200, b"ok")) as found:
        yield found


def made(server: HttpServer, **changes: Any) -> AlertSettings:
    given: dict[str, Any] = {
        "webhook": f"{server.url}/hook/token-4711",
        "webhook_secret": SECRET,
        "slack": f"{server.url}/services/T0/B0/token-4711",
        "docs_url": DOCS,
        "resolve_after": 0,
        "overdue": 0.001,
        "timeout": 5,
    }
    return AlertSettings(**given | changes)


def watcher(tb: Tellback, settings: AlertSettings, sink: Sink | None = None) -> AlertWatcher:
    sink = sink or WebhookSink(settings)
    known = NotifiedAlerts(tb.context.database, tb.context.layout.shard(0), sink.receiver)
    return AlertWatcher(sink, known, lambda: team_status(tb.context.database, tb.context.layout), settings)


def late_turn(tb: Tellback) -> None:
    """A turn that the rule calls overdue."""
    overdue(tb)
    wait_until(
        lambda: team_status(tb.context.database, tb.context.layout).sweep_lag > 0.01,
        "the turn is overdue for long enough",
    )


def clear_overdue(database: Database, tb: Tellback) -> None:
    for shard in tb.context.layout.all:
        database.command("DEL", shard.key("due"))


def test_a_change_is_sent_once_and_its_end_too(tb: Tellback, server: HttpServer, database: Database) -> None:
    """The number of checks does not matter, nor whether the process was restarted."""
    settings = made(server)
    first = watcher(tb, settings)
    first.step()
    assert not server.requests, "all is well"
    late_turn(tb)
    for _ in range(3):
        assert first.step() == settings.period
    first._notified.release()
    watcher(tb, settings).step()
    (sent,) = server.requests
    assert (sent.json["alert"], sent.json["state"], sent.json["team"]) == ("overdue-turns", "firing", "default")
    assert "1 turn is overdue" in sent.json["summary"]
    assert sent.json["runbook"] == f"{DOCS}/operations/runbooks/overdue-turns/"
    stamp = int(sent.headers[TIMESTAMP])
    assert sent.headers[SIGNATURE] == sign(sent.body, SECRET, at=stamp)
    clear_overdue(database, tb)
    again = watcher(tb, settings)
    again.step()
    assert len(server.requests) == 1, "another process posts, for as long as it lives"
    database.command("DEL", tb.context.layout.shard(0).key("alerting", WebhookSink(settings).receiver))
    for _ in range(3):
        again.step()
    assert [one.json["state"] for one in server.requests] == ["firing", "resolved"]
    assert server.requests[1].json["since"] == sent.json["since"]
    late_turn(tb)
    again.step()
    assert [one.json["state"] for one in server.requests] == ["firing", "resolved", "firing"]
    assert server.requests[2].headers["Idempotency-Key"] != sent.headers["Idempotency-Key"]


def test_a_notice_whose_reply_was_lost_comes_again_with_its_key(
    tb: Tellback, server: HttpServer, database: Database
) -> None:
    """Its key was that of the attempt's time, so that a receiver took it for another alert. Requirement A-529."""
    server.then(reset, reply(503))
    one = watcher(tb, made(server))
    late_turn(tb)
    for _ in range(3):
        one.step()
    assert [each.json["state"] for each in server.requests] == ["firing"] * 3
    assert len({each.json["key"] for each in server.requests}) == 1
    assert len({each.json["at"] for each in server.requests}) == 3, "each describes the state at its own time"
    server.then(reset)
    clear_overdue(database, tb)
    one.step()
    one.step()
    late_turn(tb)
    one.step()
    assert [each.json["state"] for each in server.requests[3:]] == ["resolved", "resolved", "firing"]
    assert server.requests[3].json["key"] == server.requests[4].json["key"]
    assert server.requests[5].json["key"] != server.requests[0].json["key"]


def test_each_rule_fires_and_links_to_its_runbook(tb: Tellback, server: HttpServer) -> None:
    """The rules are overdue turns, dead letters, lag, and a team above its share; Slack gets each too."""
    settings = made(server)
    well = team_status(tb.context.database, tb.context.layout)
    ill = msgspec.structs.replace(
        well,
        turns_overdue=3,
        sweep_lag=42.0,
        dead_letters=7,
        waiting={"events": 900},
        waited={"events": 61.0},
        memory=600 << 20,
        memory_limit=1 << 30,
    )
    status = ill

    def read() -> TeamStatus:
        return status

    for sink in (WebhookSink(settings), SlackSink(settings)):
        known = NotifiedAlerts(tb.context.database, tb.context.layout.shard(0), sink.receiver)
        AlertWatcher(sink, known, read, settings).step()
    by_webhook = {one.json["alert"]: one.json for one in server.requests if "hook" in one.path}
    by_slack = [one.json["text"] for one in server.requests if "services" in one.path]
    assert by_webhook.keys() == {"overdue-turns", "dead-letters", "intake-lag", "memory-share"}
    assert "900 of events, the oldest for 61 s" in by_webhook["intake-lag"]["summary"]
    assert "59% of Redis' memory; its share is 50%" in by_webhook["memory-share"]["summary"]
    assert len(by_slack) == 4
    named = [f"--team {well.team}`" in notice["action"] for notice in by_webhook.values()]
    assert all(named), "a command without it would answer for the reader's team"
    for rule in RULES:
        assert (RUNBOOKS / f"{rule.name}.md").is_file()
        assert any(f"<{DOCS}/operations/runbooks/{rule.name}/|Runbook>" in text for text in by_slack)


def test_a_process_that_lost_its_turn_while_the_receiver_took_long_sends_no_more(
    tb: Tellback, server: HttpServer
) -> None:
    """The process that has taken over sends the next alert, and each is sent once. Requirement A-444."""
    well = team_status(tb.context.database, tb.context.layout)
    ill = msgspec.structs.replace(well, dead_letters=7, waiting={"events": 9}, waited={"events": 99})
    settings = made(server)
    lease = tb.context.layout.shard(0).key("alerting", WebhookSink(settings).receiver)

    class SlowSink(WebhookSink):
        def send(self, notice: AlertNotice) -> None:
            super().send(notice)
            tb.context.database.command("SET", lease, "another process", "PX", 60_000)

    known = NotifiedAlerts(tb.context.database, tb.context.layout.shard(0), WebhookSink(settings).receiver)
    AlertWatcher(SlowSink(settings), known, lambda: ill, settings).step()
    assert [one.json["alert"] for one in server.requests] == ["dead-letters"]


def test_each_team_is_watched_from_its_first_event_to_its_removal(
    tb: Tellback, settings: Settings, server: HttpServer, database: Database
) -> None:
    """Without names, one team alone was watched. Requirement A-553."""
    sink = WebhookSink(made(server, period=1))
    every = FleetWatcher(sink, database, Teams(database).names, made(server, period=1))
    stop = threading.Event()
    late_turn(tb)
    wait_until(lambda: every.step(stop) and server.requests, "the team is told of")
    with connect(settings=msgspec.structs.replace(settings, team="acme")) as other:
        late_turn(other)
        wait_until(lambda: every.step(stop) and len(server.requests) > 1, "the new team is told of")
    assert [each.json["team"] for each in server.requests] == ["default", "acme"]
    list(Teams(database).remove("acme"))
    wait_until(lambda: every.step(stop) and len(every._watchers) == 1, "the removed team is no longer looked at")
    clear_overdue(database, tb)
    wait_until(lambda: every.step(stop) and len(server.requests) > 2, "the end is told of")
    assert (server.requests[2].json["team"], server.requests[2].json["state"]) == ("default", "resolved")
    stop.set()
    every.run(stop)
    lease = tb.context.layout.shard(0).key("alerting", sink.receiver)
    assert not database.command("EXISTS", lease), "another process takes over at once"


def test_a_receiver_that_fails_is_tried_again_for_its_team_alone(
    tb: Tellback, settings: Settings, server: HttpServer, database: Database
) -> None:
    """Alerts of other teams do not wait for the delay."""
    sink = WebhookSink(made(server, period=1))
    every = FleetWatcher(sink, database, Teams(database).names, made(server, period=1))
    stop = threading.Event()
    server.then(reply(429, Retry_After="3600"))
    late_turn(tb)
    wait_until(lambda: every.step(stop) and server.requests, "the team was tried")
    with connect(settings=msgspec.structs.replace(settings, team="acme")) as other:
        late_turn(other)
        wait_until(lambda: every.step(stop) and len(server.requests) > 1, "the other team is told of")
    assert server.requests[1].json["team"] == "acme"


def test_a_key_by_hand_among_those_of_all_teams_ends_no_thread(
    tb: Tellback, server: HttpServer, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    sink = WebhookSink(made(server, period=1))
    every = FleetWatcher(sink, database, Teams(database).names, made(server, period=1))
    stop, key = threading.Event(), FLEET.key("teams")
    late_turn(tb)
    Teams(database).names()
    database.command("DEL", key)
    database.command("SET", key, "by hand")
    every.step(stop)
    assert "alerts.failed" in caplog.text
    database.command("DEL", key)
    Teams(database).create("default", 1)
    wait_until(lambda: every.step(stop) and server.requests, "it goes on")


def test_slack_reads_no_markup_in_what_we_write(server: HttpServer) -> None:
    notice = AlertNotice(
        key="k", team="t", alert="a", state="firing", severity="warning", summary="<!channel> & <b>", action="",
        runbook="docs/x.md", since=1, at=2,
    )  # fmt: skip
    assert "&lt;!channel&gt; &amp; &lt;b&gt;" in slack_text(notice)
    assert server.url


def test_a_receiver_that_fails_gets_what_holds_later(tb: Tellback, server: HttpServer, database: Database) -> None:
    """Delays grow; a Retry-After is kept; what was not taken counts as not sent."""
    settings = made(server)
    server.then(reply(500), reset, reply(429, Retry_After="77"))
    one = watcher(tb, settings)
    late_turn(tb)
    assert [one.step() for _ in range(3)] == [1.0, 2.0, 77.0]
    assert one.step() == settings.period
    assert [each.json["state"] for each in server.requests] == ["firing"] * 4
    clear_overdue(database, tb)
    server.then(reply(500))
    assert one.step() == 1.0, "a success restarts the delays"
    late_turn(tb)
    one.step()
    assert len(server.requests) == 5, "while the receiver was away the alert came back: nothing has changed for it"


def test_an_alert_that_flickers_is_one_alert(tb: Tellback, server: HttpServer, database: Database) -> None:
    """It is over when all was well for `resolve_after`."""
    one = watcher(tb, made(server, resolve_after=3_600))
    for _ in range(3):
        late_turn(tb)
        one.step()
        clear_overdue(database, tb)
        one.step()
    assert [each.json["state"] for each in server.requests] == ["firing"]


def test_of_two_processes_one_sends(tb: Tellback, server: HttpServer) -> None:
    settings = made(server)
    late_turn(tb)
    steps = [threading.Thread(target=watcher(tb, settings).step) for _ in range(6)]
    for step in steps:
        step.start()
    for step in steps:
        step.join(60)
    assert len(server.requests) == 1


def environ(settings: Settings, alerts: AlertSettings) -> dict[str, str]:
    given = {name: str(getattr(alerts, name)) for name in AlertSettings.__struct_fields__}
    ours = {f"TELLBACK_ALERT_{name.upper()}": value for name, value in given.items() if value}
    ours["TELLBACK_ALERT_PERIOD"] = "1"
    return {**os.environ, **ours, "TELLBACK_REDIS_URL": settings.redis_url}


def test_a_receiver_that_hangs_delays_no_other_and_no_secret_is_printed(
    tb: Tellback, settings: Settings, server: HttpServer
) -> None:
    """In the real process Slack hangs, the webhook is sent, and the process ends in good order."""
    late_turn(tb)
    with http_server(silent) as hanging:
        alerts = made(server, slack=f"{hanging.url}/services/T0/B0/token-4711", timeout=1)
        process = subprocess.Popen(
            [*TOOL, "alerts", "--send"], env=environ(settings, alerts), stderr=subprocess.PIPE, text=True
        )
        wait_until(lambda: server.requests, "the webhook is sent")
        wait_until(lambda: len(hanging.requests) > 1, "Slack is sent again")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "alerts.not_delivered" in errors
    assert "token-4711" not in errors
    assert SECRET not in errors


def test_the_command_line_lists_and_tries(
    tb: Tellback, settings: Settings, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 1 while something is wrong, so that a script can ask. Requirement A-443."""
    for name, value in environ(settings, made(server)).items():
        if name.startswith("TELLBACK_ALERT"):
            monkeypatch.setenv(name, value)
    runner = CliRunner()
    fine = runner.invoke(app, ["alerts", "--redis-url", settings.redis_url])
    assert (fine.exit_code, fine.output) == (0, "Alerts: none\n")
    late_turn(tb)
    ill = runner.invoke(app, ["alerts", "--json", "--redis-url", settings.redis_url])
    assert (ill.exit_code, json.loads(ill.output)["alert"]) == (1, "overdue-turns")
    assert f"--team {settings.team}`" in json.loads(ill.output)["action"]
    monkeypatch.setenv("TELLBACK_TEAMS", "absent,default")
    both = runner.invoke(app, ["alerts", "--json", "--redis-url", settings.redis_url])
    assert (both.exit_code, json.loads(both.stdout)["alert"]) == (1, "overdue-turns")
    assert "there is no team absent" in both.stderr, "a team without any event hides no alert of another"
    monkeypatch.delenv("TELLBACK_TEAMS")
    with connect(settings=msgspec.structs.replace(settings, team="acme")) as other:
        late_turn(other)
    every = runner.invoke(app, ["alerts", "--json", "--redis-url", settings.redis_url])
    assert [json.loads(line)["team"] for line in every.stdout.splitlines()] == ["acme", "default"]
    one = runner.invoke(app, ["alerts", "--json", "--redis-url", settings.redis_url], env={"TELLBACK_TEAM": "acme"})
    assert [json.loads(line)["team"] for line in one.stdout.splitlines()] == ["acme"]
    assert runner.invoke(app, ["alerts", "--test"]).output == "webhook: delivered\nslack: delivered\n"
    server.then(reply(404))
    failed = runner.invoke(app, ["alerts", "--test"])
    assert (failed.exit_code, "webhook: HTTP 404" in failed.output) == (1, True)
    monkeypatch.delenv("TELLBACK_ALERT_WEBHOOK")
    monkeypatch.delenv("TELLBACK_ALERT_SLACK")
    nobody = runner.invoke(app, ["alerts", "--send", "--redis-url", settings.redis_url])
    assert (nobody.exit_code, "no receiver is configured" in nobody.output) == (2, True)


def test_before_its_first_event_the_default_team_has_no_alerts(settings: Settings) -> None:
    """The other listings show it as empty too; a team that somebody names has to exist."""
    fresh = CliRunner().invoke(app, ["alerts", "--redis-url", settings.redis_url])
    assert (fresh.exit_code, fresh.output) == (0, "Alerts: none\n")
    named = CliRunner().invoke(app, ["alerts", "--team", "acme", "--redis-url", settings.redis_url])
    assert (named.exit_code, "there is no team acme" in named.stderr) == (1, True)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"WEBHOOK": "http://elsewhere.example/token-4711", "WEBHOOK_SECRET": SECRET}, "ALERT_WEBHOOK"),
        ({"WEBHOOK": "https://a.example/token-4711", "WEBHOOK_SECRET": "token-4711"}, "ALERT_WEBHOOK_SECRET"),
        ({"SLACK": "https://u:token-4711@hooks.example/x"}, "ALERT_SLACK"),
        ({"PERIOD": "0"}, "ALERT_PERIOD"),
        ({"MEMORY_SHARE": "2"}, "ALERT_MEMORY_SHARE"),
    ],
)
def test_wrong_settings_are_named_and_not_repeated(given: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named) as caught:
        load_alert_settings({f"TELLBACK_ALERT_{name}": value for name, value in given.items()})
    assert "token-4711" not in str(caught.value)


def test_settings_in_a_log_show_no_secret(server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        logging.getLogger("test").info("%r %s", made(server), made(server))
    assert "token-4711" not in caplog.text
    assert SECRET not in caplog.text


def test_a_key_of_another_type_ends_no_watcher(
    server: HttpServer, tb: Tellback, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Its thread ended, and nobody heard of anything any more while the process went on."""
    settings, key = made(server), tb.context.layout.shard(0).key("dead")
    one = watcher(tb, settings)
    late_turn(tb)
    database.command("SET", key, "by hand")
    assert one.step() == settings.period
    assert "alerts.failed" in caplog.text
    database.command("DEL", key)
    one.step()
    assert [request.json["alert"] for request in server.requests] == ["overdue-turns"]
    clear_overdue(database, tb)
