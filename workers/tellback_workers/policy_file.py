"""The policy file of a worker: `TELLBACK_COMMAND_POLICY` names it; it is read when the worker starts."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec
from celery import signals
from msgspec import Meta

from tellback.commands.limits import NO_LIMITS, Limits
from tellback.errors import ConfigurationError
from tellback.settings import load


class PolicyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What commands may do on this host. What is absent is as without a file."""

    teams: list[str] | None = None
    """Teams whose commands run here; absent: every team that the worker serves."""
    directories: list[str] | None = None
    """Absolute directories to run in; the first is where a command runs that names none."""
    programs: list[str] | None = None
    """Absolute paths, or names that are looked up in the worker's PATH; absent: any program."""
    environment: list[str] | None = None
    """Variables that pass, of the worker and of the submission alike; absent: PATH, HOME, LANG and all submitted."""
    timeout: Annotated[float, Meta(gt=0)] | None = None
    """The longest `timeout`, in seconds, that a command may ask for."""
    limits: Limits = NO_LIMITS


@lru_cache(maxsize=1)
def read_policy(path: str) -> PolicyFile:
    """The file's policy; an empty path is no file.

    Raises:
        ConfigurationError: it cannot be read, or holds what no policy holds; the text names the place.
    """
    if not path:
        return PolicyFile()
    try:
        policy = msgspec.convert(tomllib.loads(Path(path).read_text("utf-8")), PolicyFile)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"TELLBACK_COMMAND_POLICY: {path}: {error}") from error
    if problem := _problem(policy):
        raise ConfigurationError(f"TELLBACK_COMMAND_POLICY: {path}: {problem}")
    return policy


def _problem(policy: PolicyFile) -> str | None:
    if policy.directories is not None and not policy.directories:
        return "directories is empty; name one, or leave it out for the worker's own"
    relative = [name for name in policy.directories or () if not Path(name).is_absolute()]
    relative += [name for name in policy.programs or () if "/" in name and not Path(name).is_absolute()]
    return f"{relative[0]} is not an absolute path" if relative else None


@signals.celeryd_init.connect
def _check(**_: object) -> None:
    """A worker whose policy cannot be read does not start: it would not know what to refuse."""
    try:
        read_policy(load().command_policy)
    except ConfigurationError as error:
        raise SystemExit(f"tellback: {error}") from error
