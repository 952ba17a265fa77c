"""`tellback hook install`: the hooks of Tellback in the settings file of an agent's program, and out of it again.

The file is JSON of the form that Claude Code reads: `{"hooks": {EVENT: [{"matcher": "*", "hooks": [{"type": "command",
"command": "..."}]}]}}`. What others have written in it stays as it is, byte for byte where nothing of ours stands.
"""

from __future__ import annotations

import json
import math
import os
import py_compile
import shlex
import sys
from collections.abc import Mapping, MutableSequence, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from tellback.errors import ConfigurationError
from tellback.hook.process import EVENTS

BACKUP: Final = ".before-tellback"
NO_FILE: Final = b"There was no settings file.\n"  # in place of a copy
_WRITABLE: Final = 0o222  # for anybody
TIMEOUT: Final = 10  # seconds after which the agent's program ends a hook process, should all else fail
_WITH_MATCHER: Final = frozenset({"PostToolUse", "PostToolUseFailure"})


class Change(NamedTuple):
    """What would become of a settings file; `before` is None where there is none."""

    path: Path
    before: bytes | None
    after: bytes | None


def installed(path: Path, program: str, arguments: Sequence[str]) -> Change:
    """The file with a hook for each event; one that has them, of any version of ours, gets these in their place.

    Raises:
        ConfigurationError: the file is not what an agent's program reads; it stays as it is.
    """
    before, settings = _read(path)
    original = _loads(before or b"")
    _remove(settings)
    hooks = _mapping(settings, "hooks", path)
    for name, event in EVENTS.items():
        command = shlex.join([program, "hook", name, *arguments])
        entry: dict[str, Any] = {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT}]}
        groups: Any = hooks.setdefault(event, [])
        if not isinstance(groups, list):
            raise ConfigurationError(f"{path}: hooks.{event} is no list; nothing was changed")
        cast("MutableSequence[Any]", groups).append({"matcher": "*", **entry} if event in _WITH_MATCHER else entry)
    return Change(path, before, before if settings == original else _dumps(settings, before))


def uninstalled(path: Path) -> Change:
    """The file without our hooks: its very bytes before the installation where nothing else has changed since.

    Raises:
        ConfigurationError: the file is not what an agent's program reads; it stays as it is.
    """
    before, settings = _read(path)
    if before is None or not _remove(settings):
        return Change(path, before, before)
    try:
        earlier = _beside(path).read_bytes()
    except OSError:
        return Change(path, before, _dumps(settings, before))
    if earlier == NO_FILE:
        return Change(path, before, _dumps(settings, before) if settings else None)
    unchanged = _without_empty(_loads_or_none(earlier)) == _without_empty(settings)
    return Change(path, before, earlier if unchanged else _dumps(settings, before))


def write(change: Change) -> None:
    """Put the file in place at once and whole, with the mode it had; through a symbolic link, its target.

    Raises:
        ConfigurationError: it cannot be written, or has changed since it was read.
    """
    path = Path(os.path.realpath(change.path))
    try:
        if _bytes(path) != change.before:
            raise ConfigurationError(f"{path} has just been changed by another program; run this again")
        _refuse_read_only(path)
        if change.after is None:
            path.unlink()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, path.stat().st_mode & 0o7777 if path.exists() else 0o600)
                file.write(change.after)
                file.flush()
                os.fsync(descriptor)
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}; nothing was changed") from error


def compile_modules() -> None:
    """Compile what a hook process imports, where that can be kept: else each tool call would pay for it."""
    import_module("tellback.hook.handling")
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "tellback" and getattr(module, "__file__", None):
            with suppress(OSError, py_compile.PyCompileError):
                py_compile.compile(str(module.__file__), doraise=True)


def keep_backup(change: Change) -> Path | None:
    """Keep what the file was before any hook of ours stood in it, or that there was none.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    backup = _beside(change.path)
    _refuse_read_only(change.path)
    if change.before is not None and _has_ours(_loads(change.before)):
        return backup if backup.exists() else None
    try:
        backup.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(NO_FILE if change.before is None else change.before)
    except OSError as error:
        raise ConfigurationError(f"{backup} cannot be written: {error.strerror}; nothing was changed") from error
    return backup


def _refuse_read_only(path: Path) -> None:
    """Replacing a file does not ask for the right to write it: somebody who took that right away meant it."""
    if path.exists() and not path.stat().st_mode & _WRITABLE:
        raise ConfigurationError(f"{path} is read-only; nothing was changed")


def drop_backup(change: Change) -> None:
    """Forget what the file was, once it is that again."""
    _beside(change.path).unlink(missing_ok=True)


def commands_in(path: Path) -> dict[str, str]:
    """Our commands in the file, by event.

    Raises:
        ConfigurationError: the file is not what an agent's program reads.
    """
    _, settings = _read(path)
    found: dict[str, str] = {}
    for event, groups in _groups(settings).items():
        for group in groups:
            for hook in _hooks(group):
                if _is_ours(hook):
                    found[event] = str(hook["command"])
    return found


def _beside(path: Path) -> Path:
    real = Path(os.path.realpath(path))
    return real.with_name(real.name + BACKUP)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _read(path: Path) -> tuple[bytes | None, dict[str, Any]]:
    try:
        before = _bytes(path)
        found: object = _loads(before or b"")
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is no JSON that can be read: {error}; nothing was changed") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path} holds no JSON object; nothing was changed")
    settings = cast("dict[str, Any]", found)
    _mapping(settings, "hooks", path, add=False)
    return before, settings


def _loads(raw: bytes) -> Any:
    text = raw.decode("utf-8-sig")
    return json.loads(
        text if text.strip() else "{}",
        object_pairs_hook=_without_doubles,
        parse_constant=_no_number,
        parse_float=_number,
    )


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _number(text: str) -> float:
    """A number that can be written again."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number


def _loads_or_none(raw: bytes) -> Any:
    try:
        return _loads(raw)
    except ValueError:
        return None


def _without_empty(settings: Any) -> Any:
    """Without events that have no hooks, which an installation and its removal leave nothing of."""
    if not isinstance(settings, dict):
        return settings
    kept = cast("dict[str, Any]", settings)
    groups = {event: found for event, found in _groups(kept).items() if found}
    return {**{key: value for key, value in kept.items() if key != "hooks"}, **({"hooks": groups} if groups else {})}


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _mapping(settings: dict[str, Any], key: str, path: Path, *, add: bool = True) -> dict[str, Any]:
    value: object = settings.setdefault(key, {}) if add else settings.get(key, {})
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path}: {key} is no object; nothing was changed")
    return cast("dict[str, Any]", value)


def _dumps(settings: Mapping[str, Any], before: bytes | None) -> bytes:
    """JSON with the indentation, the ends of lines and of the file, and the byte order mark that the file had."""
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
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can name and UTF-8 cannot hold
        made = json.dumps(settings, indent=indent) + end
    return mark + (made.replace("\n", "\r\n") if "\r\n" in text else made).encode()


def _groups(settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    hooks: object = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        return {}
    return {event: groups for event, groups in cast("dict[str, Any]", hooks).items() if isinstance(groups, list)}


def _hooks(group: object) -> list[dict[str, Any]]:
    hooks: Any = cast("dict[str, Any]", group).get("hooks") if isinstance(group, dict) else None
    listed = cast("Sequence[Any]", hooks) if isinstance(hooks, list) else ()
    return [hook for hook in listed if isinstance(hook, dict)]


def _is_ours(hook: Mapping[str, Any]) -> bool:
    command = hook.get("command")
    if not isinstance(command, str):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return len(words) > 2 and Path(words[0]).name == "tellback" and words[1] == "hook" and words[2] in EVENTS


def _has_ours(settings: Mapping[str, Any]) -> bool:
    return any(_is_ours(hook) for groups in _groups(settings).values() for group in groups for hook in _hooks(group))


def _remove(settings: dict[str, Any]) -> bool:
    """Take our hooks out, and what then is empty and would not be there without them."""
    removed = False
    hooks = cast("dict[str, Any]", settings.get("hooks", {}))
    for event, groups in _groups(settings).items():
        kept: list[Any] = []
        for group in groups:
            ours = [hook for hook in _hooks(group) if _is_ours(hook)]
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
