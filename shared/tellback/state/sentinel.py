"""A client of redis-py whose connections go to the primary that Sentinels name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from redis import connection as redis_connection
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelManagedSSLConnection

from tellback.urls import RedisServers


def primary_of(servers: RedisServers, options: Mapping[str, Any]) -> Any:
    """Return a client whose connections go to the primary that the Sentinels name at the time of connecting.

    Raises:
        ValueError: an option of the URL is wrong.
    """
    given = {name: value for name, value in _options_of(servers.url_of("-", 1)).items() if name not in ("host", "port")}
    sentinels = [_options_of(node) for node in servers.nodes]
    timeouts = {name: options[name] for name in ("socket_timeout", "socket_connect_timeout")}
    login = {name: value for name, value in sentinels[0].items() if name not in ("host", "port")}
    make = cast("Any", Sentinel)  # its signature is untyped
    manager: Any = make(
        [(node["host"], node["port"]) for node in sentinels],
        sentinel_kwargs={**login, **timeouts, "ssl": servers.scheme == "rediss", "retry": Retry(NoBackoff(), 0)},
    )
    if servers.scheme == "rediss":
        given["connection_class"] = SentinelManagedSSLConnection
    return manager.master_for(servers.master_name, **given, **options)


def _options_of(url: str) -> dict[str, Any]:
    """Return the options of a URL as arguments of a client, without the class of its connections."""
    parse = cast("Any", redis_connection).parse_url
    options: dict[str, Any] = parse(url)
    options.pop("connection_class", None)
    return options
