"""Read the files and the changed texts of a patch: of Codex's `apply_patch`, of `diff -u`, or of search and replace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tellback.guidance.progress.prints import only_prints
from tellback.guidance.progress.substance import mark_of

# Longer patches are cut: their beginning shows where they differ.
_CHARS: Final = 20_000
_PATHS_MAX: Final = 6
_FILE: Final = re.compile(
    r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ (?:b/)?(?!/dev/null))([^\t\n]{1,300})", re.MULTILINE
)
_NEW_FILE: Final = re.compile(r"^(?:\*\*\* Add File: |--- /dev/null)", re.MULTILINE)
_OLD_FILE: Final = re.compile(r"^(?:\*\*\* (?:Update|Delete) File: |--- (?!/dev/null))", re.MULTILINE)
_BLOCK: Final = re.compile(
    r"^(?:<{5,9} ?SEARCH|-{5,9} ?SEARCH)[^\n]*\n(.*?)^={5,9}[ \t]*\n(.*?)^(?:>{5,9}|\+{5,9}) ?REPLACE",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch: its files, fingerprints of what it takes away and adds, and whether it only creates files or prints."""

    paths: tuple[str, ...]
    old: int
    new: int
    creates: bool = False
    prints: bool = False


def read_patch(text: str) -> Patch | None:
    """Return the patch that a text is, None if it is none; blocks of search and replace name no file."""
    text = text[:_CHARS]
    blocks = _BLOCK.findall(text)
    if blocks:
        old, new = ("\n".join(each) for each in zip(*blocks, strict=True))
        return Patch((), mark_of(old), mark_of(new), prints=only_prints(old, new))
    paths = tuple(dict.fromkeys(path.strip() for path in _FILE.findall(text)))[:_PATHS_MAX]
    if not paths:
        return None
    lines = [line for line in text.splitlines() if not line.startswith(("+++", "---"))]
    old, new = ("\n".join(line[1:] for line in lines if line.startswith(sign)) for sign in "-+")
    creates = bool(_NEW_FILE.search(text)) and not _OLD_FILE.search(text)
    return Patch(paths, mark_of(old), mark_of(new), creates, prints=not creates and only_prints(old, new))
