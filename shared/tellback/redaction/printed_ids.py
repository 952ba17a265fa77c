"""Ids alone in their line below the command that prints them: of commits, containers and images, and digests of files.

The line of the command may speak of a secret, as in `git log --format=%H -- src/auth/token.py`. What a program in a
container prints, or a file in a commit holds, is no such id, nor what another command in the line prints:
`cat $(git rev-parse --show-toplevel)/token`.
"""

from __future__ import annotations

from typing import Final

from tellback.lazy_pattern import lazy_pattern

_BEGIN: Final = (  # a prompt, and nothing else that prints
    r"[ \t]{0,8}+(?:\+{1,3}[ ]|Run[ ]|(?:\([\w.-]{1,40}+\)[ ]|PS[ ])?"
    r"(?:\[[^\]\s]{1,60}+[ ][^\]\s]{1,60}+\]|[^\s$#%>]{0,80}+)[$#%>][ ])?"
    r"(?:cd[ ][\w./~-]{1,200}+[ ]&&[ ])?(?:sudo[ ])?"
)
_ARGUMENTS: Final = r"(?:2>(?:&1|/dev/null)|[^\n;&|`<>$]|\$(?!\())*+"
_END: Final = rf"{_ARGUMENTS}(?:\|[ ](?:head|tail|cut|sort|uniq|awk)\b{_ARGUMENTS}){{0,3}}$"
_QUIET: Final = r"(?=[^\n]{0,160}?[ ](?:-[a-z]{0,3}q|--quiet\b|-(?:f|-format)[ =]?[\"']?\{\{\.id\}\}))"
# Of an option before the image: those of the program in the container stand behind it.
_SWITCH: Final = r"-(?:-(?:rm|init|privileged|read-only|tty|interactive)|[it]{1,2})[ ]"  # has no value
_DETACHED: Final = (
    rf"[ ](?:{_SWITCH}|(?!{_SWITCH})-[\w-]{{1,30}}+(?:=\S{{1,100}}+)?[ ](?:(?!-)\S{{1,100}}+[ ])?){{0,12}}?"
    r"-(?:-detach|[it]{0,2}d[it]{0,2})[ ]"
)
_OF_CONTAINERS: Final = (
    rf"(?:ps|images|build|inspect|(?:container|image|network|volume|secret)[ ]ls)\b{_QUIET}"
    rf"|create\b|commit\b|(?:container|network|volume|secret)[ ]create\b|run{_DETACHED}"
)
_OF_GIT: Final = (
    r"(?:-c[ ][^\s]{1,100}[ ]|--[a-z][\w=./-]{0,60}[ ]){0,3}(?:(?:rev-parse|rev-list|merge-base|hash-object"
    r"|stash[ ]create|commit-tree|write-tree|ls-remote|show-ref)\b|(?:log|for-each-ref)\b(?=[^\n]{0,160}?"
    r"(?:format|pretty)=(?:format:)?[\"']?(?:%h|%\(objectname)))"
)
# A digest of what another command prints is how people make keys: `openssl rand 32 | sha256sum`.
_OF_FILES: Final = r"(?:(?:md5|sha[0-9]{1,3}|b2)sum|shasum|md5[ ]-q|nix[ ]hash)\b"
_COMMAND: Final = lazy_pattern(
    rf"(?i){_BEGIN}(?:git[ ]{_OF_GIT}|(?:docker|podman|nerdctl)(?:[ -]compose)?[ ](?:{_OF_CONTAINERS})|{_OF_FILES}"
    rf"|npm[ ]view[ ](?=[^\n]{{0,160}}?dist\.(?:shasum|integrity)\b)){_END}"
)
# In full: what a command prints beside them is as secret as before.
_ID: Final = lazy_pattern(
    r"\s{0,40}+[\"']?(?:(?:sha256:)?(?:[0-9a-f]{7,12}|[0-9a-f]{40}|[0-9a-f]{64})|[0-9a-f]{32}|[0-9a-z]{25}"
    r"|sha(?:256|384|512)-[0-9A-Za-z+/]{43,86}={0,2})[\"']?\s{0,40}+"
)
_LONGEST: Final = 400  # characters of a command's line


def prints_ids(line: str) -> bool:
    """Return whether a line is a command that prints ids."""
    return len(line) <= _LONGEST and _COMMAND.match(line) is not None


def is_printed_id(line: str, above: str) -> bool:
    """Return whether a line is an id that the command in the line above printed."""
    return _ID.fullmatch(line) is not None and prints_ids(above)
