"""Addresses of Redis: taken apart, and as they may be shown."""

from __future__ import annotations

import re
from typing import Final

# What nearly all addresses look like; taking apart any other costs an import that a short-lived process can do without.
_USUAL: Final = re.compile(
    r"(?P<scheme>rediss?)://(?:(?P<user>[\w.~-]*)(?::(?P<password>[\w.~-]*))?@)?"
    r"(?P<host>[a-zA-Z0-9.-]+)(?::(?P<port>\d{1,5}))?(?:/(?P<path>\d{0,9}))?"
)


class Address:
    """The parts of a URL, decoded; those that it lacks are empty."""

    __slots__ = ("host", "password", "path", "port", "query", "scheme", "user")

    def __init__(self, url: str) -> None:
        """Take a URL apart.

        Raises:
            ValueError: it is none.
        """
        self.query: dict[str, str] = {}
        if usual := _USUAL.fullmatch(url):
            scheme, user, password, self.host, port, self.path = usual.groups("")
            self.scheme, self.user, self.password = scheme, user, password
            self.port = int(port or 0)
            return
        from urllib.parse import parse_qsl, unquote, urlsplit  # noqa: PLC0415 - see above

        parts = urlsplit(url)
        self.scheme, self.path, self.port = parts.scheme, unquote(parts.path), parts.port or 0
        self.user, self.password, self.host = (
            unquote(part or "") for part in (parts.username, parts.password, parts.hostname)
        )
        self.query = dict(parse_qsl(parts.query))


def without_secrets(url: str) -> str:
    """The URL with its password masked, for logs and terminals."""
    if "@" not in url:
        return url
    if usual := _USUAL.fullmatch(url):
        start, end = usual.span("password")
        return f"{url[:start]}***{url[end:]}" if start >= 0 else url
    from urllib.parse import urlsplit, urlunsplit  # noqa: PLC0415 - see above

    parts = urlsplit(url)
    if parts.password is None:
        return url
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{place}"))
