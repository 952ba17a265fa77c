"""A transport that posts each delivery to a URL, signed."""

from __future__ import annotations

import ssl
from typing import Final

import msgspec

from tellback import clock
from tellback.client.outbox import OutboxDelivery
from tellback.contracts.turns import OutgoingResponse, RoutingOutcome
from tellback.transports.posting import OK, REDIRECTS, NoReply, NotSent, Reply, check_url, post
from tellback.transports.signature import (
    IDEMPOTENCY_KEY,
    SIGNATURE,
    TIMESTAMP,
    WebhookMessage,
    check_secret,
    sign,
)

NOT_THERE: Final = frozenset({401, 403, 404, 407, 421, 429, 503})
"""The receiver took nothing and may later: it is not set up, or asks to wait. No attempt is spent."""
AGAIN: Final = frozenset({408, 409, 425})
GATEWAY: Final = frozenset({502, 504})
"""Somebody before the receiver speaks, who may have passed the request on."""


class WebhookTransport:
    """Posts deliveries as JSON, signed with a secret that both sides know.

    The body is a `WebhookMessage`. `deduplicates` says that the receiver does nothing when an idempotency key comes
    again: then a delivery of which nobody knows is sent again, which is otherwise never done.
    """

    def __init__(
        self,
        url: str,
        secret: str,
        *,
        timeout: float = 10.0,
        deduplicates: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Take where to post and how to sign; `timeout` bounds the whole exchange; `tls` trusts other authorities.

        Raises:
            ConfigurationError: the URL is not https, or not on this host, or has a password in it.
            InvalidInput: the secret is shorter than 16 bytes.
        """
        self._url = check_url("url", url)
        self._secret = check_secret("secret", secret)
        self._timeout = timeout
        self._deduplicates = deduplicates
        self._tls = tls

    @property
    def longest(self) -> float:
        """The longest time that one delivery takes, in seconds."""
        return self._timeout

    def send(self, delivery: OutboxDelivery) -> RoutingOutcome:
        """Post one delivery."""
        message = WebhookMessage(
            idempotency_key=delivery.idempotency_key,
            turn=delivery.turn_id,
            channel=delivery.channel,
            conversation=delivery.conversation,
            kind=delivery.kind,
            attempt=delivery.attempt,
            at=delivery.at,
            response=delivery.response,
        )
        body, now = msgspec.json.encode(message), int(clock.wall())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "tellback",
            IDEMPOTENCY_KEY: message.idempotency_key,
            TIMESTAMP: str(now),
            SIGNATURE: sign(body, self._secret, at=now),
        }
        try:
            reply = post(self._url, body, headers, timeout=self._timeout, tls=self._tls)
        except NotSent as error:
            return RoutingOutcome(attempted=False, error=str(error))
        except NoReply as error:
            return self._unknown(str(error))
        return self._outcome(reply, delivery.response)

    def _unknown(self, error: str) -> RoutingOutcome:
        return RoutingOutcome(attempted=True, ambiguous=not self._deduplicates, error=error)

    def _outcome(self, reply: Reply, response: OutgoingResponse) -> RoutingOutcome:
        status, error = reply.status, f"HTTP {reply.status}"
        if status in OK:
            return RoutingOutcome(
                attempted=True,
                sent_text=response.text is not None,
                sent_voice=response.voice is not None,
                sent_attachments=len(response.attachments),
            )
        if status in REDIRECTS:
            return RoutingOutcome(attempted=False, error=f"{error}: redirects are not followed; set the final URL")
        if status in NOT_THERE:
            return RoutingOutcome(attempted=False, error=error, retry_after=reply.retry_after)
        if status in GATEWAY:
            return self._unknown(error)
        permanent = status in range(400, 500) and status not in AGAIN
        return RoutingOutcome(attempted=True, error=error, permanent=permanent, retry_after=reply.retry_after)
