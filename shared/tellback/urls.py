"""Parsing of Redis URLs, of one server or of several, and their form without the password."""

from __future__ import annotations

import re
from typing import Final, Literal

from tellback.errors import ConfigurationError
from tellback.light_struct import LightStruct

# The form of nearly all addresses. Only others need urllib.parse, an import that a short-lived process cannot afford.
_USUAL: Final = re.compile(
    r"(?P<scheme>rediss?)://(?:(?P<user>[\w.~-]*)(?::(?P<password>[\w.~-]*))?@)?"
    r"(?P<host>[a-zA-Z0-9.-]+)(?::(?P<port>\d{1,5}))?(?:/(?P<path>\d{0,9}))?"
)


_LAST_PORT: Final = 65_535
_LONGEST_LABEL: Final = 63


class Address:
    """The decoded parts of a URL; missing parts are empty."""

    __slots__ = ("host", "password", "path", "port", "query", "scheme", "user")

    def __init__(self, url: str) -> None:
        """Parse a URL.

        Raises:
            ValueError: it is not a URL.
        """
        self.query: dict[str, str] = {}
        if usual := _USUAL.fullmatch(url):
            scheme, user, password, self.host, port, self.path = usual.groups("")
            self.scheme, self.user, self.password = scheme, user, password
            self.port = int(port or 0)
            if self.port > _LAST_PORT:
                raise ValueError("the port is out of range")
            if not all(0 < len(label) <= _LONGEST_LABEL for label in self.host.removesuffix(".").split(".")):
                raise ValueError("a label of the host is empty or too long")
            return
        from urllib.parse import parse_qsl, unquote, urlsplit  # noqa: PLC0415 - see above

        parts = urlsplit(url)
        self.scheme, self.path, self.port = parts.scheme, unquote(parts.path), parts.port or 0
        self.user, self.password, self.host = (
            unquote(part or "") for part in (parts.username, parts.password, parts.hostname)
        )
        self.host.encode("idna")  # as `socket` will, whose error is none of a connection
        self.query = dict(parse_qsl(parts.query))


CLUSTER_SCHEMES: Final = {"redis+cluster": "redis", "rediss+cluster": "rediss"}

SENTINEL: Final = "sentinel"  # the scheme, and the form of the URL, that Celery has

SENTINEL_PORT: Final = 26379

_OF_SENTINELS: Final = ("master_name", "sentinel_username", "sentinel_password", "ssl")  # not of the Redis behind them


class RedisServers(LightStruct):
    """The servers that a URL of several names: nodes of a cluster, or Sentinels and the primary that they watch.

    `nodes` are URLs of one server each; `url_of` makes that of a Redis which they name.
    """

    kind: Literal["cluster", "sentinel"]
    nodes: tuple[str, ...]
    scheme: str
    login: str
    rest: str
    master_name: str = ""

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The host and port of each node."""
        return tuple((node.host, node.port) for node in map(Address, self.nodes))

    def url_of(self, host: str, port: int) -> str:
        """Return the URL of a Redis at this address, with the login and the options of all."""
        name = f"[{host}]" if ":" in host else host
        return f"{self.scheme}://{self.login}{name}:{port}{self.rest}"


def names_several(url: str) -> bool:
    """Check whether the URL has the scheme of a cluster or of Sentinel."""
    return url.partition("://")[0] in (SENTINEL, *CLUSTER_SCHEMES)


def servers_of(url: str) -> RedisServers | None:
    """Return the servers of `redis+cluster://h1:p1,h2:p2` or `sentinel://h1;sentinel://h2/0?master_name=NAME`.

    None is any other URL, which names one server.

    Raises:
        ValueError: a part is missing or wrong.
    """
    if not names_several(url):
        return None
    scheme, _, body = url.partition("://")
    body, sign, query = body.partition("?")
    body, slash, path = body.partition("/") if scheme != SENTINEL else _without_path(body)
    login, _, hosts = body.rpartition("@")
    login = f"{login}@" if login else ""
    if scheme != SENTINEL:
        if path.strip("/0"):
            raise ValueError("a cluster has database 0 only")
        scheme = CLUSTER_SCHEMES[scheme]
        nodes = tuple(f"{scheme}://{login}{host}{sign}{query}" for host in _with_port(hosts.split(","), 6379))
        return RedisServers("cluster", nodes, scheme, login, f"{sign}{query}")
    return _sentinels(login, hosts, f"{slash}{path}", query)


def check_database(url: str) -> str:
    """Return the URL of a Redis, after a look at its database: redis-py takes any word for 0, and a hook fails at it.

    Raises:
        ValueError: it is not a URL, or the database is not a number.
    """
    if url.partition("://")[0] in ("redis", "rediss") and not (Address(url).path.strip("/") or "0").isdecimal():
        raise ValueError("the database is not a number")
    return url


def _without_path(body: str) -> tuple[str, str, str]:
    """Split the path from `h1:p1;sentinel://h2:p2/0`, and leave only the first login; the others repeat it."""
    parts = [part.removeprefix(f"{SENTINEL}://").partition("/") for part in body.split(";")]
    login = next((f"{part.rpartition('@')[0]}@" for part, _, _ in parts if "@" in part), "")
    path = next((path for _, _, path in parts if path), "")
    return login + ";".join(part.rpartition("@")[2] for part, _, _ in parts), "/" if path else "", path


def _sentinels(login: str, hosts: str, path: str, query: str) -> RedisServers:
    from urllib.parse import parse_qsl, quote, urlencode  # noqa: PLC0415 - see above

    options = dict(parse_qsl(query))
    name = options.get("master_name", "")
    if not name:
        raise ValueError("?master_name= is missing")
    tls = {key: value for key, value in options.items() if key.startswith("ssl_")}
    scheme = "rediss" if tls or options.get("ssl", "").lower() in ("true", "1", "yes") else "redis"
    own = ":".join(quote(options.get(f"sentinel_{part}", ""), safe="") for part in ("username", "password"))
    own = f"{own}@" if own != ":" else ""
    shown = f"?{urlencode(tls)}" if tls else ""
    nodes = tuple(f"{scheme}://{own}{host}{shown}" for host in _with_port(hosts.split(";"), SENTINEL_PORT))
    rest = urlencode({key: value for key, value in options.items() if key not in _OF_SENTINELS})
    return RedisServers("sentinel", nodes, scheme, login, f"{path}?{rest}" if rest else path, name)


def _with_port(hosts: list[str], default: int) -> list[str]:
    if not all(Address(f"redis://{host}").host for host in hosts):
        raise ValueError("a host is missing")
    return [host if re.search(r":\d+$", host) else f"{host}:{default}" for host in hosts]


def with_login(url: str, user: str, password: str) -> str:
    """Return the URL with this login in place of any that it has; both parts need no percent-encoding."""
    scheme, separator, rest = re.sub(r"(?<=//)[^/@;,?]*@", "", url).partition("://")
    rest = re.sub(r"(?<=[?&])(?:username|password)=[^&]*&?", "", rest).rstrip("?&")
    return f"{scheme}{separator}{user}:{password}@{rest}"


_BROKER_SCHEMES: Final = ("redis", "rediss", "unix", SENTINEL)

_NOT_A_BROKER: Final = (
    "use redis://[user:password@]host:port/number, rediss://..., unix://path or "
    "sentinel://host:port;sentinel://host:port/number?master_name=NAME, with special characters of a password "
    "percent-encoded"
)


def check_broker(url: str, variable: str) -> str:
    """Return the URL of a broker; `variable` is the setting that an error names.

    Celery would retry some malformed URLs forever, and print the traceback of others, with a part of the password.

    Raises:
        ConfigurationError: Celery cannot use it, such as that of a Redis Cluster.
    """
    if url.partition("://")[0] in CLUSTER_SCHEMES:
        raise ConfigurationError(
            f"{variable}: Celery cannot use a Redis Cluster as its broker; set it to the URL of a plain Redis, or of "
            "one behind Sentinel"
        )
    try:
        _check_form_of_broker(url)
    except _UnusableBroker as fault:
        raise ConfigurationError(f"{variable}: {fault}: {_NOT_A_BROKER}") from None
    except ValueError:  # its message may contain part of the password
        raise ConfigurationError(f"{variable}: not the URL of a Redis: {_NOT_A_BROKER}") from None
    return url


class _UnusableBroker(ValueError):
    """A fault of a URL, in words that show no part of it that may be a password."""


def _check_form_of_broker(url: str) -> None:
    if url.partition("://")[0] not in _BROKER_SCHEMES or "#" in url:
        raise _UnusableBroker("not the URL of a Redis")
    if servers_of(url) is not None:
        return
    address = Address(url)
    is_file = address.scheme == "unix"
    if is_file and not address.path:
        raise _UnusableBroker("no path of a socket file")
    number = address.query.get("db", "") if is_file else address.path.removeprefix("/")
    if not (number or "0").isdecimal():
        raise _UnusableBroker("the database is not a number")
    known = ("db", "username", "password") if is_file else ("ssl_",)
    if unknown := next((name for name in address.query if not name.startswith(known)), ""):
        raise _UnusableBroker(f"Celery does not know the option {unknown[:40]}")


def socket_url_of_celery(url: str) -> str:
    """Return Celery's form of `unix://[user:password@]path?db=number`."""
    from urllib.parse import quote  # noqa: PLC0415 - see above

    address = Address(url)
    user, password = (
        quote(address.query.get(name, own), safe="")
        for name, own in (("username", address.user), ("password", address.password))
    )
    login = f"{user}:{password}@" if user or password else ""
    return f"redis+socket://{login}{quote(address.path)}?virtual_host={address.query.get('db') or 0}"


def without_secrets(url: str) -> str:
    """Return the URL with its password masked, for logs and terminals; of what is no URL, mask too much."""
    if "password=" in url:
        url = re.sub(r"(?<=[?&])((?:sentinel_|ssl_)?password=)[^&]*", r"\1***", url)
    if "@" not in url:
        return url
    if names_several(url):
        masked = re.sub(r"(?P<user>[^:@/;,?]*):[^@/;,?]*@", r"\g<user>:***@", url)
        return _mask_to_the_last_login(url) if re.search(r"(?<!:\*{3})@", masked) else masked
    if usual := _USUAL.fullmatch(url):
        start, end = usual.span("password")
        return f"{url[:start]}***{url[end:]}" if start >= 0 else url
    from urllib.parse import urlsplit, urlunsplit  # noqa: PLC0415 - see above

    try:
        parts = urlsplit(url)
    except ValueError:
        return _mask_to_the_last_login(url)
    if parts.password is None:  # or it has a character that ends this part of a URL
        return _mask_to_the_last_login(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{place}"))


def _mask_to_the_last_login(url: str) -> str:
    return re.sub(r"^((?:[^:/]*://)?[^:@]*):.*@", r"\1:***@", url, flags=re.DOTALL)
