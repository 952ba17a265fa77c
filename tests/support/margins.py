"""Margins before each line of a text where agents read it, and texts within other texts."""

import json
import random
from collections.abc import Callable

EACH_LINE: dict[str, Callable[[int], str]] = {
    "compose": lambda _: "web-1  | ",
    "journald": lambda _: "Mar 02 10:11:12 host1 app[812]: ",
    "rfc 3339": lambda number: f"2026-03-02T10:11:12.{345 + number}Z ",
    "python logging": lambda number: f"2026-03-02 10:11:12,{345 + number} INFO app: ",
    "cat -n": lambda number: f"{number + 12:6}\t",
    "a reader of files": lambda number: f"{number + 12:6}→",
    "grep": lambda number: f"notes.txt-{number + 12}-",
    "buildkit": lambda number: f"#12 3.{412 + number} ",
    "stern": lambda _: "web-7d9f8b6c5d-x7k2p web ",
    "diff": lambda _: "+",
    "mail": lambda _: "> ",
    "comment": lambda _: "# ",
    "indentation": lambda _: "        ",
}
_WHOLE: dict[str, Callable[[str], str]] = {
    "json": lambda text: json.dumps({"output": text}, ensure_ascii=False),
    "json within json": lambda text: json.dumps({"m": json.dumps({"output": text}, ensure_ascii=False)}),
    "repr": repr,
    "fence": lambda text: f"```\n{text}\n```",
    "crlf": lambda text: text.replace("\n", "\r\n"),
}


def wrapped(text: str, rng: random.Random) -> str:
    """Return the text behind some margin, or within another text."""
    wrapping = rng.choice((*EACH_LINE, *_WHOLE))
    if wrapping in _WHOLE:
        return _WHOLE[wrapping](text)
    margin = EACH_LINE[wrapping]
    return "\n".join(margin(number) + line for number, line in enumerate(text.split("\n")))
