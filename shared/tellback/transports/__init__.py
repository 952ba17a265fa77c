"""Reference transports: one that prints, a signed webhook, and Telegram's bot API. Copy one or run it as it is.

`python -m tellback.transports webhook --channel web --url https://example.org/tellback`

A transport sends one delivery and returns its outcome; `serve` is the loop around it. Requirements T-57 and T-65.
"""

from tellback.transports.serving import PrintTransport, Transport, serve
from tellback.transports.telegram import TelegramTransport
from tellback.transports.webhook import WebhookMessage, WebhookTransport, sign, verify

__all__ = [
    "PrintTransport",
    "TelegramTransport",
    "Transport",
    "WebhookMessage",
    "WebhookTransport",
    "serve",
    "sign",
    "verify",
]
