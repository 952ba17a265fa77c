"""The policy file of a worker, which `TELLBACK_COMMAND_POLICY` names, and the policy of each team in it.

The worker reads the file once, at its start. A section `[teams.NAME]` overrides the general rules for one team, and its
`more_...` lists add to them. A file that cannot be read stops the worker: it would not know what to refuse.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from celery import signals
from msgspec import Meta

from tellback.commands.resource_limits import NO_LIMITS, CommandLimits
from tellback.errors import ConfigurationError
from tellback.names import TEAM_PATTERN
from tellback.settings import load

Seconds = Annotated[float, Meta(gt=0)]

_S = TypeVar("_S", bound=msgspec.Struct)

# msgspec ends its messages with "- at `$.limits.memory`"; the errors here name the field first.
_PLACE: Final = re.compile(r" - at `\$\.?(?P<field>[^`]*)`$")


class TeamSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of one team; an absent one is inherited from the general rules."""

    directories: list[str] | None = None
    programs: list[str] | None = None
    environment: list[str] | None = None
    more_directories: list[str] = []
    """Added to the general directories; the first general one stays the default for a command without `cwd`."""
    more_programs: list[str] = []
    more_environment: list[str] = []
    timeout: Seconds | None = None
    limits: CommandLimits = NO_LIMITS
    """Each limit that is set overrides the same general limit."""


class PolicyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules for commands on this host; an absent one restricts nothing, or keeps the default."""

    teams: list[str] | None = None
    """Teams whose commands run here; absent: every team that the worker serves."""
    allowed_teams: list[str] | None = None
    """The same list, for a file in which `teams` holds sections."""
    directories: list[str] | None = None
    """Absolute directories to run in; the first one is the default for a command without `cwd`."""
    programs: list[str] | None = None
    """Absolute paths, or names to look up in the worker's PATH; absent: any program."""
    environment: list[str] | None = None
    """Variables that a command may get from the worker or the submission; absent: PATH, HOME, LANG, all submitted."""
    timeout: Seconds | None = None
    """The longest `timeout`, in seconds, that a command may ask for; it also caps the default."""
    limits: CommandLimits = NO_LIMITS
    sections: dict[str, TeamSection] = {}
    """The sections `[teams.NAME]` of the file, by team."""


@lru_cache(maxsize=1)
def read_policy(path: str) -> PolicyFile:
    """Read the policy file at `path`; an empty path means that there is none.

    Raises:
        ConfigurationError: the file cannot be read or is invalid; the text names file, table and field.
    """
    if not path:
        return PolicyFile()
    try:
        return _policy(tomllib.loads(Path(path).read_text("utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError, _Wrong) as error:
        raise ConfigurationError(f"TELLBACK_COMMAND_POLICY: {path}: {error}") from error


class _Wrong(Exception):
    """An error in the policy file; the text names table and field."""


def _policy(data: dict[str, Any]) -> PolicyFile:
    if "sections" in data:  # a field of the type, which the file must not set directly
        raise _Wrong("unknown field `sections`; write [teams.NAME]")
    # TOML cannot hold both a list `teams` and tables `[teams.NAME]`; hence `allowed_teams`.
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
    """Refuse a `more_...` list that has no list to add to."""
    # Without such a list every program or variable passes, so the addition would suggest a restriction that is absent.
    for rule in ("directories", "programs", "environment"):
        more, own, for_all = (
            getattr(each, name) for each, name in ((section, f"more_{rule}"), (section, rule), (policy, rule))
        )
        if more and own is None and for_all is None:
            raise _Wrong(f"{where}more_{rule} extends {rule}, which the file doesn't set for everyone; write {rule}")


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
    """Return the section if its lists are consistent."""
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
    try:
        read_policy(load().command_policy)
    except ConfigurationError as error:
        raise SystemExit(f"tellback: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPolicy:
    """The rules that hold for one team; `own` names those that its section sets or adds to."""

    teams: list[str] | None
    directories: list[str] | None
    programs: list[str] | None
    environment: list[str] | None
    timeout: float | None
    limits: CommandLimits
    own: frozenset[str]


def of_team(file: PolicyFile, team: str) -> TeamPolicy:
    """Return the rules of a file for one team."""
    section = file.sections.get(team, TeamSection())
    limits = {name: limit for name, limit in msgspec.structs.asdict(section.limits).items() if limit is not None}
    set_here = {
        "directories": section.directories is not None or bool(section.more_directories),
        "programs": section.programs is not None or bool(section.more_programs),
        "environment": section.environment is not None or bool(section.more_environment),
        "timeout": section.timeout is not None,
    }
    return TeamPolicy(
        teams=file.teams,
        directories=_names(file.directories, section.directories, section.more_directories),
        programs=_names(file.programs, section.programs, section.more_programs),
        environment=_names(file.environment, section.environment, section.more_environment),
        timeout=file.timeout if section.timeout is None else section.timeout,
        limits=msgspec.structs.replace(file.limits, **limits),  # one by one: the team's section may set only some
        own=frozenset(rule for rule, is_set in set_here.items() if is_set),
    )


def _names(for_all: list[str] | None, own: list[str] | None, more: list[str]) -> list[str] | None:
    base = for_all if own is None else own
    return base if base is None else [*base, *more]
