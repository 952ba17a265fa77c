"""What a host's policy lets through, and what it refuses under which rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tellback import ConfigurationError, Settings
from tellback.commands.limits import NO_LIMITS, Limits
from tellback.commands.runner import Execution
from tellback.contracts.commands import CommandSubmitted
from tellback_workers.policy import Policy, Refused
from tellback_workers.policy_file import read_policy

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/home/w", "LANG": "C", "CI": "1", "TELLBACK_REDIS_URL": "redis://x"}


@pytest.fixture
def decide(tmp_path: Path) -> Callable[..., Execution]:
    """Decides on a command under the policy of this TOML text."""

    def decided(
        toml: str = "", argv: tuple[str, ...] = ("true",), team: str = "default", **fields: object
    ) -> Execution:
        path = tmp_path / "policy.toml"
        path.write_text(toml.replace("ROOT", str(tmp_path)))
        read_policy.cache_clear()
        given = {"type": "CommandSubmitted", "event_id": "1", "command_id": "1", "session": "s", "argv": argv} | fields
        submitted = msgspec.convert(given, CommandSubmitted)
        settings = Settings(command_policy=str(path) if toml else "", command_roots=str(tmp_path))
        return Policy(settings, team, ENVIRON).execution(submitted, {})

    return decided


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Programs and directories, with links between them."""
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for name in ("true", "tool"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "work" / "out").symlink_to("/")
    (tmp_path / "work" / "in").symlink_to(tmp_path / "work" / "sub")
    (tmp_path / "work" / "true").symlink_to("/bin/true")
    (tmp_path / "work" / "false").symlink_to("/bin/true")
    return tmp_path


def test_without_a_file(decide: Callable[..., Execution], tmp_path: Path) -> None:
    """The worker's directory, any program, a minimal environment, no limits."""
    execution = decide(env={"A": "b"})
    assert execution.cwd == str(tmp_path)
    assert execution.env == {"PATH": "/usr/bin:/bin", "HOME": "/home/w", "LANG": "C", "A": "b"}
    assert execution.limits == NO_LIMITS


ALLOWED: list[tuple[str, dict[str, object]]] = [
    ('teams = ["default"]', {}),
    ('directories = ["ROOT/work"]', {"cwd": "sub"}),
    ('directories = ["ROOT/work"]', {"cwd": "in"}),
    ('directories = ["ROOT/bin", "ROOT/work"]', {"cwd": "{root}/work/sub"}),
    ('programs = ["true"]', {}),
    ('programs = ["/bin/true"]', {}),
    ('programs = ["true"]', {"argv": ["./true"], "cwd": "work"}),
    ('programs = ["ROOT/bin/tool"]', {"argv": ["tool"], "env": {"PATH": "bin"}}),
    ('environment = ["CI", "PATH"]', {"env": {"CI": "2"}}),
    ("timeout = 30", {"timeout": 30.0}),
]


@pytest.mark.parametrize(("toml", "fields"), ALLOWED)
def test_what_is_allowed(decide: Callable[..., Execution], folder: Path, toml: str, fields: dict[str, object]) -> None:
    """Each rule lets through what it names, also over symbolic links that stay inside."""
    fields = {name: value.format(root=folder) if isinstance(value, str) else value for name, value in fields.items()}
    assert decide(toml, **fields).argv


REFUSED: list[tuple[str, str, dict[str, object]]] = [
    ("teams", 'teams = ["acme"]', {}),
    ("teams", "teams = []", {}),
    ("directories", 'directories = ["ROOT/work"]', {"cwd": ".."}),
    ("directories", 'directories = ["ROOT/work"]', {"cwd": "out/tmp"}),
    ("directories", 'directories = ["ROOT/work"]', {"cwd": "/"}),
    ("directories", 'directories = ["ROOT/wor"]', {"cwd": "../work"}),
    ("programs", 'programs = ["false"]', {}),
    ("programs", 'programs = ["true"]', {"argv": ["no-such-program"]}),
    ("programs", 'programs = ["true"]', {"argv": ["bin/true"]}),
    ("programs", 'programs = ["true"]', {"argv": ["./false"], "cwd": "work"}),
    ("programs", 'programs = ["true"]', {"env": {"PATH": "bin"}}),
    ("programs", "programs = []", {}),
    ("environment", 'environment = ["CI"]', {"env": {"LD_PRELOAD": "x.so"}}),
    ("timeout", "timeout = 30", {"timeout": 30.5}),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("rule", "toml", "fields"), REFUSED)
def test_what_is_refused(decide: Callable[..., Execution], rule: str, toml: str, fields: dict[str, object]) -> None:
    """The refusal names the rule."""
    with pytest.raises(Refused, match=f"refused by this host's policy, rule {rule}: "):
        decide(toml, **fields)


def test_the_environment_that_passes_is_what_is_named(decide: Callable[..., Execution]) -> None:
    """Nothing else of the worker's, so not its Redis."""
    assert decide('environment = ["CI", "PATH", "UNSET"]').env == {"CI": "1", "PATH": "/usr/bin:/bin"}


def test_limits_are_read(decide: Callable[..., Execution]) -> None:
    """As they stand in the file."""
    limits = decide("[limits]\nmemory = 1_073_741_824\nprocesses = 64\noutput = 1048576").limits
    assert limits == Limits(memory=1 << 30, processes=64, output=1 << 20)


@pytest.mark.parametrize(
    ("toml", "reason"),
    [
        ("teams = ", "Invalid value"),
        ("program = []", "unknown field `program`"),
        ("[limits]\nmemory = '1 GB'", "Expected `int | null`, got `str` - at `$.limits.memory`"),
        ("[limits]\nmemory = 1024", ">= 1048576"),
        ("[limits]\nfiles = 3", "unknown field `files`"),
        ("timeout = 0", "`$.timeout`"),
        ("directories = []", "directories is empty"),
        ("directories = ['srv']", "srv is not an absolute path"),
        ("programs = ['./x']", "./x is not an absolute path"),
    ],
)
def test_a_bad_file_is_an_error_that_names_it(decide: Callable[..., Execution], toml: str, reason: str) -> None:
    """One who mistypes a rule is not left without it."""
    with pytest.raises(ConfigurationError) as caught:
        decide(toml)
    assert str(caught.value).startswith("TELLBACK_COMMAND_POLICY: ")
    assert "policy.toml: " in str(caught.value)
    assert reason in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """So is one that is no text."""
    with pytest.raises(ConfigurationError, match="No such file"):
        read_policy(str(tmp_path / "none.toml"))
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="utf-8"):
        read_policy(str(tmp_path / "bytes"))
