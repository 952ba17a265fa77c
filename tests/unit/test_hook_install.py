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
from tellback.hook.options import EVENTS
from tests.support.hook_settings import all_files, ours, run
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


def test_hooks_are_printed_for_other_programs_and_no_file_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = run("install", "--print", "--prompt", "coding")
    hooks = json.loads(printed.stdout)["hooks"]
    assert hooks["PostToolUse"][0]["hooks"][0]["command"].endswith("tellback hook post-tool-use --prompt=coding")
    assert "PreToolUse" not in hooks
    event = json.loads(printed.stderr.splitlines()[-1])
    assert event["hook_event_name"] == "PostToolUse"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_comes_back_byte_for_byte_and_others_hooks_stay(layout: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(LAYOUTS[layout].encode())
    path.chmod(0o640)
    before = path.read_bytes()
    assert run("install", "--settings", path).returncode == 0
    with_hooks = path.read_bytes()
    events = {"SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop"}
    assert set(ours(path)) == events | {"SubagentStart", "SubagentStop"}
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
    assert all_files(tmp_path) == ["settings.json"]


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


@pytest.mark.parametrize("command", ["install", "uninstall", "status"])
def test_what_is_no_regular_file_is_refused_and_left(command: str, tmp_path: Path) -> None:
    """As root, `--settings /dev/null` put a file in place of the device."""
    path = tmp_path / "settings.json"
    os.mkfifo(path)
    done = run(command, "--settings", path)
    assert done.returncode == 2
    assert done.stderr.endswith("is not a regular file\n")
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert [entry.name for entry in tmp_path.iterdir()] == ["settings.json"]


def test_a_device_gets_no_backup_and_no_file_in_its_place(tmp_path: Path) -> None:
    """Here a FIFO stands for `/dev/null`, which a rename by root would replace."""
    path = tmp_path / "null"
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match="not a regular file"):
        installation.keep_backup(installation.SettingsChange(path, b"", b"{}"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["null"]


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
        ("--wait=0", "--wait is not a number of seconds above 0"),
        ("--wait=nan", "--wait is not a number of seconds above 0"),
        ("--wait=100", "--wait is not a number of seconds above 0"),
        ("--team=Bad Team", "Bad Team"),
        ("--redis-url=http://example.org", "not the URL of a Redis"),
        ("--prompt=", "--prompt has no value"),
        ("--wait=", "--wait"),
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
    config.write_text("prompt = 'coding'\n[[providers]]\nname = 'StuckFeedback'\nevery_n_calls = 1\n")
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
        ("[[providers]]\nname = 'StaticFeedback'\nevery_n_calls = 1", "summary"),
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


def test_a_provider_that_only_workers_can_have_is_named(tmp_path: Path) -> None:
    config = tmp_path / "hooks.toml"
    config.write_text("[[providers]]\nname = 'StukFeedback'\nevery_n_calls = 1")
    done = run("install", "--settings", tmp_path / "settings.json", "--config", config)
    assert (done.returncode, f"{config}: StukFeedback is not a built-in provider" in done.stderr) == (0, True)


def test_a_file_in_place_of_the_folder_is_no_wrong_json(tmp_path: Path) -> None:
    (tmp_path / ".claude").touch()
    refused = run("install", "--settings", tmp_path / ".claude" / "settings.json").stderr
    assert refused.endswith("cannot be read: Not a directory\n")


def test_the_default_files_are_the_users_and_the_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (project / "hooks.toml").write_text("")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(project)
    files: tuple[list[str], ...] = ([], ["--user"], ["--shared", "--config=hooks.toml"], ["--program=codex", "--user"])
    mask = os.umask(0o022)
    try:
        done = [run("install", *options) for options in files]
    finally:
        os.umask(mask)
    assert [one.returncode for one in done] == [0, 0, 0, 0], done
    assert "trusted" in done[-1].stdout, "Codex runs hooks only after the user has trusted them"
    assert "not on your PATH" in done[0].stdout
    mine, everyones = project / ".claude" / "settings.local.json", project / ".claude" / "settings.json"
    assert ours(mine) == ours(home / ".claude" / "settings.json")
    assert ours(everyones)["Stop"].endswith("; tellback hook stop --config=hooks.toml")
    assert "PostToolUseFailure" not in ours(home / ".codex" / "hooks.json")
    assert str(tmp_path) not in everyones.read_text() + mine.read_text(), "no path of somebody's environment"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (mine, everyones)] == [0o600, 0o644], "as git writes it"
    assert json.loads(run("status", "--json").stdout)["commands"]["Stop"].endswith("tellback hook stop")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--shared", "--absolute"], "path of your machine"),
        (["--shared", "--user"], "use one of them"),
        (["--redis-url=redis://:hunter2hunter2@h/0"], "TELLBACK_REDIS_URL"),
        (["--shared", "--config={outside}"], "outside this project"),
        (["--program=unheard"], "claude, codex"),
    ],
)
def test_what_others_could_not_use_or_should_not_see_gets_into_no_file(
    arguments: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, outside = tmp_path / "project", tmp_path / "hooks.toml"
    project.mkdir()
    outside.write_text("")
    monkeypatch.chdir(project)
    done = run("install", *(each.format(outside=outside) for each in arguments))
    assert done.returncode == 2
    assert named in " ".join(done.stderr.split())
    assert list(project.iterdir()) == []


@pytest.mark.programs
def test_who_lacks_tellback_reads_so_once_a_session_and_works_on(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    run("install", "--settings", path)
    answers = {
        event: subprocess.run(["/bin/sh", "-c", command], env={"PATH": "/nowhere"}, capture_output=True, check=True)
        for event, command in ours(path).items()
    }
    assert {done.stderr for done in answers.values()} == {b""}
    assert [event for event, done in answers.items() if done.stdout] == ["SessionStart"]
    said = json.loads(answers["SessionStart"].stdout)["systemMessage"]
    assert "not on PATH" in said
    assert "uninstall" not in said, "who lacks the program cannot run it"


def test_a_policy_is_checked_and_brings_the_event_that_it_speaks_of(tmp_path: Path) -> None:
    path, policy = tmp_path / "settings.json", tmp_path / "policy.toml"
    assert f"can't read {policy}: No such file" in run("install", "--settings", path, "--policy", policy).stderr
    policy.write_text("[deny_repeated_failures]\nafter = 1\n")
    done = run("install", "--settings", path, "--policy", policy)
    assert (done.returncode, path.exists()) == (2, False)
    assert f"{policy}: [deny_repeated_failures]: after is 1; use" in " ".join(done.stderr.split())
    policy.write_text("[deny_repeated_failures]\nafter = 3\n")
    run("install", "--settings", path, "--policy", policy)
    assert ours(path)["PreToolUse"].endswith(f"tellback hook pre-tool-use --policy={policy}")
    run("install", "--settings", path)
    assert "PreToolUse" not in ours(path), "each event is a process that the agent waits for"


@pytest.mark.programs
def test_an_installation_leaves_what_a_hook_imports_compiled(tmp_path: Path) -> None:
    """Pip does so too, except for an editable package; `PYTHONDONTWRITEBYTECODE` concerns imports only."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(PROGRAM), "hook", "install", "--settings", str(tmp_path / "settings.json")]
    subprocess.run(command, env=env, check=True, capture_output=True)
    found = {path.name.partition(".")[0] for path in (tmp_path / "compiled").rglob("*.pyc")}
    assert found >= {"entry", "process", "handling", "exchange", "resp", "redactor", "keys"}


def test_each_event_has_its_help() -> None:
    for event in EVENTS:
        shown = run(event, "--help")
        assert shown.returncode == 0
        assert "--config" in shown.stdout
        assert "exits 0" in " ".join(shown.stdout.split())


def test_an_event_of_a_later_release_refuses_an_agent_nothing() -> None:
    """With 2 an agent's program would hold back what the agent was about to do; a typing error is still reported."""
    for arguments in (["pre-merge"], ["pre-merge", "--config", "hooks.toml"], ["--unheard"], []):
        assert run(*arguments).returncode != 2
    assert "No such command 'pre-merge'" in run("pre-merge").stderr
    assert run("install", "--unheard").returncode == 2


@pytest.mark.programs
def test_at_an_event_that_is_not_used_a_hook_ends_at_once(tmp_path: Path) -> None:
    """Requirement G-402. It ended with 1, after the import of the whole command line."""
    env = {**os.environ, "TELLBACK_DATA_DIR": str(tmp_path), "PYTHONPROFILEIMPORTTIME": "1"}
    for event in ("session-end", "pre-compact", "post-compact", "notification", "permission-request"):
        command = [str(PROGRAM), "hook", event, "--prompt=coding"]
        done = subprocess.run(command, input=b'{"session_id": "s1"}', env=env, capture_output=True, check=True)
        assert done.stdout == b""
        assert b"tellback.hook.options" in done.stderr
        assert b"typer" not in done.stderr
    assert list(tmp_path.iterdir()) == []
