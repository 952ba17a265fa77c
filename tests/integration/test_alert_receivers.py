"""Receivers of alerts: an operator reads why one was not told, and each address is told by itself."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from tellback import Tellback
from tellback.alerts.fleet_watcher import FleetWatcher
from tellback.alerts.settings import AlertSettings
from tellback.alerts.sinks import AlertNotice, NotDelivered, SlackSink, WebhookSink
from tellback.state.database import Database
from tellback.state.teams import Teams
from tests.support.http_server import http_server, reply
from tests.support.redis_server import free_port
from tests.support.turns import overdue
from tests.support.waiting import wait_until

NOTICE = AlertNotice(
    key="k", team="t", alert="intake-lag", state="firing", severity="warning", summary="s", action="a", runbook="r",
    since=1, at=2,
)  # fmt: skip


def refusal(url: str) -> str:
    with pytest.raises(NotDelivered) as refused:
        SlackSink(AlertSettings(slack=f"{url}/services/token-4711")).send(NOTICE)
    assert "token" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (301, "HTTP 301: redirects are not followed; set the address to which it sends"),
        *((status, f"HTTP {status}: check its URL and its access") for status in (401, 403, 404, 405, 410)),
        (500, "HTTP 500"),
    ],
)
def test_a_refused_notice_says_what_to_do(status: int, said: str) -> None:
    """Slack answers 404 for a webhook that was revoked."""
    with http_server(reply(status, b"no", Location="https://localhost/other")) as server:
        assert refusal(server.url) == said
        assert len(server.requests) == 1


def test_a_missing_connection_has_its_reason_in_words() -> None:
    """It was the name of a class, such as `SSLError`."""
    assert refusal(f"http://127.0.0.1:{free_port()}") == "no connection: connection refused"
    assert refusal(f"http://{'a' * 64}.invalid") == "no connection: UnicodeError"  # it has no words of the system
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def answer() -> None:
            with plain.accept()[0] as connection:
                connection.recv(1_000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        assert refusal(f"https://127.0.0.1:{plain.getsockname()[1]}").startswith("no connection: TLS failed (")
        answering.join(10)


@pytest.mark.parametrize(("sink", "address"), [(SlackSink, "slack"), (WebhookSink, "webhook")])
def test_processes_with_their_own_receivers_all_notify_of_a_team(
    tb: Tellback, database: Database, sink: type[SlackSink | WebhookSink], address: str
) -> None:
    """Requirement C-180."""
    stop = threading.Event()
    overdue(tb)
    with http_server(reply(200, b"ok")) as server:
        watchers: list[FleetWatcher] = []
        for path in ("/acme", "/globex"):
            given: dict[str, Any] = {address: f"{server.url}{path}"}
            settings = AlertSettings(**given, webhook_secret="correct-horse-battery", overdue=0.001, period=1)
            watchers.append(FleetWatcher(sink(settings), database, Teams(database).names, settings))
        paths = {"/acme", "/globex"}
        wait_until(
            lambda: all(each.step(stop) for each in watchers) and {one.path for one in server.requests} == paths,
            "both are told",
        )
