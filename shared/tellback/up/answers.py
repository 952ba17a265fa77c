"""Whether each part of the system answers: Redis, workers, beat, Flower. Celery is not needed to ask."""

from __future__ import annotations

import contextlib
import http.client
from typing import Any, cast
from urllib.parse import urlsplit

import redis
from redis import exceptions

from tellback.errors import ConfigurationError, Unavailable
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.presence import Presence
from tellback.state.team import open_layout
from tellback.up.redis_server import OLDEST, parse_version
from tellback.urls import without_secrets

CONNECT_SECONDS = 3.0
HTTP_SECONDS = 2.0


def check_redis(url: str) -> str:
    """The version of the Redis at `url`.

    Raises:
        ConfigurationError: it does not answer, refuses the password, or is too old; one line, without the password.
    """
    shown = without_secrets(url)
    try:
        client: Any = cast("Any", redis.Redis).from_url(
            url, protocol=2, socket_connect_timeout=CONNECT_SECONDS, socket_timeout=CONNECT_SECONDS
        )
    except ValueError as error:
        raise ConfigurationError(f"{shown} is no address of a Redis: {error}") from error
    try:
        with contextlib.closing(client):
            release = str(client.info("server").get("redis_version", ""))
    except exceptions.RedisError as error:
        raise ConfigurationError(f"the Redis at {shown} does not answer: {error}") from error
    if parse_version(release) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ConfigurationError(f"the Redis at {shown} is of version {release}; Tellback needs {oldest} or newer")
    return release


def redis_answers(url: str) -> bool:
    """Whether a PING is answered; a Redis that loads its data does not answer yet."""
    try:
        with contextlib.closing(Database(url)) as database:
            return bool(database.command("PING"))
    except (Unavailable, exceptions.RedisError):
        return False


def http_answers(url: str) -> bool:
    """Whether Flower says that it is well."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=HTTP_SECONDS)
    try:
        with contextlib.closing(connection):
            connection.request("GET", "/healthcheck")
            return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False


class Roll:
    """Who has answered since the roll was opened: a worker by its pid, beat by what a worker did for it."""

    def __init__(self, settings: Settings) -> None:
        """Begin now, by the server's clock.

        Raises:
            Unavailable: Redis does not answer.
        """
        self._database = Database(settings.redis_url)
        layout = open_layout(self._database, settings.served_teams[0], settings.shards)
        self._presence = Presence(self._database, layout)
        self._since = self._database.now_ms()

    def workers(self) -> set[tuple[str, int]]:
        """Node name and main process of each worker that takes tasks."""
        with contextlib.suppress(Unavailable):
            return {(worker.name, worker.pid) for worker in self._presence.workers()}
        return set()

    def beat_heard(self) -> bool:
        """Whether a worker did what beat has sent, since the roll was opened."""
        with contextlib.suppress(Unavailable):
            return (self._presence.last_rung() or 0) >= self._since
        return False

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()
