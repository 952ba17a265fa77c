"""The receivers of notices: a signed webhook and Slack. A notice holds figures and names of ours, no user's text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from tellback import clock
from tellback.alerts.settings import AlertSettings
from tellback.transports.http_post import OK, REDIRECTS, NoReply, NotSent, post_request
from tellback.transports.webhook import IDEMPOTENCY_KEY, SIGNATURE, TIMESTAMP, sign

NoticeState = Literal["firing", "resolved", "test"]


class AlertNotice(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one alert, the body of a webhook. Times are milliseconds; the same `key` is the same change.

    `team` is empty in an alert of a Redis server, which is all teams'.
    """

    key: str
    team: str
    alert: str
    state: NoticeState
    severity: str
    summary: str
    action: str
    runbook: str
    since: int
    at: int


class NotDelivered(Exception):
    """A receiver did not accept a notice; the reason shows no part of its URL. `retry_after` is what it asked for."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Sink(Protocol):
    """A receiver. Logs contain `name`, its kind; keys contain `receiver`, which another address makes another."""

    @property
    def name(self) -> str:
        """The name of its kind."""
        ...

    @property
    def receiver(self) -> str:
        """The name, and a digest of the address, which is a secret."""
        ...

    def send(self, notice: AlertNotice) -> None:
        """Send one notice.

        Raises:
            NotDelivered: the receiver did not accept it, as far as is known.
        """
        ...


class WebhookSink:
    """Posts notices as JSON, signed as the webhooks of transports are."""

    name = "webhook"

    def __init__(self, settings: AlertSettings) -> None:
        self._settings = settings
        self.receiver = _receiver(self.name, settings.webhook)

    def send(self, notice: AlertNotice) -> None:
        """Post one notice."""
        body, now = msgspec.json.encode(notice), int(clock.wall())
        signature = sign(body, self._settings.webhook_secret, at=now)
        headers = {IDEMPOTENCY_KEY: notice.key, TIMESTAMP: str(now), SIGNATURE: signature}
        _post(self._settings.webhook, body, headers, self._settings.timeout)


class SlackSink:
    """Posts notices to an incoming webhook of Slack."""

    name = "slack"

    def __init__(self, settings: AlertSettings) -> None:
        self._settings = settings
        self.receiver = _receiver(self.name, settings.slack)

    def send(self, notice: AlertNotice) -> None:
        """Post one notice."""
        body = msgspec.json.encode({"text": slack_text(notice)})
        _post(self._settings.slack, body, {}, self._settings.timeout)


def slack_text(notice: AlertNotice) -> str:
    """Return a notice in Slack's markup."""
    sign_ = {"firing": ":rotating_light:", "resolved": ":white_check_mark:", "test": ":wave:"}[notice.state]
    team = f"team {notice.team}" if notice.team else "all teams"
    title = f"{sign_} *{notice.alert}* {notice.state} · {team} · {notice.severity}"
    parts = [title, notice.summary, *([notice.action] if notice.state == "firing" else [])]
    escaped = "\n".join(parts).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    link = f"<{notice.runbook}|Runbook>" if notice.runbook.startswith("http") else f"Runbook: {notice.runbook}"
    return f"{escaped}\n{link}"


def _receiver(name: str, url: str) -> str:
    return f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"


def _post(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> None:
    fixed = {"Content-Type": "application/json", "User-Agent": "tellback"}
    try:
        reply = post_request(url, body, {**fixed, **headers}, timeout=timeout)
    except (NotSent, NoReply) as error:
        raise NotDelivered(str(error)) from None
    if reply.status not in OK:
        raise NotDelivered(f"HTTP {reply.status}{_advice(reply.status)}", reply.retry_after)


def _advice(status: int) -> str:
    if status in REDIRECTS:
        return ": redirects are not followed; set the address to which it sends"
    return ": check its URL and its access" if status in {401, 403, 404, 405, 410} else ""


def sinks_of(settings: AlertSettings) -> list[Sink]:
    """Return the receivers that are set up."""
    found: list[Sink] = []
    if settings.webhook:
        found.append(WebhookSink(settings))
    if settings.slack:
        found.append(SlackSink(settings))
    return found
