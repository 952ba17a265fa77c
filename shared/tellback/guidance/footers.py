"""The lines that agents' programs write below the output of a command: exit codes, folders, interpreters, prompts."""

from __future__ import annotations

import re
from typing import Final

_FOOTER: Final = re.compile(
    r"(?:\A|\n)(?:(?:Error|Stderr|Signal|Background PIDs): \((?:none|empty)\)|Exit Code: (?:-?\d+|\(none\))"
    r"|Signal: 0|Background PIDs: \d[\d, ]{0,200}"  # Gemini CLI
    r"|Exit code -?[1-9]\d{0,3}"  # Crush, only of a failure; `echo Exit code $?` says 0 too
    r"|<exited with exit code -?\d+>|<cwd>[^\n]{0,400}</cwd>"  # Copilot CLI, Crush
    r"|Process Group PGID: \S+|\[?(?:The )?[Cc]ommand (?:finished|exited|completed|failed|took)\b[^\n]{0,60}"
    r"|\[[Ee]xit (?:code|status):? -?\d+\]|\[Current working directory: [^\n]*|\(Open file: [^\n]*"
    r"|\(Current directory: [^\n]*|bash-\$|Shell cwd was reset to [^\n]*|Shell state \(cwd, [^\n]*|```"
    r"|\S{1,60}@\S{1,60}:[^\n]{1,200}[#$])[ \t]*$"
    r"|\[Jupyter (?:current working directory|Python interpreter): [^\n]*$"
    r"|\[Code executed successfully with no output\]$"
    r"|\[Python [Ii]nterpreter: [^\n]*$"  # OpenHands, behind an output that ends without a line end
)
_FOOTER_LINES: Final = 12


def without_footer(text: str) -> str:
    """Return an output without the lines that an agent's program writes below it."""
    text = text.rstrip()
    for _ in range(_FOOTER_LINES):
        below = _FOOTER.search(text, max(0, len(text) - 500, text.rfind("\n")))  # it is one line, the last
        if below is None:
            break
        text = text[: below.start()].rstrip()
    return text
