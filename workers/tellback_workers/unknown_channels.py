"""A delivery for a channel that no transport serves is dead at once, and somebody is told.

Only where `TELLBACK_CHANNELS` says which channels there are: a transport that is merely away costs no delivery.
"""

from __future__ import annotations

from typing import Final

import structlog

from tellback.client.outbox import open_outbox_of
from tellback.contracts.turns import RoutingOutcome
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.outbox import Delivery, Outbox, Place

AT_ONCE: Final = 200  # deliveries of one channel in one run; the next run goes on
UNKNOWN: Final = RoutingOutcome(attempted=False, permanent=True, error="unknown channel: not in TELLBACK_CHANNELS")

_log = structlog.get_logger("tellback.outbox")


def bury_unknown(database: Database, layout: Layout, settings: Settings) -> int:
    """Settle what waits for unknown channels as dead; how many.

    Raises:
        Unavailable: Redis is away; the next run goes on.
    """
    known = settings.known_channels
    if not known:
        return 0
    outbox = open_outbox_of(database, layout, settings)
    buried = 0
    for channel in outbox.channels():
        if channel in known:
            continue
        left = AT_ONCE
        while left > 0 and (found := outbox.ready(channel, left)):  # after the first of a conversation comes its next
            left -= len(found)
            buried += sum(_bury(outbox, place, expected) for place, expected in found)
    return buried


def _bury(outbox: Outbox, place: Place, expected: Delivery) -> bool:
    taken = outbox.claim(place, expected)
    if taken is None or outbox.settle(place, taken, UNKNOWN) != "dead":
        return False
    channel = place.channel
    name = channel if channel.isprintable() else repr(channel)  # no forged log line
    _log.warning("outbox.unknown_channel", turn=taken.turn, channel=name)
    return True
