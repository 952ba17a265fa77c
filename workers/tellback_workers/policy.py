"""What this host lets a command do: by default, run in the worker's working directory with a minimal environment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tellback.commands.runner import Execution
from tellback.contracts.commands import CommandSubmitted
from tellback.redaction import MIN_VALUE_CHARS
from tellback.settings import Settings
from tellback_workers.groups import groups_parent
from tellback_workers.policy_file import read_policy
from tellback_workers.team_policy import of_team

INHERITED: Final = ("PATH", "HOME", "LANG")


class Refused(Exception):
    """The policy forbids the command; the text becomes the record's error and names the rule."""

    def __init__(self, rule: str, reason: str) -> None:
        """Name the `rule`, and give the `reason` to a person."""
        super().__init__(f"refused by this host's policy, rule {rule}: {reason}")


class Policy:
    """The policy of one host for one team. Relative directories are below the first of those that are allowed."""

    def __init__(self, settings: Settings, team: str, environ: Mapping[str, str] = os.environ) -> None:
        """Take the settings, whose policy file is read, the team, and the worker's environment.

        Raises:
            ConfigurationError: the policy file cannot be used.
        """
        self._file = of_team(read_policy(settings.command_policy), team)
        named = self._file.directories or [root for root in settings.command_roots.split(os.pathsep) if root]
        self._roots = [Path(root).resolve() for root in named] or [Path.cwd().resolve()]
        self._secret_names = {name.strip() for name in settings.command_secret_env.split(",") if name.strip()}
        self._team = team
        self._grace = settings.command_grace
        self._environ = environ

    def secrets(self, submitted: CommandSubmitted) -> dict[str, str]:
        """The values of `secret_env` on this host.

        Raises:
            Refused: a name is not on the allow list, is not set here, or is too short to be kept out of a record.
        """
        found: dict[str, str] = {}
        for name in submitted.secret_env:
            if name not in self._secret_names:
                raise Refused("secret_env", f"{name} is not among the names that commands may use here")
            value = self._environ.get(name, "")
            if len(value) < MIN_VALUE_CHARS:
                raise Refused("secret_env", f"{name} is not set here, or shorter than {MIN_VALUE_CHARS} characters")
            found[name] = value
        return found

    def execution(self, submitted: CommandSubmitted, secrets: Mapping[str, str]) -> Execution:
        """What is to be run.

        Raises:
            Refused: the policy forbids it.
        """
        self._check_team()
        cwd = self._directory(submitted)
        env = self._environment(submitted) | dict(secrets)
        self._check_program(submitted.argv[0], cwd, env.get("PATH", os.defpath))
        longest = self._file.timeout
        if longest is not None and submitted.timeout > longest:
            raise self._refused("timeout", f"{submitted.timeout:g} s asked for, at most {longest:g} s are allowed here")
        return Execution(
            argv=submitted.argv,
            cwd=str(cwd),
            env=env,
            timeout=submitted.timeout,
            grace=self._grace,
            limits=self._file.limits,
            groups=groups_parent(),
        )

    def _refused(self, rule: str, reason: str) -> Refused:
        """A refusal that names the table, too, where the rule is the team's own."""
        return Refused(f"teams.{self._team}.{rule}" if rule in self._file.own else rule, reason)

    def _check_team(self) -> None:
        if self._file.teams is not None and self._team not in self._file.teams:
            raise Refused("teams", f"commands of team {self._team} do not run on this host")

    def _directory(self, submitted: CommandSubmitted) -> Path:
        cwd = (self._roots[0] / (submitted.cwd or "")).resolve()
        if not any(cwd.is_relative_to(root) for root in self._roots):
            raise self._refused("directories", f"{cwd} is outside of the directories that commands may run in")
        return cwd

    def _environment(self, submitted: CommandSubmitted) -> dict[str, str]:
        allowed = self._file.environment
        for name in submitted.env:
            if allowed is not None and name not in allowed:
                raise self._refused("environment", f"{name} is not among the names that pass to commands here")
        names = INHERITED if allowed is None else allowed
        return {name: self._environ[name] for name in names if name in self._environ} | submitted.env

    def _check_program(self, program: str, cwd: Path, path: str) -> None:
        """An allowed program is one file under one name: others that link to the same file may do other things."""
        if self._file.programs is None:
            return
        # The submission may set PATH, and what is relative in it counts from the command's directory.
        places = os.pathsep.join(str(cwd / place) for place in path.split(os.pathsep))
        found = str(cwd / program) if "/" in program else shutil.which(program, path=places)
        own_path = self._environ.get("PATH", os.defpath)
        allowed = {_identity(shutil.which(name, path=own_path)) for name in self._file.programs} - {None}
        if found is None or _identity(found) not in allowed:
            raise self._refused("programs", f"{program} is not among the programs that commands may run here")


def _identity(path: str | None) -> tuple[str, str] | None:
    """A program's name and the file behind it."""
    return None if path is None else (Path(path).name, str(Path(path).resolve()))
