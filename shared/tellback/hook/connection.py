"""The choice of a hook's connection by the form of its URL."""

from __future__ import annotations

from tellback.hook.resp import RespConnection
from tellback.urls import names_several


def open_redis(url: str, deadline: float) -> RespConnection:
    """Connect to the Redis of a URL, the primary that Sentinel names, or a cluster.

    Raises:
        Unavailable: nobody can be reached in time, or the connection is refused.
        ConfigurationError: `url` is not the URL of a Redis.
    """
    if not names_several(url):
        return RespConnection(url, deadline)
    from tellback.hook.several_servers import open_several

    return open_several(url, deadline)
