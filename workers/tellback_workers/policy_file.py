"""The policy file of a worker: `TELLBACK_COMMAND_POLICY` names it; it is read when the worker starts.

`[teams.NAME]` holds what is different for one team: what it sets takes the place of the same line above, and its
`more_...` are added to that.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from celery import signals
from msgspec import Meta

from tellback.commands.limits import NO_LIMITS, Limits
from tellback.errors import ConfigurationError
from tellback.names import TEAM_PATTERN
from tellback.settings import load

Seconds = Annotated[float, Meta(gt=0)]
_S = TypeVar("_S", bound=msgspec.Struct)
_PLACE: Final = re.compile(r" - at `\$\.?(?P<field>[^`]*)`$")


class TeamSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is different for one team. What is absent is as for all."""

    directories: list[str] | None = None
    programs: list[str] | None = None
    environment: list[str] | None = None
    more_directories: list[str] = []
    """Beside those for all; the first of those for all stays where a command runs that names none."""
    more_programs: list[str] = []
    more_environment: list[str] = []
    timeout: Seconds | None = None
    limits: Limits = NO_LIMITS
    """Each one that is set takes the place of the same one for all."""


class PolicyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What commands may do on this host. What is absent is as without a file."""

    teams: list[str] | None = None
    """Teams whose commands run here; absent: every team that the worker serves."""
    allowed_teams: list[str] | None = None
    """The same, for a file in which `teams` holds sections."""
    directories: list[str] | None = None
    """Absolute directories to run in; the first is where a command runs that names none."""
    programs: list[str] | None = None
    """Absolute paths, or names that are looked up in the worker's PATH; absent: any program."""
    environment: list[str] | None = None
    """Variables that pass, of the worker and of the submission alike; absent: PATH, HOME, LANG and all submitted."""
    timeout: Seconds | None = None
    """The longest `timeout`, in seconds, that a command may ask for."""
    limits: Limits = NO_LIMITS
    sections: dict[str, TeamSection] = {}
    """By team; in the file they stand as `[teams.NAME]`."""


@lru_cache(maxsize=1)
def read_policy(path: str) -> PolicyFile:
    """The file's policy; an empty path is no file.

    Raises:
        ConfigurationError: it cannot be read, or holds what no policy holds; the text names file, table and field.
    """
    if not path:
        return PolicyFile()
    try:
        return _policy(tomllib.loads(Path(path).read_text("utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, _Wrong) as error:
        raise ConfigurationError(f"TELLBACK_COMMAND_POLICY: {path}: {error}") from error


class _Wrong(Exception):
    """What is wrong, with its table and field."""


def _policy(data: dict[str, Any]) -> PolicyFile:
    if "sections" in data:
        raise _Wrong("unknown field `sections`; write [teams.NAME]")
    teams: object = data.get("teams")
    if not isinstance(teams, dict):
        return _checked(_read(data, PolicyFile, ""), "")
    sections: dict[str, TeamSection] = {}
    for name, table in cast("dict[str, object]", teams).items():
        where = f"[teams.{name}]: "
        if not TEAM_PATTERN.fullmatch(name):
            raise _Wrong(f"{where}a team's name is small letters, digits and -, at most 64")
        sections[name] = _checked(_read(table, TeamSection, where), where)
    policy = _checked(_read({key: value for key, value in data.items() if key != "teams"}, PolicyFile, ""), "")
    for name, section in sections.items():
        _check_more(f"[teams.{name}]: ", policy, section)
    if unused := sorted(set(sections) - set(sections if policy.teams is None else policy.teams)):
        raise _Wrong(f"[teams.{unused[0]}]: the team is not among allowed_teams, so none of this is ever used")
    return msgspec.structs.replace(policy, sections=sections)


def _check_more(where: str, policy: PolicyFile, section: TeamSection) -> None:
    """What is added needs something that it is added to: without a list, any program or variable passes already."""
    for rule in ("directories", "programs", "environment"):
        more, own, for_all = (
            getattr(each, name) for each, name in ((section, f"more_{rule}"), (section, rule), (policy, rule))
        )
        if more and own is None and for_all is None:
            raise _Wrong(f"{where}more_{rule}: the file has no {rule} for all to add to; write {rule}")


def _read(table: object, kind: type[_S], where: str) -> _S:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        place = _PLACE.search(text)
        if place is None:
            raise _Wrong(f"{where}{text}") from error
        named = f"{place['field']}: " if place["field"] else ""
        raise _Wrong(f"{where}{named}{text[: place.start()]}") from error


def _checked(section: _S, where: str) -> _S:
    """The section, if its lists say what they can mean."""
    given = msgspec.structs.asdict(section)
    if given["directories"] == []:
        raise _Wrong(f"{where}directories is empty; name one, or leave it out for the worker's own")
    if given.get("teams") is not None and given.get("allowed_teams") is not None:
        raise _Wrong("teams and allowed_teams say the same; leave one out")
    for field in ("directories", "more_directories", "programs", "more_programs"):
        for name in given.get(field) or ():
            if not Path(name).is_absolute() and ("/" in name or field.endswith("directories")):
                raise _Wrong(f"{where}{field}: {name} is not an absolute path")
    if isinstance(section, PolicyFile) and section.teams is None and section.allowed_teams is not None:
        return msgspec.structs.replace(section, teams=section.allowed_teams)
    return section


@signals.celeryd_init.connect
def _check(**_: object) -> None:
    """A worker whose policy cannot be read does not start: it would not know what to refuse."""
    try:
        read_policy(load().command_policy)
    except ConfigurationError as error:
        raise SystemExit(f"tellback: {error}") from error
