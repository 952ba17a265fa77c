"""What a test left in Redis against what `tellback.state.keys` declares."""

from __future__ import annotations

from collections.abc import Iterator

from tellback.broker import KEY_PREFIX
from tellback.state.database import Database
from tellback.state.keys import FAMILIES, KeyFamily

_LENGTH = {"hash": "HLEN", "list": "LLEN", "set": "SCARD", "zset": "ZCARD", "stream": "XLEN", "vectorset": "VCARD"}


def undeclared(database: Database) -> list[str]:
    """A line for each key that no family declares, that lives longer than declared, or that is over its cap."""
    return [problem for key in _keys(database) if (problem := _problem(database, key))]


def _keys(database: Database) -> Iterator[str]:
    cursor: bytes | int = 0
    while True:
        cursor, keys = database.command("SCAN", cursor, "COUNT", 1000)
        yield from (key.decode() for key in keys if not key.startswith(KEY_PREFIX.encode()))  # those are Celery's
        if int(cursor) == 0:
            return


def _problem(database: Database, key: str) -> str | None:
    if not key.startswith("tb:{"):
        return f"{key}: not a key of ours"
    name = key.partition("}:")[2].partition(":")[0]
    family = FAMILIES.get(name)
    if family is None:
        return f"{key}: no family {name!r} is declared"
    kind = database.command("TYPE", key).decode()
    if kind == "none":  # it expired while we looked
        return None
    return _against(database, key, kind, family)


def _against(database: Database, key: str, kind: str, family: KeyFamily) -> str | None:
    if kind != family.type:
        return f"{key}: is a {kind}, declared a {family.type}"
    left = int(database.command("PTTL", key))
    if family.lifetime is not None and not 0 <= left <= family.lifetime * 1000:
        return f"{key}: lives {left} ms, declared {family.lifetime} s"
    if family.cap is not None and kind in _LENGTH:
        length = int(database.command(_LENGTH[kind], key))
        if length > family.cap:
            return f"{key}: holds {length}, declared at most {family.cap}"
    return None
