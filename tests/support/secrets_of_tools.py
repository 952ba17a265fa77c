"""The eighth to tenth corpora of secrets: what agents see of tools, and names in files, code and logs.

They lie in `tests/data/tools_apart`, `tests/data/margins_apart` and `tests/data/places_apart`.
"""

import base64
import hashlib
import random
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

_DATA = Path(__file__).parents[1] / "data"
TOOLS_APART, MARGINS_APART, PLACES_APART = (_DATA / name for name in ("tools_apart", "margins_apart", "places_apart"))
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
    "b32": LOWER + "234567",
    "b58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "dj": LOWER + DIGITS + "!@#%^&*(-_=+)",
    "sym": LOWER + UPPER + DIGITS + "!@%^*+=-_.~?",
    "salt": LOWER + UPPER + DIGITS + "!@#%^&*()-_[]{}~`+=,.;:/?| ",
}
PART = re.compile(r"\{(\w+)(?::(\d+))?\}")
HOLE = re.compile("«([^»]*)»|\u2039([^\u203a]*)\u203a")
PHRASE_WORDS = ("abandon", "ability", "badge", "balance", "canyon", "capital", "absorb", "accident", "album", "banner")
# Values that are no characters of one alphabet: numbers of bytes, words.
ARRAYS: dict[str, Callable[[random.Random, int], str]] = {
    "bytes": lambda rng, count: ",".join(str(byte) for byte in rng.randbytes(count)),
    "rows": lambda rng, count: re.sub(
        r"((?: *\d+,){12})", r"\1\n", ",".join(f"{byte:4}" for byte in rng.randbytes(count))
    ),
    "hexbytes": lambda rng, count: ", ".join(f"0x{byte:02x}" for byte in rng.randbytes(count)),
    "escapes": lambda rng, count: "".join(f"\\x{byte:02x}" for byte in rng.randbytes(count)),
    "words": lambda rng, count: " ".join(rng.choice(PHRASE_WORDS) for _ in range(count)),
}
WORDS = ("river", "copper", "Falcon", "summer", "Orchid", "tango", "winter", "Mango", "harbor", "Velvet")
HUMAN = (
    *("Winter{0}!", "hunter{0}", "P@ssw0rd{0}", "correct-horse-{0}-battery", "tr0ub4dor&{0}", "Sup3rS3cret{0}"),
    *("letmein{0}x", "Qwerty!{0}", "badge{0}Album", "canyon_{0}!", "Banner2026!{0}"),
)


@dataclass(frozen=True)
class SampleOfTools:
    """A text, and the secrets in it that must be hidden."""

    kind: str
    form: str
    text: str
    secrets: tuple[str, ...]

    def leaks(self, redacted: str) -> int:
        return sum(any(line.strip() in redacted for line in secret.split("\n")) for secret in self.secrets)


def in_tuning_half(sample: SampleOfTools) -> bool:
    """Return if the form is in the half of the tenth corpus whose misses may be read; of the other, only totals are."""
    return hashlib.sha256(sample.form.encode()).digest()[0] % 2 == 0


def value_of(form: str, rng: random.Random) -> str:
    def part(match: re.Match[str]) -> str:
        if match[1] == "uuid":
            return str(uuid.UUID(int=rng.getrandbits(128), version=4))
        if match[1] == "human":
            return rng.choice(HUMAN).format(rng.randrange(10, 9999))
        if match[1] in ARRAYS:
            return ARRAYS[match[1]](rng, int(match[2]))
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


@cache
def _lines(file: Path) -> list[str]:
    """Return the forms of a file, with their line breaks and tabs; the first line is a remark."""
    lines = file.read_text(encoding="utf-8").splitlines()[1:]
    return [line.translate(str.maketrans("¶⇥␛␍", "\n\t\x1b\r")) for line in lines]


@cache
def kinds(corpus: Path = TOOLS_APART) -> tuple[tuple[str, str, str], ...]:
    """Return class, name and form of the value of each kind."""
    rows = [line.split(" | ") for line in _lines(corpus / "kinds.txt")]
    return tuple((row[0], row[1], row[2]) for row in rows)


def _sections(file: Path) -> dict[str, list[str]]:
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
def forms(corpus: Path = TOOLS_APART) -> dict[str, list[str]]:
    return _sections(corpus / "forms.txt")


@cache
def clean_forms(corpus: Path = TOOLS_APART) -> list[str]:
    return [form for forms_ in _sections(corpus / "clean.txt").values() for form in forms_]


def spellings(name: str) -> dict[str, str]:
    """Return a name of several words by the hole that it fills, as each language spells it."""
    words = name.split()
    title = [word.capitalize() for word in words]
    return {
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


def _fill(form: str, name: str, value: str, other: str = "") -> SampleOfTools:
    in_url, encoded = quote(value, safe=""), base64.b64encode(value.encode()).decode()
    holes = {
        "V": value,
        **spellings(name),
        "V in a URL": in_url,
        "base64 of V": encoded,
        "another V": other,
        "rule of name": "-" * len(name),
        "rule of V": "-" * len(value),
        "space of name": " " * len(name),
        "space of V": " " * len(value),
    }
    values = {"V": value, "V in a URL": in_url, "base64 of V": encoded, "another V": other}
    secrets = tuple(text for hole, text in values.items() if f"«{hole}»" in form)
    return SampleOfTools(name, form, HOLE.sub(lambda match: holes[match[1]], form), secrets)


def named(of_class: str, *, corpus: Path = TOOLS_APART, seed: int = 0) -> Iterator[SampleOfTools]:
    """Yield each kind of a class in each form; those that only a name gives away not in bare ones."""
    for section, lines in forms(corpus).items():
        if section.startswith("bare") and of_class == "name":
            continue
        for form in lines:
            for kind, name, value_form in kinds(corpus):
                if kind == of_class:
                    rng = random.Random(f"{seed}{name}{form}")
                    yield _fill(form, name, value_of(value_form, rng), value_of("{b62:24}", rng))


def passwords(*, seed: int = 0, each: int = 5) -> Iterator[SampleOfTools]:
    for form in _lines(TOOLS_APART / "passwords.txt"):
        for number in range(each):
            value = password_of(random.Random(f"{seed}{number}{form}"))
            yield SampleOfTools("password", form, form.replace("«V»", value), (value,))


def printed(*, corpus: Path = TOOLS_APART, seed: int = 0) -> Iterator[SampleOfTools]:
    for form in _lines(corpus / "printed.txt"):
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


def clean(*, corpus: Path = TOOLS_APART, seed: int = 0) -> Iterator[SampleOfTools]:
    for form in clean_forms(corpus):
        yield SampleOfTools("clean", form, _print_of(form, random.Random(f"{seed}{form}"), []), ())
