"""The place where `tellback hook install` writes, and the advice about one that an agent might not read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tellback.cli.app import app
from tellback.hook import installation
from tellback.hook.options import find_file


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(installation, "compile_modules", lambda: None)  # has a test of its own
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (root / "part").mkdir()
    return root


@pytest.mark.parametrize("option", [[], ["--shared"]], ids=["own", "shared"])
def test_a_file_in_a_folder_of_a_repository_says_who_does_not_read_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch, option: list[str]
) -> None:
    monkeypatch.chdir(repository / "part")
    said = CliRunner().invoke(app, ["hook", "install", *option])
    assert said.exit_code == 0
    assert f"inside the repository {repository}: an agent that is started there" in said.stdout


@pytest.mark.parametrize("option", [[], ["--shared"], ["--user"]], ids=["own", "shared", "user"])
def test_at_the_root_of_a_repository_nothing_is_said(
    repository: Path, monkeypatch: pytest.MonkeyPatch, option: list[str]
) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setenv("HOME", str(repository / "part"))
    assert "inside the repository" not in CliRunner().invoke(app, ["hook", "install", *option]).stdout


def test_a_file_that_turns_hooks_off_is_named(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('\ufeff{"disableAllHooks": true}')
    said = CliRunner().invoke(app, ["hook", "install", "--settings", str(path)])
    assert f"{path} sets disableAllHooks" in said.stdout
    path.write_text('{"disableAllHooks": false}')
    assert "disableAllHooks" not in CliRunner().invoke(app, ["hook", "install", "--settings", str(path)]).stdout


def test_a_settings_file_in_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mistyped" / "settings.json"
    refused = CliRunner().invoke(app, ["hook", "install", "--settings", str(path)])
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"tellback: --settings {path}: there is no folder {path.parent}; correct the path, or create it\n",
    )
    assert not path.parent.exists()


@pytest.mark.parametrize("command", [["stats"], ["calibrate", "pairs.csv"]], ids=" ".join)
def test_a_plot_in_a_folder_that_does_not_exist_is_refused_before_anything_else(
    tmp_path: Path, command: list[str]
) -> None:
    path = tmp_path / "mistyped" / "plot.svg"
    refused = CliRunner().invoke(app, [*command, "--plot", str(path)])
    assert refused.exit_code == 2, refused.output
    assert f"--plot {path}: there is no folder {path.parent}" in refused.stderr


def test_a_hooks_file_is_that_of_the_project_and_of_nobody_above_it(tmp_path: Path) -> None:
    """A file of that name in /tmp, which anybody may write, was taken for that of a project below."""
    project, inner = tmp_path / "project", tmp_path / "project" / "part" / "inner"
    inner.mkdir(parents=True)
    (project / ".git").mkdir()
    (tmp_path / "hooks.toml").touch()
    missing = str(project / "hooks.toml")
    assert find_file("hooks.toml", str(inner), {}) == missing
    (project / "hooks.toml").touch()
    assert find_file("hooks.toml", str(inner), {}) == missing
    assert find_file("hooks.toml", "/", {"CLAUDE_PROJECT_DIR": str(project / "part")}) == missing
    (inner / "hooks.toml").touch()
    assert find_file("hooks.toml", str(inner), {}) == str(inner / "hooks.toml")
    assert find_file("/a/hooks.toml", str(inner), {}) == "/a/hooks.toml"


@pytest.mark.programs
def test_a_worktree_takes_the_hooks_file_of_the_main_checkout_unless_it_has_one(tmp_path: Path) -> None:
    """Claude Code 2.1.332 reads `.claude/settings.local.json` of the main checkout in a worktree too."""
    main, worktree = tmp_path / "main ü", tmp_path / "other"
    name = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q", str(main)], ["-C", str(main), *name, "commit", "-q", "--allow-empty", "-m", "a"]):
        subprocess.run(["git", *command], check=True)
    subprocess.run(["git", "-C", str(main), "worktree", "add", "-q", str(worktree)], check=True, capture_output=True)
    (main / "hooks.toml").touch()
    (worktree / "part").mkdir()
    assert find_file("hooks.toml", str(worktree / "part"), {}) == str(main / "hooks.toml")
    (worktree / "hooks.toml").touch()
    assert find_file("hooks.toml", str(worktree / "part"), {}) == str(worktree / "hooks.toml")
    (worktree / "part" / ".git").write_text("gitdir: ../.git/modules/part\n")
    assert find_file("hooks.toml", str(worktree / "part"), {}) == str(worktree / "hooks.toml"), "of a submodule"


@pytest.mark.parametrize("place", ["/srv/repo.git/worktrees/part", "/srv/modules/repo.git", "../repo.git"])
def test_above_the_worktree_of_a_bare_repository_nobodys_file_is_taken(place: str, tmp_path: Path) -> None:
    """Its `.git` is a file, as that of a submodule and of any repository that is elsewhere."""
    (tmp_path / "hooks.toml").touch()
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / ".git").write_text(f"gitdir: {place}\n")
    assert find_file("hooks.toml", str(tmp_path / "part"), {}) == str(tmp_path / "part" / "hooks.toml")


def test_a_submodule_of_a_worktree_takes_the_file_of_the_worktree(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / ".git").write_text("gitdir: /srv/main/.git/worktrees/w\n")
    (tmp_path / "part" / ".git").write_text("gitdir: /srv/main/.git/worktrees/w/modules/part\n")
    assert find_file("hooks.toml", str(tmp_path / "part"), {}) == "/srv/main/hooks.toml"
    (tmp_path / "hooks.toml").touch()
    assert find_file("hooks.toml", str(tmp_path / "part"), {}) == str(tmp_path / "hooks.toml")
