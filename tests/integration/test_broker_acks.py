"""A connection to the broker is cut while messages are acknowledged: the worker continues to take messages."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from tellback.broker import KEY_PREFIX
from tellback.broker_transport import BROKER_ERRORS
from tellback.names import Task
from tellback.state.database import Database
from tests.support.link import Link
from tests.support.redis_server import RedisServer

HELD = 2  # by a worker of as many processes


@pytest.mark.parametrize("how", ["ack", "reject"])
def test_a_message_whose_acknowledgement_fails_takes_no_place(
    app: Celery, database: Database, redis_server: RedisServer, how: str
) -> None:
    with Link(redis_server.port) as link:
        for _ in range(HELD + 1):
            app.send_task(Task.VISIT_TEAMS, queue="scratch", ignore_result=True)
        with app.connection(link.url) as held:
            connection: Any = held  # kombu's stubs know only what all transports share
            channel = connection.default_channel
            channel.basic_qos(prefetch_count=HELD)
            messages = [channel.basic_get("scratch") for _ in range(HELD)]
            assert not channel.qos.can_consume()
            link.losing = True
            for message in messages:
                with pytest.raises(BROKER_ERRORS):
                    getattr(message, how)()
            link.losing = False
            assert channel.qos.can_consume()
            assert channel.basic_get("scratch") is not None
    database.command("DEL", *database.command("KEYS", f"{KEY_PREFIX}*"))
