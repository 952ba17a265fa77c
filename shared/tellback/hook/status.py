"""The status of this host's hooks: those that a settings file has, their last errors, and what waits for Redis."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tellback.hook.failure_log import NAME
from tellback.hook.installation import commands_in
from tellback.messaging.spool import spool_sizes
from tellback.messaging.team_cache import SPOOL


class HookStatus(NamedTuple):
    """The hooks of a settings file by event; `troubles` are the last lines of this host's log of failures."""

    settings: str
    commands: dict[str, str]
    troubles: list[str]
    spool_files: int


def hook_status(settings: Path, data: Path) -> HookStatus:
    """Return the status of the hooks in a settings file, on a host with this data directory.

    Raises:
        ConfigurationError: the file is not a valid settings file.
    """
    return HookStatus(
        str(settings), commands_in(settings), _last_lines(data / NAME), len(spool_sizes(str(data / SPOOL)))
    )


def _last_lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()[-5:]
    except FileNotFoundError:
        return []
    except OSError as error:  # such as that of another user
        return [f"can't read {error.filename}: {error.strerror}"]
