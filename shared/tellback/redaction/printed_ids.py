"""Ids alone in their line below the command that prints them: of commits, containers and images, and digests of files.

The line of the command may speak of a secret, as in `git log --format=%H -- src/auth/token.py`. What a program in a
container prints, or a file in a commit holds, is no such id.
"""

from __future__ import annotations

from typing import Final

from tellback.lazy_pattern import lazy_pattern

_OF_CONTAINERS: Final = (
    r"(?:ps|images|build[ ]-q|create|commit)\b|(?:container|image|network|volume|secret)[ ](?:ls|create)\b"
    r"|run[ ](?=[^\n]{0,160}?(?<![\w-])-(?:-detach|[a-z]{0,3}d[a-z]{0,3})(?![\w-]))|inspect[ ](?=[^\n]{0,160}?\.id\b)"
)
_OF_GIT: Final = (
    r"(?:-c[ ][^\s]{1,100}[ ]|--[a-z][\w=./-]{0,60}[ ]){0,3}(?:rev-parse|rev-list|log|merge-base|hash-object"
    r"|stash[ ]create|commit-tree|write-tree|ls-remote|show-ref|for-each-ref|bisect)\b"
)
# A digest of what another command prints is how people make keys: `openssl rand 32 | sha256sum`.
_OF_FILES: Final = r"(?<!\|[ ])(?:(?:md5|sha[0-9]{1,3}|b2)sum\b|shasum\b|md5[ ]-q\b|nix[ ]hash\b)"
_COMMAND: Final = lazy_pattern(
    rf"(?i)(?<![\w.-])(?:git[ ]{_OF_GIT}|(?:docker|podman|nerdctl)(?:[ -]compose)?[ ](?:{_OF_CONTAINERS})|{_OF_FILES}"
    r"|npm[ ]view[ ][^\n]{0,160}?dist\.(?:shasum|integrity)\b)"
)
# In full: what a command prints beside them is as secret as before.
_ID: Final = lazy_pattern(
    r"\s{0,40}+[\"']?(?:(?:sha256:)?(?:[0-9a-f]{7,12}|[0-9a-f]{40}|[0-9a-f]{64})|[0-9a-f]{32}|[0-9a-z]{25}"
    r"|sha(?:256|384|512)-[0-9A-Za-z+/]{43,86}={0,2})[\"']?\s{0,40}+"
)
_LONGEST: Final = 400  # characters of a command's line


def prints_ids(line: str) -> bool:
    """Return whether a line is a command that prints ids."""
    return len(line) <= _LONGEST and _COMMAND.search(line) is not None


def is_printed_id(line: str, above: str) -> bool:
    """Return whether a line is an id that the command in the line above printed."""
    return _ID.fullmatch(line) is not None and prints_ids(above)
