"""The command line in this process, on the Redis of a test."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from tellback import Settings
from tellback.cli.app import app


def run(settings: Settings, *arguments: str, columns: int = 250, stdin: bytes | None = None) -> Result:
    """Run a command on a terminal of this width."""
    given = [*arguments, "--redis-url", settings.redis_url]
    return CliRunner().invoke(app, given, input=stdin, env={"COLUMNS": str(columns)})


def printed(settings: Settings, *arguments: str, code: int = 0) -> str:
    """Return the output of a command that exits with this code."""
    done = run(settings, *arguments)
    assert done.exit_code == code, done.output
    return done.output


def teams(settings: Settings, *arguments: str) -> tuple[int, str]:
    """Return the exit code and the output of a command of `tellback teams`."""
    environment = {"TELLBACK_REDIS_URL": settings.redis_url, "TELLBACK_DATA_DIR": settings.data_dir}
    result = CliRunner().invoke(app, ["teams", *arguments], env=environment)
    return result.exit_code, result.output


def rows(settings: Settings, *arguments: str) -> list[dict[str, Any]]:
    """Return what a listing prints as JSON."""
    return rows_of(run(settings, *arguments, "--json"))


def rows_of(result: Result) -> list[dict[str, Any]]:
    """Return the lines of JSON that a command printed, which succeeded."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
