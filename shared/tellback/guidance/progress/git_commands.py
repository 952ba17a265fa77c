"""The effect of commands of git: which read, search or write, by their subcommand and its options."""

from __future__ import annotations

import re
from typing import Final

from tellback.guidance.progress.effects import Effect, words_in

GIT_READERS: Final = words_in(
    "log show status diff blame rev-parse ls-files ls-tree describe cat-file shortlog rev-list merge-base name-rev",
    "for-each-ref check-ignore whatchanged range-diff grep ls-remote count-objects check-attr var version show-ref",
    "cherry diff-tree diff-index diff-files verify-commit",
)
_GIT_READS: Final = GIT_READERS | {"fsck", "help", "show-branch", "merge-tree", "archive", "hash-object", ""}
# Subcommands of git that read without a name, and write with one, unless they are told to list what there is.
_GIT_EITHER: Final = words_in("branch tag remote notes submodule config symbolic-ref")
_GIT_NAMED: Final = words_in("config symbolic-ref")  # with a name they read it, and write with a value
_GIT_LISTS: Final = "--list -l --contains --no-contains --merged --no-merged --points-at"
_GIT_SHOWS: Final = {
    "branch": words_in(_GIT_LISTS),
    "tag": words_in(_GIT_LISTS),
    "config": words_in("--get --get-all --get-regexp --list -l get list"),
    "remote": words_in("show get-url"),
    "worktree": words_in("list"),
    "notes": words_in("list show"),
    "stash": words_in("list show"),
    "bisect": words_in("log view"),
    "submodule": words_in("status summary"),
    "apply": words_in("--check --stat --numstat --summary"),
    "clean": words_in("-n -nd -dn -ndx -nfd --dry-run"),
    "add": words_in("-n --dry-run"),
    "rm": words_in("-n --dry-run"),
    "mv": words_in("-n --dry-run"),
    "push": words_in("-n --dry-run"),
    "fetch": words_in("--dry-run"),
    "commit": words_in("--dry-run"),
    "bundle": words_in("verify list-heads"),
    "lfs": words_in("ls-files status env"),
    "sparse-checkout": words_in("list"),
    "rerere": words_in("status diff"),
    "format-patch": words_in("--stdout"),
}
# Options that change something without a name.
_GIT_SETS: Final = re.compile(r"--(?:set-|unset|edit|output)")
# Options of git itself, before its subcommand, that take the next word.
_GIT_WITH_VALUE: Final = words_in("-C -c --git-dir --work-tree --namespace")
# Subcommands of git that leave every file as it is; a push or a fetch may change what a service or a log shows.
_GIT_KEEPS: Final = words_in("add stage commit tag branch config remote notes init gc")
# Options by which `git log` looks for a word.
_PICKAXE: Final = re.compile(r"-[SG]|--grep")


def git_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command of git from its subcommand on."""
    return from_subcommand(words, _GIT_WITH_VALUE)


def from_subcommand(
    words: tuple[str, ...], with_value: frozenset[str], groups: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Return the words of a command from its subcommand on, behind options and the names of `groups`."""
    place = 0
    while place < len(words) and (words[place].startswith("-") or words[place] in groups):
        place += 2 if words[place] in with_value else 1
    return words[place:] if place else words


def git_keeps_files(words: tuple[str, ...]) -> bool:
    """Check whether a command of git that changes something leaves every file as it is."""
    words = git_words(words)
    if words[:1] == ("reset",):  # without a mode it changes what is staged
        return {"--hard", "--merge", "--keep"}.isdisjoint(words)
    if words[:1] == ("rm",):
        return "--cached" in words
    if words[:1] == ("restore",):
        return not {"--staged", "-S"}.isdisjoint(words) and {"--worktree", "-W"}.isdisjoint(words)
    return words[0] in _GIT_KEEPS if words else False


def git_effect(words: tuple[str, ...]) -> Effect:
    """Return the effect of a command of git."""
    words = git_words(words)
    first = next((word for word in words if not word.startswith("-")), "")
    if first == "grep" or (first == "log" and any(map(_PICKAXE.match, words))):
        return "search"
    if not _GIT_SHOWS.get(first, frozenset()).isdisjoint((*words[1:2], *(w for w in words if w.startswith("-")))):
        return "read"
    if any(map(_GIT_SETS.match, words)) or (first == "archive" and any(word.startswith("-o") for word in words)):
        return "write"
    plain = [word for word in words if not word.startswith("-")]
    if first == "reflog":
        return "write" if {"expire", "delete"} & {*plain[1:2]} else "read"
    if first in _GIT_EITHER:
        return "read" if len(plain) <= (2 if first in _GIT_NAMED else 1) else "write"
    return "read" if first in _GIT_READS else "write"
