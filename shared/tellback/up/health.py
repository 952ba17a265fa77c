"""Health checks of Redis, workers, beat and Flower, without importing Celery."""

from __future__ import annotations

import contextlib
import http.client
from urllib.parse import urlsplit

from redis import exceptions

from tellback.errors import ConfigurationError, Unavailable
from tellback.settings import Settings
from tellback.state.database import NOT_A_URL, Database, connect_to
from tellback.state.presence import Presence, Worker
from tellback.state.unavailable import as_raised
from tellback.up.redis_server import MIN_VERSION, parse_version
from tellback.urls import without_secrets

CONNECT_SECONDS = 3.0
HTTP_SECONDS = 2.0


def check_redis(url: str) -> str:
    """Return the version of the Redis at `url`.

    Raises:
        ConfigurationError: Redis doesn't answer, refuses the password, is too old or a replica; one line, without the
            password.
    """
    shown = without_secrets(url)
    try:
        connections = connect_to(url, call_deadline=CONNECT_SECONDS)
    except (ValueError, TypeError):  # its message may contain part of the password
        raise ConfigurationError(f"{shown} is {NOT_A_URL}") from None
    try:
        with contextlib.closing(connections):
            info: bytes = connections.run(("INFO", "server"))
            role: bytes = connections.run(("INFO", "replication"))
    except exceptions.NoPermissionError as error:
        raise ConfigurationError(f"Redis at {shown} refuses a call to this user: {error}") from error
    except exceptions.RedisError as error:
        raised = as_raised(error, url)
        said = f"can't reach Redis at {shown}: {error}" if raised is error else str(raised)
        raise ConfigurationError(said) from error
    release = next((line[14:].decode() for line in info.splitlines() if line.startswith(b"redis_version:")), "")
    if parse_version(release) < MIN_VERSION:
        oldest = ".".join(map(str, MIN_VERSION))
        raise ConfigurationError(f"Redis at {shown} is version {release}; Tellback requires {oldest} or newer")
    if b"slave_read_only:1" in role:
        raise ConfigurationError(f"Redis at {shown} is a read-only replica; name its primary, or its Sentinels")
    return release


def redis_answers(url: str) -> bool:
    """Return True if Redis answers a PING; while it loads its data, it refuses."""
    try:
        with contextlib.closing(Database(url)) as database:
            return bool(database.command("PING"))
    except (Unavailable, exceptions.RedisError):
        return False


def flower_is_healthy(url: str) -> bool:
    """Return True if Flower's health check succeeds."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=HTTP_SECONDS)
    try:
        with contextlib.closing(connection):
            connection.request("GET", "/healthcheck")
            return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False


class ReadinessProbe:
    """The processes that reported since the probe began: workers by pid, beat by the tasks that workers ran for it.

    Pids tell a worker that was just started from one of an earlier run whose presence has not expired yet.
    """

    def __init__(self, settings: Settings) -> None:
        """Begin now, by the server's clock.

        Raises:
            Unavailable: Redis can't be reached.
        """
        self._database = Database(settings.redis_url)
        self._presence = Presence(self._database, settings.team)
        self._since = self._database.now_ms()

    def ready_workers(self) -> set[tuple[str, int]]:
        """Return the node name and main process id of each worker that takes tasks and loads no model at present."""
        return {(worker.name, worker.pid) for worker in self._workers() if worker.preload != "loading"}

    def without_model(self) -> set[tuple[str, int]]:
        """Return those whose embedding model did not load."""
        return {(worker.name, worker.pid) for worker in self._workers() if worker.preload == "failed"}

    def _workers(self) -> list[Worker]:
        with contextlib.suppress(Unavailable):
            return self._presence.all_workers()
        return []

    def beat_ran(self) -> bool:
        """Return True if a worker ran a task from beat since the probe began."""
        with contextlib.suppress(Unavailable):
            return (self._presence.last_beat() or 0) >= self._since
        return False

    def close(self) -> None:
        """Close the connections."""
        self._database.close()
