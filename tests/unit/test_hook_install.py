"""`tellback hook install` changes its own lines of a settings file and can take them back."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tellback.errors import ConfigurationError
from tellback.hook import installation
from tests.support.hooks import PROGRAM

OTHERS: dict[str, Any] = {
    "model": "opus",
    "hooks": {
        "PostToolUse": [
            {"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "/usr/bin/format 'a b'"}]},
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "unbalanced ' quote"}]},
        ],
        "Notification": [{"hooks": [{"type": "command", "command": "notify-send tellback hook"}]}],
    },
    "unknown": {"ключ": [1, 2.50, None, "é"]},
}
LAYOUTS = {
    "two spaces": json.dumps(OTHERS, indent=2, ensure_ascii=False) + "\n",
    "four spaces, no end": json.dumps(OTHERS, indent=4),
    "tabs": json.dumps(OTHERS, indent="\t", ensure_ascii=False) + "\n",
    "one line": json.dumps(OTHERS),
    "odd spacing": '{ "model" :"opus",\n\n\n   "unknown": 2.50 ,"hooks":{}  }\n\n',
    "a byte order mark": "\ufeff" + json.dumps(OTHERS, indent=2) + "\n",
    "empty object": "{}",
    "empty": "",
    "white space": " \n\n",
    "ends of lines of another system": json.dumps(OTHERS, indent=2).replace("\n", "\r\n") + "\r\n",
    "half a surrogate pair": '{"a": "\\ud800"}',
}


def run(*arguments: object, cwd: Path | None = None, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **({"HOME": str(home)} if home else {})}
    return subprocess.run(
        [str(PROGRAM), "hook", *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd, env=env
    )


def ours(path: Path) -> dict[str, str]:
    return installation.commands_in(path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_comes_back_byte_for_byte_and_others_hooks_stay(layout: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(LAYOUTS[layout].encode())
    path.chmod(0o640)
    before = path.read_bytes()
    assert run("install", "--settings", path).returncode == 0
    with_hooks = path.read_bytes()
    assert set(ours(path)) == {"SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop"}
    assert (b"\r\n" in before) is (b"\r\n" in with_hooks)
    assert with_hooks.count(b"\n") == with_hooks.count(b"\r\n") or b"\r\n" not in before
    found = json.loads(with_hooks.decode("utf-8-sig"))
    expected = json.loads(before.decode("utf-8-sig").strip() or "{}")
    assert {**found, "hooks": None} == {**expected, "hooks": None}
    for event, groups in expected.get("hooks", {}).items():
        assert found["hooks"][event][: len(groups)] == groups
    again = run("install", "--settings", path)
    assert "already" in again.stdout
    assert path.read_bytes() == with_hooks
    assert run("uninstall", "--settings", path).returncode == 0
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["settings.json"]


def test_what_changed_meanwhile_stays_when_our_hooks_go(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(LAYOUTS["two spaces"])
    run("install", "--settings", path)
    changed = json.loads(path.read_text())
    changed["model"] = "haiku"
    changed["hooks"]["PostToolUse"][-1]["hooks"].append({"type": "command", "command": "mine"})
    path.write_text(json.dumps(changed, indent=2))
    run("uninstall", "--settings", path)
    left = json.loads(path.read_text())
    assert left["model"] == "haiku"
    assert left["hooks"]["PostToolUse"][-1] == {"matcher": "*", "hooks": [{"type": "command", "command": "mine"}]}
    assert set(left["hooks"]) == {"PostToolUse", "Notification"}
    assert ours(path) == {}


def test_a_file_that_was_not_there_is_made_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "settings.json"
    assert run("install", "--settings", path).returncode == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert set(json.loads(path.read_text())) == {"hooks"}
    run("uninstall", "--settings", path)
    assert list((tmp_path / "deep").iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        "{",
        "[1]",
        '"text"',
        '{"hooks": []}',
        '{"hooks": {"PostToolUse": {}}}',
        '{"a": 1, "a": 2}',
        "// a\n{}",
        "\x00",
        '{"a": NaN}',
        '{"a": 1e999}',
    ],
)
def test_a_file_that_is_not_what_an_agent_reads_is_refused_and_left(wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(wrong)
    done = run("install", "--settings", path)
    assert done.returncode == 2
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_text() == wrong
    assert [entry.name for entry in tmp_path.iterdir()] == ["settings.json"]


def test_a_file_that_was_made_read_only_is_left(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    path.chmod(0o444)
    done = run("install", "--settings", path)
    assert (done.returncode, path.read_text()) == (2, "{}")
    assert "is read-only; nothing was changed" in " ".join(done.stderr.split())
    assert [entry.name for entry in tmp_path.iterdir()] == ["settings.json"]
    path.chmod(0o644)
    run("install", "--settings", path)
    path.chmod(0o444)
    assert run("uninstall", "--settings", path).returncode == 2
    assert ours(path)


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("--wait=0", "TELLBACK_HOOK_WAIT"),
        ("--wait=100", "TELLBACK_HOOK_WAIT"),
        ("--team=Bad Team", "Bad Team"),
        ("--redis-url=http://example.org", "not the URL of a Redis"),
        ("--prompt=", "--prompt has no value"),
    ],
)
def test_an_option_with_which_no_hook_could_work_is_refused(option: str, named: str, tmp_path: Path) -> None:
    done = run("install", "--settings", tmp_path / "settings.json", option)
    assert done.returncode == 2
    assert named in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_shows_the_change_and_makes_none(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(LAYOUTS["two spaces"])
    shown = run("install", "--settings", path, "--dry-run")
    assert shown.returncode == 0
    assert f"+++ {path}" in shown.stdout
    assert "hook post-tool-use" in shown.stdout
    assert path.read_text() == LAYOUTS["two spaces"]
    assert len(list(tmp_path.iterdir())) == 1
    run("install", "--settings", path)
    kept = path.read_text()
    assert "-" in run("uninstall", "--settings", path, "--dry-run").stdout
    assert path.read_text() == kept


def test_a_link_stays_a_link_and_its_target_is_changed(tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "settings.json"
    target.parent.mkdir()
    target.write_text("{}\n")
    link = tmp_path / "settings.json"
    link.symlink_to(target)
    run("install", "--settings", link)
    assert link.is_symlink()
    assert "PostToolUse" in ours(target)
    run("uninstall", "--settings", link)
    assert link.is_symlink()
    assert target.read_text() == "{}\n"


def test_options_stand_in_the_commands_and_new_ones_replace_old_ones(tmp_path: Path) -> None:
    path, config = tmp_path / "settings.json", tmp_path / "with space.toml"
    config.write_text("prompt = 'coding'\n[[providers]]\nname = 'StaticFeedback'\nevery_n_calls = 1\n")
    run("install", "--settings", path, "--config", config, "--team", "acme")
    command = ours(path)["PostToolUse"]
    assert command.endswith(f"hook post-tool-use --prompt=coding '--config={config}' --team=acme")
    run("install", "--settings", path, "--wait", "0.2")
    assert ours(path)["PostToolUse"].endswith("hook post-tool-use --wait=0.2")
    assert len(json.loads(path.read_text())["hooks"]["PostToolUse"]) == 1


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("deadline = 'soon'", "deadline"),
        ("unheard = 1", "unheard"),
        ("[[providers]]\nname = 'X'\nevery_n_calls = 0", "every_n_calls"),
        ("[[providers]]\nevery_n_calls = 1", "name"),
        ("[[", "TOML"),
    ],
)
def test_a_wrong_configuration_is_refused_at_the_installation(text: str, named: str, tmp_path: Path) -> None:
    config = tmp_path / "hooks.toml"
    config.write_text(text)
    done = run("install", "--settings", tmp_path / "settings.json", "--config", config)
    assert done.returncode == 2
    assert str(config) in done.stderr
    assert named in done.stderr or named == "TOML"
    assert not (tmp_path / "settings.json").exists()


def test_the_default_files_are_the_users_and_the_projects(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    run("install", home=home, cwd=project)
    run("install", "--project", home=home, cwd=project)
    assert ours(home / ".claude" / "settings.json")
    assert ours(project / ".claude" / "settings.json")
    listed = run("status", "--json", home=home, cwd=project)
    assert json.loads(listed.stdout)["commands"]["Stop"].endswith("tellback hook stop")


def test_a_file_that_another_program_changes_meanwhile_is_left(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    change = installation.installed(path, "tellback", [])
    path.write_text('{"new": 1}')
    with pytest.raises(ConfigurationError, match="just been changed"):
        installation.write(change)
    assert path.read_text() == '{"new": 1}'


def test_a_disk_that_takes_nothing_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    done = subprocess.run(
        ["sh", "-c", f"ulimit -f 0; exec '{PROGRAM}' hook install --settings '{path}'"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert path.read_text() == "{}"
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_an_installation_leaves_what_a_hook_imports_compiled(tmp_path: Path) -> None:
    """As pip does, save for an editable package; `PYTHONDONTWRITEBYTECODE` speaks of imports."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(PROGRAM), "hook", "install", "--settings", str(tmp_path / "settings.json")]
    subprocess.run(command, env=env, check=True, capture_output=True)
    found = {path.name.partition(".")[0] for path in (tmp_path / "compiled").rglob("*.pyc")}
    assert found >= {"entry", "process", "handling", "exchange", "resp", "redactor", "keys"}


def test_each_event_has_its_help(tmp_path: Path) -> None:
    for event in ("post-tool-use", "post-tool-use-failure", "session-start", "user-prompt-submit", "stop"):
        shown = run(event, "--help", cwd=tmp_path)
        assert shown.returncode == 0
        assert "--config" in shown.stdout
        assert "exit code is 0" in " ".join(shown.stdout.split())


def test_an_event_of_a_later_release_refuses_an_agent_nothing(tmp_path: Path) -> None:
    """With 2 an agent's program would hold back what the agent was about to do; a typing error is still told."""
    for arguments in (["pre-tool-use"], ["pre-tool-use", "--config", "hooks.toml"], ["--unheard"], []):
        assert run(*arguments, cwd=tmp_path).returncode != 2
    assert "No such command 'pre-tool-use'" in run("pre-tool-use", cwd=tmp_path).stderr
    assert run("install", "--unheard", cwd=tmp_path).returncode == 2
