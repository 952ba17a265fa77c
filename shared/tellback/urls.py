"""Addresses as they may be shown."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def without_secrets(url: str) -> str:
    """The URL with its password masked, for logs and terminals."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{place}"))
