"""The fifteenth corpus of secrets: notes that people write, in seven languages, and look-alikes that must stay.

A line of `tests/data/notes_apart/secrets.txt` names a kind and a note; the hash of the kind says whether its misses
may be read. Passwords are those that people make, of words and numbers, and random ones.
"""

import base64
import hashlib
import json
import random
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_DATA: Final = Path(__file__).parents[1] / "data" / "notes_apart"
_WORDS: Final = (
    *("otter", "maple", "tango", "quartz", "violet", "harbor", "lemon", "rocket", "winter", "copper", "saddle"),
    *("pepper", "tiger", "blossom", "falcon"),
)
_LETTERS: Final = string.ascii_letters + string.digits
_HEXADECIMAL: Final = "0123456789abcdef"
_USERS: Final = ("bob", "alice", "svc-deploy", "jenkins", "m.kowalski", "root", "app_rw", "admin", "postgres")
_HOSTS: Final = ("db-stg-01.corp.lan", "10.3.4.17", "mail.example.net", "jump2", "nas.local", "build-7")
_EACH: Final = 3  # samples of a line


def may_be_read(kind: str) -> bool:
    """Return whether the misses of a kind may be read while rules are changed."""
    return hashlib.sha256(kind.encode()).digest()[0] % 2 == 1


def notes() -> Iterator[tuple[str, str, str]]:
    """Yield the kind of each sample, its text and the secret in it."""
    drawn = random.Random(20261130)
    for kind, note in _lines("secrets.txt"):
        for number in range(_EACH):
            values = {
                "p": _password(drawn),
                "p2": _password(drawn),
                "k": _key(drawn),
                "d6": _of(drawn, "0123456789", 6),
            }
            text = _filled(note, values | {"u": drawn.choice(_USERS), "h": drawn.choice(_HOSTS)})
            yield (
                kind,
                _WRAPPINGS[number](text),
                values[next(name for name in ("p", "k", "d6") if f"{{{name}}}" in note)],
            )


def lookalikes() -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each sample that holds no secret."""
    drawn = random.Random(20261130)
    for kind, line in _lines("clean.txt"):
        for number in range(_EACH):
            hexadecimal = {f"h{size}": _of(drawn, _HEXADECIMAL, size) for size in (7, 8, 12, 32, 40, 64)}
            values = hexadecimal | {
                "uuid": "-".join(_of(drawn, _HEXADECIMAL, size) for size in (8, 4, 4, 4, 12)),
                "b64": base64.b64encode(drawn.randbytes(48)).decode(),
                "b32": base64.b64encode(drawn.randbytes(32)).decode(),
                "id22": _of(drawn, _LETTERS, 22),
                "id24": _of(drawn, _LETTERS, 24),
                "t50": _of(drawn, _LETTERS, 60),
                "up26": _of(drawn, "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 26),
                "png": "iVBORw0KGgoAAAANSUhEUgAA" + base64.b64encode(drawn.randbytes(90)).decode(),
                "n": str(drawn.randint(1, 99_999)),
                "w": drawn.choice(_WORDS),
                "W": drawn.choice(_WORDS).title(),
                "v": f"{drawn.randint(0, 9)}.{drawn.randint(0, 30)}.{drawn.randint(0, 30)}",
                "u": drawn.choice(_USERS),
                "h": drawn.choice(_HOSTS),
            }
            yield kind, _WRAPPINGS[number](_filled(line, values))


def _lines(name: str) -> list[tuple[str, str]]:
    lines = (_DATA / name).read_text(encoding="utf-8").splitlines()
    return [(kind, text.replace("\\n", "\n")) for kind, _, text in (line.partition("\t") for line in lines)]


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _of(drawn: random.Random, characters: str, size: int) -> str:
    return "".join(drawn.choices(characters, k=size))


def _random(drawn: random.Random, size: int) -> str:
    """Return random letters of both cases with two digits or more."""
    while True:
        value = _of(drawn, _LETTERS, size)
        if value.upper() != value != value.lower() and sum(map(str.isdigit, value)) > 1:
            return value


def _key(drawn: random.Random) -> str:
    return _of(drawn, _HEXADECIMAL, 32) if drawn.random() < 0.4 else _random(drawn, drawn.choice((24, 32, 40)))


def _password(drawn: random.Random) -> str:
    first, second = drawn.choices(_WORDS, k=2)
    number = drawn.randint(10, 99)
    return drawn.choice(
        (
            f"{first.title()}{drawn.randint(10, 2030)}!",
            f"{first}-{second}-{number}",
            f"{first.title()}{second.title()}{drawn.randint(1, 999)}",
            f"{first[:3].title()}{_of(drawn, _LETTERS, 4)}{number}#",
            f"{first}{drawn.randint(100, 9999)}",
            f"{first.replace('o', '0').replace('e', '3').replace('a', '@')}{number}!",
            f"{first.title()}_{second}_{number}",
            _random(drawn, 12),
            _random(drawn, 16),
        )
    )


_WRAPPINGS: Final[tuple[Callable[[str], str], ...]] = (
    str,
    lambda text: json.dumps({"id": 7, "text": text}),
    lambda text: "\n".join(f"web-1  | {line}" for line in text.split("\n")),
)
