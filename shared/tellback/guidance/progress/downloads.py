"""The files that `curl` and `wget` save, since such a call changes something and no longer only asks a server."""

from __future__ import annotations

import re
from typing import Final

from tellback.guidance.progress.effects import words_in
from tellback.guidance.shell import SimpleCommand

# The flags that may stand before the letter in one word, as in `curl -sSLo FILE`; `-XPOST` has an O too.
_OUTPUT: Final = {
    "curl": re.compile(r"-[sSLfkvigGNIjlaqRZn]*(?:o|(?P<by_address>O))|--output(?:=|$)|(?P<named>--remote-name)"),
    "wget": re.compile(r"-[qcNnv]*O|--output-document(?:=|$)"),
}
_NO_FILES: Final = words_in("- /dev/null /dev/stdout")
_SAVES_NOTHING: Final = words_in("--spider --version --help -V -h")


def saves_file(command: SimpleCommand) -> bool:
    """Check whether a command is a download into a file."""
    return saved_file(command) is not None


def saved_file(command: SimpleCommand) -> str | None:
    """Return the file that a download goes to, "" if the address names it, None if nothing is saved."""
    output = _OUTPUT.get(command.program)
    if output is None or not _SAVES_NOTHING.isdisjoint(command.words):
        return None
    for n, word in enumerate(command.words):
        if option := output.match(word):
            name = word[option.end() :] or next(iter(command.words[n + 1 : n + 2]), "")
            return "" if option.lastgroup else None if name in _NO_FILES else name
    return "" if command.program == "wget" else None
