"""`tellback hook install` and `uninstall`: adding our hooks to the settings file of an agent, and removing them.

The file is JSON as Claude Code and Codex read it: `{"hooks": {EVENT: [{"matcher": "*", "hooks": [{"type": "command",
"command": "..."}]}]}}`. It belongs to the user: other content stays, an uninstallation restores the original bytes if
nothing else changed, and a file that we might not write back faithfully is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import py_compile
import stat
import sys
from collections.abc import Mapping, MutableSequence, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from tellback.errors import ConfigurationError
from tellback.hook.options import data_folder
from tellback.hook.programs import CLAUDE_CODE, AgentProgram, event_of_command

NO_FILE: Final = b"There was no settings file.\n"  # the backup's content in that case
_WRITE_MODE: Final = 0o222  # write permission of owner, group or others
TIMEOUT: Final = 10  # seconds after which the agent kills a hook process: the last resort


class SettingsChange(NamedTuple):
    """A planned change of a settings file; None as `before` or `after` means that there is no file."""

    path: Path
    before: bytes | None
    after: bytes | None


def plan_install(
    path: Path, program: str, arguments: Sequence[str], agent: AgentProgram = CLAUDE_CODE, *, policy: bool = False
) -> SettingsChange:
    """Plan a file with one hook of ours per event, replacing those of any earlier version.

    Raises:
        ConfigurationError: the file is not a valid settings file; nothing was changed.
    """
    before, settings = _read_settings(path)
    original = _parse_json(before or b"")
    _remove_our_hooks(settings)
    hooks = _hooks_in(settings, path)
    for event, command in agent.commands(program, arguments, policy=policy).items():
        entry: dict[str, Any] = {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT}]}
        groups: Any = hooks.setdefault(event, [])
        if not isinstance(groups, list):
            raise ConfigurationError(f"{path}: hooks.{event} is not a list; nothing was changed")
        cast("MutableSequence[Any]", groups).append({"matcher": "*", **entry} if event in agent.matched else entry)
    return SettingsChange(path, before, before if settings == original else _format_json(settings, before))


def plan_uninstall(path: Path) -> SettingsChange:
    """Plan a file without our hooks: the exact bytes from before the installation if nothing else has changed.

    Raises:
        ConfigurationError: the file is not a valid settings file; nothing was changed.
    """
    before, settings = _read_settings(path)
    if before is None or not _remove_our_hooks(settings):
        return SettingsChange(path, before, before)
    earlier = _read_backup(path)
    if earlier is None:
        return SettingsChange(path, before, _format_json(settings, before))
    if earlier == NO_FILE:
        return SettingsChange(path, before, _format_json(settings, before) if settings else None)
    unchanged = _drop_empty_events(_parse_json_or_none(earlier)) == _drop_empty_events(settings)
    return SettingsChange(path, before, earlier if unchanged else _format_json(settings, before))


def write_settings(change: SettingsChange, *, shared: bool = False) -> None:
    """Replace the file atomically, keeping its mode; a symbolic link stays, and its target is replaced.

    A new file is for the user alone, unless it is shared: that gets into images and to other users.

    Raises:
        ConfigurationError: it cannot be written, or it changed after it was read.
    """
    path = Path(os.path.realpath(change.path))
    try:
        # The agent's program writes this file too, perhaps since we read it.
        if _read_bytes(path) != change.before:
            raise ConfigurationError(f"{path} has just been changed by another program; run this again")
        _refuse_read_only(path)
        if change.after is None:
            path.unlink()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        # A draft in the same folder: a rename is atomic only within one file system.
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, path.stat().st_mode & 0o7777 if path.exists() else _new_mode(shared=shared))
                file.write(change.after)
                file.flush()
                os.fsync(descriptor)
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}; nothing was changed") from error


def _new_mode(*, shared: bool) -> int:
    mask = os.umask(0o077)  # no call only reads it
    os.umask(mask)
    return 0o666 & ~mask if shared else 0o600


def compile_modules() -> None:
    """Write the bytecode of the modules that a hook process imports; otherwise every tool call might compile them."""
    import_module("tellback.hook.handling")
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "tellback" and getattr(module, "__file__", None):
            with suppress(OSError, py_compile.PyCompileError):
                py_compile.compile(str(module.__file__), doraise=True)


def keep_backup(change: SettingsChange) -> Path | None:
    """Keep a copy of the file from before our first hook, or a note that there was none; return the copy's path.

    Raises:
        ConfigurationError: the folder of this user's local files cannot be written.
    """
    backup, _ = kept = _backup_paths(change.path)
    _refuse_read_only(change.path)
    if change.before is not None and _our_hooks(_parse_json(change.before)):
        return next((each for each in kept if each.exists()), None)
    try:
        backup.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(NO_FILE if change.before is None else change.before)
    except OSError as error:
        raise ConfigurationError(f"{backup} cannot be written: {error.strerror}; nothing was changed") from error
    return backup


def _refuse_read_only(path: Path) -> None:
    """Refuse a read-only file: replacing it would succeed, but somebody made it read-only on purpose.

    Raises:
        ConfigurationError: nobody may write the file, or it is a device or a FIFO.
    """
    if not path.exists():
        return
    _refuse_irregular(path)
    if not path.stat().st_mode & _WRITE_MODE:
        raise ConfigurationError(f"{path} is read-only; nothing was changed")


def drop_backup(change: SettingsChange) -> None:
    """Delete the backup once the file is restored."""
    for backup in _backup_paths(change.path):
        with suppress(OSError):  # the file itself is restored
            backup.unlink(missing_ok=True)


def commands_in(path: Path) -> dict[str, str]:
    """Return our commands in the file, by event.

    Raises:
        ConfigurationError: the file is not a valid settings file.
    """
    _, settings = _read_settings(path)
    return {event: str(hook["command"]) for event, hook in _our_hooks(settings)}


def _backup_paths(path: Path) -> tuple[Path, Path]:
    """Return where a file's backup is kept, and where earlier versions kept it.

    Next to the file `git add` takes it too: the settings of one person, which git ignores, would be published.
    """
    real = Path(os.path.realpath(path))
    name = f"{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}-{real.name}"
    return Path(data_folder(os.environ)) / "hook" / "backups" / name, real.with_name(real.name + ".before-tellback")


def _read_backup(path: Path) -> bytes | None:
    for backup in _backup_paths(path):
        with suppress(OSError):
            return backup.read_bytes()
    return None


def _read_bytes(path: Path) -> bytes | None:
    try:
        if str(path) != os.devnull:  # which `--print` reads as an empty file
            _refuse_irregular(path)
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _refuse_irregular(path: Path) -> None:
    """Refuse a device, which a rename as root would replace, and a FIFO, which would hold up its reader."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ConfigurationError(f"{path} is not a regular file")


def _read_settings(path: Path) -> tuple[bytes | None, dict[str, Any]]:
    try:
        before = _read_bytes(path)
        found: object = _parse_json(before or b"")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path} holds no JSON object")
    settings = cast("dict[str, Any]", found)
    _hooks_in(settings, path, add=False)
    return before, settings


def _parse_json(raw: bytes) -> Any:
    text = raw.decode("utf-8-sig")
    # Python's parser would drop duplicate keys and accept NaN; writing the file back would then change it silently.
    return json.loads(
        text if text.strip() else "{}",
        object_pairs_hook=_refuse_duplicate_keys,
        parse_constant=_refuse_constant,
        parse_float=_checked_float,
    )


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _checked_float(text: str) -> float:
    """Parse a number; refuse one that would be written back as Infinity, which is not JSON."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number


def _parse_json_or_none(raw: bytes) -> Any:
    try:
        return _parse_json(raw)
    except ValueError:
        return None


def _drop_empty_events(settings: Any) -> Any:
    """Return the settings without events that have no hooks: an installation and its removal do not preserve those."""
    if not isinstance(settings, dict):
        return settings
    kept = cast("dict[str, Any]", settings)
    groups = {event: found for event, found in _hook_groups(kept).items() if found}
    return {**{key: value for key, value in kept.items() if key != "hooks"}, **({"hooks": groups} if groups else {})}


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return found


def _hooks_in(settings: dict[str, Any], path: Path, *, add: bool = True) -> dict[str, Any]:
    value: object = settings.setdefault("hooks", {}) if add else settings.get("hooks", {})
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path}: hooks is not an object")
    return cast("dict[str, Any]", value)


def _format_json(settings: Mapping[str, Any], before: bytes | None) -> bytes:
    """Return JSON in the format of the file: its indentation, line endings, final newline and byte order mark."""
    text = (before or b"").decode("utf-8-sig")
    lines = text.splitlines()
    indented = next((line for line in lines[1:] if line.strip()), "  ")
    indent: str | int | None = indented[: len(indented) - len(indented.lstrip())] or 2
    if before and len(lines) == 1:
        indent = None
    end = "" if text and not text.endswith("\n") else "\n"
    mark = b"\xef\xbb\xbf" if before and before.startswith(b"\xef\xbb\xbf") else b""
    made = json.dumps(settings, indent=indent, ensure_ascii=False) + end
    try:
        made.encode()
    except UnicodeEncodeError:  # half a surrogate pair: JSON can escape it, UTF-8 cannot encode it
        made = json.dumps(settings, indent=indent) + end
    return mark + (made.replace("\n", "\r\n") if "\r\n" in text else made).encode()


def _hook_groups(settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    hooks: object = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        return {}
    return {event: groups for event, groups in cast("dict[str, Any]", hooks).items() if isinstance(groups, list)}


def _hooks_of(group: object) -> list[dict[str, Any]]:
    hooks: Any = cast("dict[str, Any]", group).get("hooks") if isinstance(group, dict) else None
    listed = cast("Sequence[Any]", hooks) if isinstance(hooks, list) else ()
    return [hook for hook in listed if isinstance(hook, dict)]


def _is_our_hook(hook: Mapping[str, Any]) -> bool:
    command = hook.get("command")
    return isinstance(command, str) and event_of_command(command) is not None


def _our_hooks(settings: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return our hooks, each with its event."""
    every = [
        (event, hook) for event, some in _hook_groups(settings).items() for group in some for hook in _hooks_of(group)
    ]
    return [(event, hook) for event, hook in every if _is_our_hook(hook)]


def _remove_our_hooks(settings: dict[str, Any]) -> bool:
    """Remove our hooks, and groups and events that are empty without them; return whether there were any."""
    removed = False
    hooks = cast("dict[str, Any]", settings.get("hooks", {}))
    for event, groups in _hook_groups(settings).items():
        kept: list[Any] = []
        for group in groups:
            ours = [hook for hook in _hooks_of(group) if _is_our_hook(hook)]
            removed = removed or bool(ours)
            rest = [hook for hook in group["hooks"] if hook not in ours] if ours else None
            if rest:
                kept.append({**group, "hooks": rest})
            elif rest is None:
                kept.append(group)
        if kept != groups:
            hooks[event] = kept
        if not kept and groups:
            del hooks[event]
    if removed and not hooks:
        del settings["hooks"]
    return removed
