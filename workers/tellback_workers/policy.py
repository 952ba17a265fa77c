"""The check of a command against this host's policy.

Without a policy file a command may run any program, in the worker's working directory and with a minimal environment.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tellback.commands.resource_limits import refused_by_policy
from tellback.commands.runner import ExecutionSpec
from tellback.contracts.commands import DEFAULT_TIMEOUT, CommandSubmitted
from tellback.redaction import MIN_VALUE_CHARS
from tellback.settings import Settings
from tellback_workers.cgroup_parent import cgroup_parent
from tellback_workers.policy_file import of_team, read_policy

INHERITED: Final = ("PATH", "HOME", "LANG")


class Refused(Exception):
    """Raised when the policy forbids a command; the text names the rule and becomes the record's error."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(refused_by_policy(rule, reason))


class Policy:
    """The policy of one host for one team. A relative directory is resolved against the first allowed one."""

    def __init__(self, settings: Settings, team: str, environ: Mapping[str, str] = os.environ) -> None:
        """Read the policy file that the settings name.

        Raises:
            ConfigurationError: the policy file is invalid.
        """
        self._file = of_team(read_policy(settings.command_policy), team)
        named = self._file.directories or [root for root in settings.command_roots.split(os.pathsep) if root]
        self._roots = [Path(os.path.realpath(root)) for root in named or [str(Path.cwd())]]
        self._secret_names = {name.strip() for name in settings.command_secret_env.split(",") if name.strip()}
        self._is_default = not named
        self._policy_path = settings.command_policy
        self._team = team
        self._grace = settings.command_grace
        self._environ = environ

    def secrets(self, submitted: CommandSubmitted) -> dict[str, str]:
        """Return the values of the command's `secret_env` on this host.

        Raises:
            Refused: a name is not on the allow list or not set here, or its value is too short to be redacted.
        """
        found: dict[str, str] = {}
        for name in submitted.secret_env:
            if name not in self._secret_names:
                raise Refused("secret_env", f"{name} is not among the names in TELLBACK_COMMAND_SECRET_ENV")
            value = self._environ.get(name, "")
            if len(value) < MIN_VALUE_CHARS:
                raise Refused("secret_env", f"{name} is not set here, or shorter than {MIN_VALUE_CHARS} characters")
            found[name] = value
        return found

    def execution(self, submitted: CommandSubmitted, secrets: Mapping[str, str]) -> ExecutionSpec:
        """Return what to run for a submitted command.

        Raises:
            Refused: the policy forbids it.
        """
        if self._file.teams is not None and self._team not in self._file.teams:
            raise Refused("teams", f"commands of team {self._team} do not run on this host")
        cwd = self._directory(submitted)
        env = self._environment(submitted) | dict(secrets)
        return ExecutionSpec(
            argv=submitted.argv,
            executable=self._executable(submitted.argv[0], cwd, env.get("PATH", os.defpath)),
            cwd=str(cwd),
            env=env,
            timeout=self._timeout(submitted.timeout),
            grace=self._grace,
            limits=self._file.limits,
            groups=cgroup_parent(),
            real_cwd=True,
        )

    def _refused(self, rule: str, reason: str) -> Refused:
        """Return a refusal that also names the team's section if the rule is in it."""
        return Refused(f"teams.{self._team}.{rule}" if rule in self._file.own else rule, reason)

    def _timeout(self, asked: float) -> float:
        longest = self._file.timeout
        if longest is None or asked <= longest:
            return asked
        if asked == DEFAULT_TIMEOUT:  # nobody asked for it
            return longest
        raise self._refused("timeout", f"the command asks for {asked:g} s, and this host allows at most {longest:g} s")

    def _directory(self, submitted: CommandSubmitted) -> Path:
        # Resolved before the check, because `..` or a symbolic link may lead outside.
        named = self._roots[0] / (submitted.cwd or "")
        try:
            cwd = Path(os.path.realpath(named))
        except OSError as error:  # a link became a directory between two system calls
            raise self._refused("directories", f"{named} cannot be resolved: {error.strerror}") from error
        if _is_loop(named):
            raise self._refused("directories", f"the symbolic links of {named} form a loop")
        if not any(cwd.is_relative_to(root) for root in self._roots):
            raise self._refused("directories", f"{cwd} is outside of {self._places()}")
        return cwd

    def _places(self) -> str:
        """Name the directories that commands may run in, and the setting that says so."""
        named = ", ".join(map(str, self._roots))
        if self._file.directories:
            return f"{named}, which `directories` in {self._policy_path} allows (TELLBACK_COMMAND_POLICY)"
        if self._is_default:
            return f"{named}, the worker's own directory, since TELLBACK_COMMAND_ROOTS names no other"
        return f"{named}, which TELLBACK_COMMAND_ROOTS allows"

    def _environment(self, submitted: CommandSubmitted) -> dict[str, str]:
        allowed = self._file.environment
        for name in submitted.env:
            if allowed is not None and name not in allowed:
                raise self._refused("environment", f"{name} is not among the names that pass to commands here")
        names = INHERITED if allowed is None else allowed
        return {name: self._environ[name] for name in names if name in self._environ} | submitted.env

    def _executable(self, program: str, cwd: Path, path: str) -> str | None:
        """Return the policy's own path to the program: what the given path leads to may be swapped."""
        if self._file.programs is None:
            return None
        # The submission may set PATH, and relative parts of it are resolved against the command's directory.
        places = os.pathsep.join(str(cwd / place) for place in path.split(os.pathsep))
        found = str(cwd / program) if "/" in program else shutil.which(program, path=places)
        own_path = self._environ.get("PATH", os.defpath)
        named = (shutil.which(name, path=own_path) for name in self._file.programs)
        allowed = {_identity(place): str(Path(place).absolute()) for place in named if place is not None}
        if found is None or (own := allowed.get(_identity(found))) is None:
            raise self._refused("programs", f"{program} is not among the programs that commands may run here")
        return own


def _is_loop(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:  # a missing directory is the start's to explain
        return error.errno == errno.ELOOP
    return False


def _identity(path: str) -> tuple[str, str]:
    """Return a program's name and the file behind it, which must both match."""
    # The file alone is not enough: a multi-call binary such as busybox does different things under different names.
    return Path(path).name, os.path.realpath(path)
