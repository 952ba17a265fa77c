"""Reference transports: one that prints, a webhook, and a chat platform's bot API. Copy one, or run it as it is.

`python -m tellback.transports webhook --channel web --url https://example.org/tellback`

A transport sends one delivery and says what became of it; `serve` is the loop around it. Source: feedback-guarantee,
"Interaction with ResponseRoutingSystem".
"""

from tellback.transports.printing import PrintTransport
from tellback.transports.serving import Transport, serve
from tellback.transports.signature import WebhookMessage, sign, verify
from tellback.transports.telegram import TelegramTransport
from tellback.transports.webhook import WebhookTransport

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
