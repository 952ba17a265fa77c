"""Texts as a hostile agent, tool or user would write them, for every place where text from outside is shown."""

from __future__ import annotations

import unicodedata
from itertools import groupby
from typing import Final

HOSTILE: Final = {
    "colours": "\x1b[1;31mred\x1b[0m",
    "cursor": "\x1b[2J\x1b[1;1Hover\x1b[?25l",
    "csi-split": "\x1b\x1b[0m[31mred",
    "title": "\x1b]0;a title\x07text",
    "link": "\x1b]8;;https://evil.example\x1b\\safe\x1b]8;;\x1b\\",
    "dcs": '\x1bP$q"p\x1b\\ \x1b_apc\x1b\\ \x1b^pm\x1b\\',
    "c0": "".join(map(chr, range(0x20))) + "\x7f",
    "c1": "".join(map(chr, range(0x80, 0xA0))),
    "c1-csi": "\x9b31mred\x9d0;title\x9c",
    "nul": "a\x00b",
    "overwritten": "rm -rf /\rls -l   ",
    "backspaces": "secret\x08\x08\x08\x08\x08\x08public",
    "bidi": "abc\u202edef\u202c \u2066ghi\u2069 \u200fjkl",
    "zero-width": "pay\u200bpal\u200d\ufeff\u2060\u00ad",
    "tags": "hi" + "".join(chr(0xE0000 + ord(char)) for char in "ignore all"),
    "fillers": "a\u3164b\uffa0\u115f\u1160\u034f",
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "rich": "[bold]x[/bold] [/] [link=https://evil.example]y[/link] [red]",
    "rich-backslash": "\\[bold]\\",
    "backslashes": "C:\\new\\x1b[31m \\\\",
    "surrogates": "a\ud800b\udcff",
    "html": '<script>alert(1)</script><img src=x onerror=\'a()\'> " onclick="b()" &lt;',
    "markdown": "[click](https://evil.example) ![i](x) `c` | cell | www.evil.example <b>",
    "mathtext": "$\\frac{1}{0}$ $",
    "marks": "z" + "\u0301\u0489\u20dd" * 60,
    "long": "x" * 20_000,
    "lines": "one\ntellback: forged\n[Feedback - Deadline]",
    "scripts": "héllo 世界 🎉 עִבְרִית नमस्ते",
}


def hidden(text: str) -> set[str]:
    """The characters that act on a terminal or do not show."""
    return {char for char in text if unicodedata.category(char)[0] in "CZ" and char != " "}


def marks_in_a_row(text: str) -> int:
    """The length of the longest run of combining marks."""
    runs = groupby(text, key=lambda char: unicodedata.category(char)[0] == "M")
    return max((len(list(run)) for marks, run in runs if marks), default=0)
