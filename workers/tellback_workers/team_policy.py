"""The policy of one team: what the file says for all, with what it says for this team laid over it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tellback.commands.limits import Limits
from tellback_workers.policy_file import PolicyFile, TeamSection


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPolicy:
    """As in `PolicyFile`; `own` are the rules that the team's own section sets or adds to."""

    teams: list[str] | None
    directories: list[str] | None
    programs: list[str] | None
    environment: list[str] | None
    timeout: float | None
    limits: Limits
    own: frozenset[str]


def of_team(file: PolicyFile, team: str) -> TeamPolicy:
    """The policy of a file for one team."""
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
        limits=msgspec.structs.replace(file.limits, **limits),
        own=frozenset(rule for rule, is_set in set_here.items() if is_set),
    )


def _names(for_all: list[str] | None, own: list[str] | None, more: list[str]) -> list[str] | None:
    base = for_all if own is None else own
    return base if base is None else [*base, *more]
