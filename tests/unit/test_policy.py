"""Commands that a host's policy allows, and those that it refuses under which rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tellback import ConfigurationError, Settings
from tellback.commands.resource_limits import NO_LIMITS, CommandLimits
from tellback.commands.runner import ExecutionSpec
from tellback.contracts.commands import CommandSubmitted
from tellback_workers.policy import Policy, Refused
from tellback_workers.policy_file import read_policy

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/home/w", "LANG": "C", "CI": "1", "TELLBACK_REDIS_URL": "redis://x"}


@pytest.fixture
def decide(tmp_path: Path) -> Callable[..., ExecutionSpec]:
    """Decides on a command under the policy of this TOML text."""

    def decided(
        toml: str = "", argv: tuple[str, ...] = ("true",), team: str = "default", **fields: object
    ) -> ExecutionSpec:
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
    (tmp_path / "shop" / "sub").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for name in ("true", "tool"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "shop" / "out").symlink_to("/")
    (tmp_path / "shop" / "in").symlink_to(tmp_path / "shop" / "sub")
    (tmp_path / "shop" / "true").symlink_to("/bin/true")
    (tmp_path / "shop" / "false").symlink_to("/bin/true")
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


def test_without_a_file(decide: Callable[..., ExecutionSpec], tmp_path: Path) -> None:
    """Commands get the worker's directory, any program, a minimal environment and no limits."""
    execution = decide(env={"A": "b"})
    assert execution.cwd == str(tmp_path)
    assert execution.env == {"PATH": "/usr/bin:/bin", "HOME": "/home/w", "LANG": "C", "A": "b"}
    assert execution.limits == NO_LIMITS


ALLOWED: list[tuple[str, dict[str, object]]] = [
    ('teams = ["default"]', {}),
    ('directories = ["ROOT/shop"]', {"cwd": "sub"}),
    ('directories = ["ROOT/shop"]', {"cwd": "in"}),
    ('directories = ["ROOT/bin", "ROOT/shop"]', {"cwd": "{root}/shop/sub"}),
    ('programs = ["true"]', {}),
    ('programs = ["/bin/true"]', {}),
    ('programs = ["true"]', {"argv": ["./true"], "cwd": "shop"}),
    ('programs = ["ROOT/bin/tool"]', {"argv": ["tool"], "env": {"PATH": "bin"}}),
    ('environment = ["CI", "PATH"]', {"env": {"CI": "2"}}),
    ("timeout = 30", {"timeout": 30.0}),
    ("timeout = 10", {}),
]


@pytest.mark.parametrize(("toml", "fields"), ALLOWED)
def test_what_is_allowed(
    decide: Callable[..., ExecutionSpec], folder: Path, toml: str, fields: dict[str, object]
) -> None:
    """Each rule lets through what it names, also over symbolic links that stay inside."""
    fields = {name: value.format(root=folder) if isinstance(value, str) else value for name, value in fields.items()}
    assert decide(toml, **fields).argv


REFUSED: list[tuple[str, str, dict[str, object]]] = [
    ("teams", 'teams = ["acme"]', {}),
    ("teams", "teams = []", {}),
    ("directories", 'directories = ["ROOT/shop"]', {"cwd": ".."}),
    ("directories", 'directories = ["ROOT/shop"]', {"cwd": "out/tmp"}),
    ("directories", 'directories = ["ROOT/shop"]', {"cwd": "/"}),
    ("directories", 'directories = ["ROOT/sho"]', {"cwd": "../shop"}),
    ("programs", 'programs = ["false"]', {}),
    ("programs", 'programs = ["true"]', {"argv": ["no-such-program"]}),
    ("programs", 'programs = ["true"]', {"argv": ["bin/true"]}),
    ("programs", 'programs = ["true"]', {"argv": ["./false"], "cwd": "shop"}),
    ("programs", 'programs = ["true"]', {"env": {"PATH": "bin"}}),
    ("programs", "programs = []", {}),
    ("environment", 'environment = ["CI"]', {"env": {"LD_PRELOAD": "x.so"}}),
    ("timeout", "timeout = 30", {"timeout": 30.5}),
    ("directories", "", {"cwd": "loop"}),
    ("directories", "", {"cwd": "loop/below"}),
    ("programs", 'programs = ["true"]', {"argv": ["./loop"]}),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("rule", "toml", "fields"), REFUSED)
def test_what_is_refused(decide: Callable[..., ExecutionSpec], rule: str, toml: str, fields: dict[str, object]) -> None:
    """The refusal names the rule."""
    with pytest.raises(Refused, match=f"refused by this host's policy, rule {rule}: "):
        decide(toml, **fields)


def test_the_environment_that_passes_is_what_is_named(decide: Callable[..., ExecutionSpec]) -> None:
    """Nothing else of the worker's passes, so its Redis does not."""
    assert decide('environment = ["CI", "PATH", "UNSET"]').env == {"CI": "1", "PATH": "/usr/bin:/bin"}


def test_the_longest_time_caps_the_default(decide: Callable[..., ExecutionSpec]) -> None:
    """One who asked for no time is not refused; one who asked for less gets that."""
    assert decide("timeout = 10").timeout == 10
    assert decide("timeout = 10", timeout=5.0).timeout == 5
    assert decide("timeout = 60").timeout == 30


def test_limits_are_read(decide: Callable[..., ExecutionSpec]) -> None:
    """Limits have the values of the file, with or without underscores."""
    limits = decide("[limits]\nmemory = 1_073_741_824\nprocesses = 64\noutput = 1048576").limits
    assert limits == CommandLimits(memory=1 << 30, processes=64, output=1 << 20)


@pytest.mark.parametrize(
    ("toml", "reason"),
    [
        ("teams = ", "Invalid value"),
        ("program = []", "unknown field `program`"),
        ("[limits]\nmemory = '1 GB'", "limits.memory: Expected `int | null`, got `str`"),
        ("[limits]\nmemory = 1024", ">= 1048576"),
        (f"[limits]\ncpu = {1 << 63}", "limits.cpu: Expected `int` <= 9223372036854775807"),  # no command would start
        ("teams = " + "[" * 5_000, "maximum recursion depth"),
        ("[limits]\nfiles = 3", "unknown field `files`"),
        ("timeout = 0", "timeout: Expected `float` > 0.0"),
        ("directories = []", "directories is empty"),
        ("directories = ['srv']", "srv is not an absolute path"),
        ("programs = ['./x']", "./x is not an absolute path"),
        ("sections = {}", "unknown field `sections`"),
        ("teams = ['a']\nallowed_teams = ['a']", "teams and allowed_teams say the same"),
        ("[teams.acme]\nprogram = []", "[teams.acme]: Object contains unknown field `program`"),
        ("[teams.acme.limits]\nmemory = 1", "[teams.acme]: limits.memory: Expected `int` >= 1048576"),
        ("[teams.acme]\ntimeout = 0", "[teams.acme]: timeout: Expected `float` > 0.0"),
        ("[teams.acme]\nteams = ['b']", "[teams.acme]: Object contains unknown field `teams`"),
        ("[teams.acme]\ndirectories = []", "[teams.acme]: directories is empty"),
        ("[teams.acme]\nprograms = ['./x']", "[teams.acme]: programs: ./x is not an absolute path"),
        ("[teams.acme]\nmore_directories = ['x']", "[teams.acme]: more_directories: x is not an absolute path"),
        (
            "[teams.acme]\nmore_programs = ['x']",
            "[teams.acme]: more_programs extends programs, which the file doesn't set for everyone",
        ),
        ("[teams.ACME]\ntimeout = 1", "[teams.ACME]: a team's name is small letters"),
        ("[teams]\nacme = 3", "[teams.acme]: Expected `object`, got `int`"),
        ("allowed_teams = ['b']\n[teams.acme]\ntimeout = 1", "[teams.acme]: the team is not among allowed_teams"),
    ],
)
def test_a_bad_file_is_an_error_that_names_it(decide: Callable[..., ExecutionSpec], toml: str, reason: str) -> None:
    """One who mistypes a rule is not left without it."""
    with pytest.raises(ConfigurationError) as caught:
        decide(toml)
    assert str(caught.value).startswith("TELLBACK_COMMAND_POLICY: ")
    assert "policy.toml: " in str(caught.value)
    assert reason in str(caught.value)


SECTIONS = """
    directories = ["ROOT/shop"]
    programs = ["true"]
    environment = ["CI"]
    timeout = 30
    [limits]
    memory = 1_073_741_824
    processes = 64
    [teams.acme]
    programs = ["ROOT/bin/tool"]
    more_directories = ["ROOT/bin"]
    more_environment = ["PATH"]
    timeout = 60
    limits.processes = 8
    [teams.beta]
    more_programs = ["tool"]
"""


@pytest.mark.usefixtures("folder")
def test_a_teams_section_overrides_and_adds(decide: Callable[..., ExecutionSpec], tmp_path: Path) -> None:
    """A setting that it does not name is the one for all, as in a team that has no section."""
    tool = str(tmp_path / "bin" / "tool")
    acme = decide(SECTIONS, argv=(tool,), team="acme", cwd=str(tmp_path / "bin"), timeout=60.0)
    assert acme.limits == CommandLimits(memory=1 << 30, processes=8)
    assert acme.env == {"CI": "1", "PATH": "/usr/bin:/bin"}
    assert decide(SECTIONS, argv=(tool,), team="acme").cwd == str(tmp_path / "shop")
    other = decide(SECTIONS, team="other")
    assert (other.limits, other.env) == (CommandLimits(memory=1 << 30, processes=64), {"CI": "1"})
    assert decide(SECTIONS, team="beta").argv


SECTION_REFUSALS: list[tuple[str, str, dict[str, object]]] = [
    ("acme", "teams.acme.programs", {}),
    ("acme", "teams.acme.directories", {"argv": ["ROOT/bin/tool"], "cwd": "/"}),
    ("acme", "teams.acme.environment", {"argv": ["ROOT/bin/tool"], "env": {"HOME": "/"}}),
    ("acme", "teams.acme.timeout", {"argv": ["ROOT/bin/tool"], "timeout": 61.0}),
    ("beta", "teams.beta.programs", {"argv": ["false"]}),
    ("beta", "timeout", {"timeout": 31.0}),
    ("other", "programs", {"argv": ["ROOT/bin/tool"]}),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("team", "rule", "fields"), SECTION_REFUSALS)
def test_a_refusal_names_the_rule_and_whose_it_is(
    decide: Callable[..., ExecutionSpec], tmp_path: Path, team: str, rule: str, fields: dict[str, object]
) -> None:
    """A rule of a team's own section is named with the section."""
    fields = dict(fields)
    argv = tuple(str(part).replace("ROOT", str(tmp_path)) for part in cast("list[str]", fields.pop("argv", ["true"])))
    with pytest.raises(Refused, match=f"refused by this host's policy, rule {rule}: "):
        decide(SECTIONS, argv=argv, team=team, **fields)


def test_sections_do_not_say_which_teams_run_here(decide: Callable[..., ExecutionSpec]) -> None:
    """That is what `allowed_teams` is for, and a list of `teams` as before."""
    assert decide("[teams.acme]\ntimeout = 60", team="other").argv
    with pytest.raises(Refused, match="rule teams: "):
        decide('allowed_teams = ["acme"]\n[teams.acme]\ntimeout = 60', team="other")
    with pytest.raises(Refused, match="rule teams: "):
        decide('allowed_teams = ["acme"]', team="other")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """A file that is not text is an error too."""
    with pytest.raises(ConfigurationError, match="No such file"):
        read_policy(str(tmp_path / "none.toml"))
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="utf-8"):
        read_policy(str(tmp_path / "bytes"))
