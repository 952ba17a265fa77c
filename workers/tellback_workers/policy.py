"""What this host lets a command do: by default, run in the worker's working directory with a minimal environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tellback.commands.runner import Execution
from tellback.contracts.commands import CommandSubmitted
from tellback.redaction import MIN_VALUE_CHARS
from tellback.settings import Settings

INHERITED: Final = ("PATH", "HOME", "LANG")


class Refused(Exception):
    """The policy forbids the command; the text becomes the record's error and names the rule."""

    def __init__(self, rule: str, reason: str) -> None:
        """Name the `rule`, and give the `reason` to a person."""
        super().__init__(f"refused by this host's policy, rule {rule}: {reason}")


class Policy:
    """The policy of one host. Relative directories are below the first of those that are allowed."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] = os.environ) -> None:
        """Take the settings and the worker's environment."""
        self._base = Path.cwd().resolve()
        self._roots = [Path(root).resolve() for root in settings.command_roots.split(os.pathsep) if root] or [
            self._base
        ]
        self._secret_names = {name.strip() for name in settings.command_secret_env.split(",") if name.strip()}
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
            Refused: the directory, with symbolic links resolved, is outside of those that are allowed.
        """
        cwd = (self._roots[0] / (submitted.cwd or "")).resolve()
        if not any(cwd.is_relative_to(root) for root in self._roots):
            raise Refused("directories", f"{cwd} is outside of the directories that commands may run in")
        inherited = {name: self._environ[name] for name in INHERITED if name in self._environ}
        return Execution(
            argv=submitted.argv,
            cwd=str(cwd),
            env=inherited | submitted.env | dict(secrets),
            timeout=submitted.timeout,
            grace=self._grace,
        )
