"""Command lines that take changes back, put them aside, or go to another revision."""

from __future__ import annotations

import re
from typing import Final

from tellback.guidance.progress.effects import words_in
from tellback.guidance.progress.git_commands import git_words
from tellback.guidance.shell import SimpleCommand

# A copy from such a name takes a file back. A copy to it is made before an edit, and restores nothing.
_BACKUP: Final = re.compile(
    r"\.(?:bak|backup|orig|original|old|save)\d*$|[._-](?:backup|bak|orig|original)\b", re.IGNORECASE
)

_REVERSED: Final = frozenset({"-R", "--reverse"})


def restored_path(command: SimpleCommand) -> str:
    """Return the path that a command such as `git checkout FILE` or `cp FILE.bak FILE` takes back; "" for none."""
    words = git_words(command.words) if command.program == "git" else command.words
    if command.program in ("cp", "mv") and len(words) >= 2:
        return words[-1] if _BACKUP.search(words[-2]) and not _BACKUP.search(words[-1]) else ""
    if command.program == "patch" or (command.program == "git" and words[:1] == ("apply",)):
        return "*" if _REVERSED & set(words) else ""
    return _restored_by_git(words, command.writes_to) if command.program == "git" and words else ""


_REVISION: Final = re.compile(r"[0-9a-f]{7,40}|(?:HEAD|ORIG_HEAD|@)?[~^@][\w~^{}-]*|(?:v|release[-/])?\d[\w.-]*\d|-")


def moves_elsewhere(command: SimpleCommand) -> bool:
    """Check whether a command of git goes to another revision or branch, not to a new one made of what is there."""
    words = git_words(command.words) if command.program == "git" else ()
    if not words:
        return False
    first, rest = words[0], words[1:]
    if first == "bisect":
        return True
    if {"-b", "-B", "-c", "-C", "--orphan"} & set(rest):
        return False
    if first == "switch":
        return True
    names = [word for word in rest if not word.startswith("-") or word == "-"]
    return first == "checkout" and "--" not in rest and len(names) == 1 and bool(_REVISION.fullmatch(names[0]))


# The words behind `git stash` that put changes aside; it does so without one, too.
_STASHES: Final = words_in("push save -u -k -q -a -m --include-untracked")


def unstashes(command: SimpleCommand) -> bool:
    """Check whether a command brings back what `git stash` put aside."""
    if command.program != "git" or "stash" not in command.words:
        return False
    return git_words(command.words)[:1] == ("stash",) and not {"pop", "apply"}.isdisjoint(command.words)


def stashes(command: SimpleCommand) -> bool:
    """Check whether a command puts all changes aside."""
    words = git_words(command.words) if command.program == "git" else ()
    return words[:1] == ("stash",) and _STASHES.issuperset(words[1:2])


def _restored_by_git(words: tuple[str, ...], writes_to: tuple[str, ...]) -> str:
    first, rest = words[0], [word for word in words[1:] if word != "."]
    found = ""
    if first == "show":  # git show HEAD:FILE > FILE
        found = next((path for path in writes_to if any(word.endswith(f":{path}") for word in rest)), "")
    elif first == "checkout" and not {"--ours", "--theirs"} & set(rest):  # the two sides of a conflict
        is_path = "--" in rest or any("." in word for word in rest if not word.startswith("-"))
        found = rest[-1] if rest and is_path else "*" if words[-1] == "." else ""
    elif first == "reset" and "--hard" in rest:  # with another commit it moves the branch
        found = "*" if set(rest) <= {"--hard", "HEAD", "-q", "--quiet"} else ""
    elif first == "stash":
        found = "*" if _STASHES.issuperset(rest[:1]) else ""
    elif first == "restore" and "--staged" not in rest:
        found = rest[-1] if rest else "*"
    return found


def copied_files(command: SimpleCommand) -> tuple[str, str] | None:
    """Return the file that a command copies and its copy."""
    paths = [word.removeprefix("./") for word in command.words if not word.startswith("-")]
    return (paths[0], paths[1]) if command.program == "cp" and len(paths) == 2 else None
