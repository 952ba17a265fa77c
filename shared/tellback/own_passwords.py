"""The passwords in this process's own URLs of Redis, which no text that it captures may show.

Redaction looks for them as exact values. This module imports nothing, since hooks and settings fill it in processes
that may never redact.
"""

from __future__ import annotations

from typing import Final

MIN_CHARS: Final = 8  # shorter passwords are too common in ordinary text to be searched for

_found: set[str] = set()


def remember_passwords(*urls: str) -> None:
    """Add the passwords of the URLs, of a user or in a parameter, as written, decoded, and fully encoded."""
    for url in ";".join(urls).split(";"):  # a URL of Sentinel joins those of its servers by semicolons
        for written in _passwords_in(url):
            forms = {written}
            if not written.isalnum():
                from urllib.parse import quote, unquote  # noqa: PLC0415 - few passwords have such characters

                plain = unquote(written)
                forms |= {plain, quote(plain, safe=""), quote(plain, safe="").replace("%20", "+")}
            _found.update(form for form in forms if len(form) >= MIN_CHARS)


def own_passwords() -> tuple[str, ...]:
    """Return the passwords in each form in which a text may show them."""
    return tuple(_found)


def _passwords_in(url: str) -> list[str]:
    _, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    user, _, _ = rest.rpartition("@")
    found = [user.partition(":")[2]] if ":" in user else []
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if "password" in name:
            found.append(value)
    return found
