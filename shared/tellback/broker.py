"""The Celery configuration of broker and messages, shared by the apps of workers and beat."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, cast

from tellback.errors import ConfigurationError
from tellback.keepalive import keepalive_options
from tellback.names import SWEEPS_QUEUE
from tellback.settings import Settings
from tellback.tls_options import check_tls
from tellback.urls import SENTINEL, servers_of, socket_url_of_celery

KEY_PREFIX: Final = "tbq:"  # broker and state may share one Redis, so the broker's keys have a prefix of their own


@contextmanager
def exiting_on_wrong_settings() -> Generator[None]:
    """End this process with one line if a setting is wrong; Celery would print the traceback of an import."""
    try:
        yield
    except ConfigurationError as error:
        raise SystemExit(f"tellback: {error}") from None


def broker_config(settings: Settings) -> dict[str, Any]:
    """Return the broker and message settings; also install our transport, through which kombu reads the broker.

    Messages are JSON only: a pickled one could run code in a worker.
    """
    from tellback.broker_transport import install  # noqa: PLC0415 - it needs kombu, which hosts of agents lack

    install()
    try:
        check_tls(settings.broker)
    except ConfigurationError as error:
        raise ConfigurationError(f"TELLBACK_BROKER_URL: {error}") from None
    url, options, tls = _celery_url(settings.broker)
    return {
        "broker_url": url,
        **({"broker_use_ssl": tls} if tls else {}),
        "broker_transport_options": {
            **options,
            "global_keyprefix": KEY_PREFIX,
            "visibility_timeout": 900,  # longer than the hard limit of every task that must not start twice
            "unacked_restore_interval": 5,  # by default, redelivery takes 100 s more after the visibility timeout
            "unacked_restore_throttle": 1,
            "socket_timeout": 5,  # a worker's main process waits so long for each connection that fell silent
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "socket_keepalive_options": keepalive_options(),
            # kombu drops a connection on which no message comes after one to two of these and a second.
            "health_check_interval": 5,
        },
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,  # otherwise a full or read-only Redis ends the process
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "task_default_queue": SWEEPS_QUEUE,
        "task_create_missing_queues": True,
        "timezone": "UTC",
        "enable_utc": True,
    }


def _celery_url(url: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the URL, the transport options and the TLS options by which Celery reaches the Redis of this URL.

    A URL of Sentinel has options that kombu takes only beside it, and kombu has its own form for a socket file. Flower
    takes none for TLS from any URL: with `rediss://` it showed no queue unless a public authority vouched for the
    broker.
    """
    from redis import connection  # noqa: PLC0415 - as above
    from redis.backoff import NoBackoff  # noqa: PLC0415 - as above
    from redis.retry import Retry  # noqa: PLC0415 - as above

    servers = servers_of(url)
    parse: Any = cast("Any", connection).parse_url
    if servers is None:
        plain = socket_url_of_celery(url) if url.startswith("unix://") else url
        return plain, {}, _tls(parse(url)) if url.startswith("rediss:") else {}
    primary, sentinel = parse(servers.url_of("localhost", 1)), parse(servers.nodes[0])
    tls = _tls(primary)
    login = {name: sentinel[name] for name in ("username", "password") if name in sentinel}
    secure = {"ssl": True, **tls} if servers.scheme == "rediss" else {}
    places = (f"{SENTINEL}://{servers.login}{host}:{port}" for host, port in servers.addresses)
    # By default redis-py asks a Sentinel that is away four times, with delays, before the next one: each new connection
    # of a worker took four seconds after the host of the primary and of the first Sentinel in the URL had died.
    once = {"socket_timeout": 1.0, "socket_connect_timeout": 1.0, "retry": Retry(NoBackoff(), 0)}
    options = {
        "master_name": servers.master_name,
        "sentinel_kwargs": {**login, **secure, **once},
    }
    celery_url = ";".join(f"{place}/{primary.get('db', 0)}" for place in places)
    return celery_url, options, tls if secure else {}


def _tls(options: dict[str, Any]) -> dict[str, Any]:
    """Return the TLS options among those of a URL; never an empty dict, with which kombu would leave TLS off."""
    return {name: value for name, value in options.items() if name.startswith("ssl_")} or {"ssl_cert_reqs": "required"}
