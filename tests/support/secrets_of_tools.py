"""The eighth corpus of secrets: what agents see of the tools of clouds and builds (`tests/data/tools_apart`)."""

import random
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "tools_apart"
DIGITS, LOWER = "0123456789", "abcdefghijklmnopqrstuvwxyz"
UPPER = LOWER.upper()
BECH = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
ALPHABETS = {
    "num": DIGITS,
    "hex": DIGITS + "abcdef",
    "HEX": DIGITS + "ABCDEF",
    "low": LOWER,
    "low2": LOWER + DIGITS,
    "A": UPPER,
    "AN": UPPER + DIGITS,
    "A27": UPPER + "234567",
    "B32": UPPER + "234567",
    "b52": LOWER + UPPER,
    "b62": LOWER + UPPER + DIGITS,
    "b64": LOWER + UPPER + DIGITS + "+/",
    "b64d": LOWER + UPPER + DIGITS + "./",
    "u64": LOWER + UPPER + DIGITS + "-_",
    "bech": BECH,
    "BECH": BECH.upper(),
    "dj": LOWER + DIGITS + "!@#%^&*(-_=+)",
}
PART = re.compile(r"\{(\w+)(?::(\d+))?\}")
HOLE = re.compile("«([^»]*)»|\u2039([^\u203a]*)\u203a")
WORDS = ("river", "copper", "Falcon", "summer", "Orchid", "tango", "winter", "Mango", "harbor", "Velvet")


@dataclass(frozen=True)
class SampleOfTools:
    """A text, and the secrets in it that must be hidden."""

    kind: str
    form: str
    text: str
    secrets: tuple[str, ...]

    def leaks(self, redacted: str) -> int:
        return sum(secret in redacted for secret in self.secrets)


def value_of(form: str, rng: random.Random) -> str:
    def part(match: re.Match[str]) -> str:
        if match[1] == "uuid":
            return str(uuid.UUID(int=rng.getrandbits(128), version=4))
        return "".join(rng.choices(ALPHABETS[match[1]], k=int(match[2])))

    return PART.sub(part, form)


def password_of(rng: random.Random) -> str:
    """Return a password as people and generators make them: words with digits, or random characters."""
    style = rng.randrange(5)
    if style == 0:
        return f"{rng.choice(WORDS)}{rng.randrange(10, 9999)}{rng.choice('!#*?')}"
    if style == 1:
        return f"{rng.choice(WORDS)}-{rng.choice(WORDS)}-{rng.randrange(10, 99)}"
    if style == 2:
        return value_of("{b62:16}", rng)
    if style == 3:
        return value_of("{b62:5}", rng) + rng.choice("!#*_") + value_of("{b62:6}", rng)
    return value_of("{b62:2}{num:1}{b62:7}", rng)


def _lines(file: str) -> list[str]:
    """Return the forms of a file, with their line breaks and tabs; the first line is a remark."""
    lines = (FOLDER / file).read_text(encoding="utf-8").splitlines()[1:]
    return [line.replace("¶", "\n").replace("⇥", "\t") for line in lines]


@cache
def kinds() -> tuple[tuple[str, str, str], ...]:
    """Return class, name and form of the value of each kind."""
    rows = [line.split(" | ") for line in _lines("kinds.txt")]
    return tuple((row[0], row[1], row[2]) for row in rows)


def _sections(file: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    section = ""
    for line in _lines(file):
        if line.startswith("## ") and line[3].islower():
            section = line[3:]
            found[section] = []
        else:
            found[section].append(line)
    return found


@cache
def forms() -> dict[str, list[str]]:
    return _sections("forms.txt")


@cache
def clean_forms() -> list[str]:
    return [form for forms_ in _sections("clean.txt").values() for form in forms_]


def _fill(form: str, name: str, value: str) -> str:
    words = name.split()
    title = [word.capitalize() for word in words]
    holes = {
        "V": value,
        "NAME": "_".join(words).upper(),
        "name": "_".join(words),
        "na-me": "-".join(words),
        "na.me": ".".join(words),
        "naMe": words[0] + "".join(title[1:]),
        "NaMe": "".join(title),
        "na me": name,
        "Na Me": " ".join(title),
        "Na-Me": "-".join(title),
    }
    return HOLE.sub(lambda match: holes[match[1]], form)


def named(of_class: str, *, seed: int = 0) -> Iterator[SampleOfTools]:
    """Yield each kind of a class in each form; those that only a name gives away not in bare ones."""
    for section, lines in forms().items():
        if section.startswith("bare") and of_class == "name":
            continue
        for form in lines:
            for kind, name, value_form in kinds():
                if kind == of_class:
                    value = value_of(value_form, random.Random(f"{seed}{name}{form}"))
                    yield SampleOfTools(name, form, _fill(form, name, value), (value,))


def passwords(*, seed: int = 0, each: int = 5) -> Iterator[SampleOfTools]:
    for form in _lines("passwords.txt"):
        for number in range(each):
            value = password_of(random.Random(f"{seed}{number}{form}"))
            yield SampleOfTools("password", form, form.replace("«V»", value), (value,))


def printed(*, seed: int = 0) -> Iterator[SampleOfTools]:
    for form in _lines("printed.txt"):
        rng = random.Random(f"{seed}{form}")
        secrets: list[str] = []
        yield SampleOfTools("printed", form, _print_of(form, rng, secrets), tuple(secrets))


def _print_of(form: str, rng: random.Random, secrets: list[str]) -> str:
    def hole(match: re.Match[str]) -> str:
        value = value_of(match[1] or match[2], rng)
        if match[1]:
            secrets.append(value)
        return value

    return HOLE.sub(hole, form)


def clean(*, seed: int = 0) -> Iterator[SampleOfTools]:
    for form in clean_forms():
        yield SampleOfTools("clean", form, _print_of(form, random.Random(f"{seed}{form}"), []), ())
