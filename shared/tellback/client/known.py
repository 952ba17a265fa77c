"""What a host remembers of each Redis, so that it knows the team's shards and its own spool while Redis is away."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import msgspec

from tellback.errors import Unavailable
from tellback.log import get_logger
from tellback.messaging.spool import SpoolPlace
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.team import open_layout, team_id
from tellback.urls import without_secrets

WAS_MAX: Final = 5

_log = get_logger("tellback.client")


class _Known(msgspec.Struct, frozen=True):
    """A team as one Redis has it; `was` names it before that Redis lost its data."""

    shards: int
    id: str
    was: tuple[str, ...] = ()


def find_team(database: Database, settings: Settings) -> tuple[Layout, SpoolPlace]:
    """The team's layout, and where on this host facts for this Redis are spooled.

    While Redis is away: what it said last time; for one never reached, the setting, and a place named by its URL, which
    the next process to reach it empties.
    """
    url = without_secrets(settings.redis_url)
    unseen = f"url-{hashlib.sha256(url.encode()).hexdigest()[:16]}"
    path = settings.data_path / "teams" / settings.team / f"{unseen}.json"
    folder = settings.data_path / "spool" / settings.team
    known = _read(path)
    try:
        layout = open_layout(database, settings.team, settings.shards)
        fresh = _update(known, layout.shards, team_id(database, settings.team))
    except Unavailable:
        _log.warning("connect.redis_away", url=url)
        if known is None:
            return Layout(settings.team, settings.shards), SpoolPlace(folder, unseen)
        return Layout(settings.team, known.shards), SpoolPlace(folder, known.id, (unseen, *known.was))
    if fresh != known:
        _write(path, fresh)
    return layout, SpoolPlace(folder, fresh.id, (unseen, *fresh.was))


def _update(known: _Known | None, shards: int, id_: str) -> _Known:
    if known is None:
        return _Known(shards, id_)
    was = known.was if known.id == id_ else (known.id, *known.was)[:WAS_MAX]
    return _Known(shards, id_, was)


def _read(path: Path) -> _Known | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Known)
    except (OSError, msgspec.MsgspecError):
        return None


def _write(path: Path, known: _Known) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(msgspec.json.encode(known))
    except OSError as error:  # a host without a disk still works, save in an outage
        _log.debug("connect.team_not_kept", path=str(path), reason=str(error))
