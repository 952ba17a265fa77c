"""Copies of settings files that `tellback hook install` keeps, and files that change or fail meanwhile."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tellback.errors import ConfigurationError
from tellback.hook import installation
from tests.support.hook_settings import all_files, ours, run
from tests.support.hooks import PROGRAM
from tests.support.processes import run_program


def test_a_copy_of_what_only_one_person_may_read_stays_out_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git ignores `.claude/settings.local.json`, and `git add` took the backup that was kept next to it."""
    project = tmp_path / "project"
    private = project / ".claude" / "settings.local.json"
    private.parent.mkdir(parents=True)
    private.write_text('{"env": {"API_KEY": "hunter2"}}')
    monkeypatch.chdir(project)
    assert "backup in" in " ".join(run("install").stdout.split())
    assert all_files(project) == ["settings.local.json"]
    [backup] = (tmp_path / "data" / "hook" / "backups").iterdir()
    assert (backup.read_text(), stat.S_IMODE(backup.stat().st_mode)) == ('{"env": {"API_KEY": "hunter2"}}', 0o600)
    assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700


def test_a_backup_of_an_earlier_version_is_restored_and_removed(tmp_path: Path) -> None:
    path, backup = tmp_path / "settings.json", tmp_path / "settings.json.before-tellback"
    path.write_text("{}")
    run("install", "--settings", path)
    [kept] = (tmp_path / "data" / "hook" / "backups").iterdir()
    kept.rename(backup)
    backup.write_text("{ }  ")
    assert f"backup in {backup}" in run("install", "--settings", path, "--prompt=x").stdout.replace("\n", " ")
    run("uninstall", "--settings", path)
    assert (path.read_text(), all_files(tmp_path)) == ("{ }  ", ["settings.json"])


def test_hooks_with_the_message_of_another_version_are_replaced_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    run("install", "--settings", path, "--prompt=a; exit 0; b")
    written = path.read_text()
    path.write_text(written.replace("Tellback is not on PATH", "Another text; with signs"))
    assert set(ours(path)) == set(json.loads(written)["hooks"])
    run("install", "--settings", path, "--prompt=a; exit 0; b")
    assert path.read_text() == written
    run("uninstall", "--settings", path)
    assert all_files(tmp_path) == []


def test_a_file_that_another_program_changes_meanwhile_is_left(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    change = installation.plan_install(path, "tellback", [])
    path.write_text('{"new": 1}')
    with pytest.raises(ConfigurationError, match="just been changed"):
        installation.write_settings(change)
    assert path.read_text() == '{"new": 1}'


@pytest.mark.programs
def test_a_disk_that_takes_nothing_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    done = run_program(["sh", "-c", f"ulimit -f 0; exec '{PROGRAM}' hook install --settings '{path}'"])
    assert done.returncode != 0
    assert path.read_text() == "{}"
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_a_file_that_was_not_there_is_made_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    assert run("install", "--settings", path).returncode == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert set(json.loads(path.read_text())) == {"hooks"}
    run("uninstall", "--settings", path)
    assert all_files(tmp_path) == []
