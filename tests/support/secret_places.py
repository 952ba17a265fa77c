"""The eleventh to fourteenth corpora of secrets: kinds of places, each with some of its texts.

They lie in `tests/data/consoles_apart`, `prints_apart`, `programs_apart` and `formats_apart`; `clean.txt` holds
what must stay, and the other files the places.
"""

import base64
import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.margins import EACH_LINE
from tests.support.secrets_of_tools import ALPHABETS, HOLE, spellings, value_of

_DATA: Final = Path(__file__).parents[1] / "data"
CONSOLES_APART: Final = _DATA / "consoles_apart"
PRINTS_APART: Final = _DATA / "prints_apart"
PROGRAMS_APART: Final = _DATA / "programs_apart"
FORMATS_APART: Final = _DATA / "formats_apart"
WRAPPINGS: Final = ("raw", "json", "margin")
OF_TOKENS: Final = (
    *("api key", "api token", "access token", "client secret", "signing key", "webhook secret", "encryption key"),
    *("service token", "session secret", "private token", "app secret", "auth token", "jwt secret", "secret key"),
)
OF_PASSWORDS: Final = (
    "db password",
    "smtp password",
    "admin password",
    "redis password",
    "keystore passphrase",
    "ldap bind password",
)
TOKENS: Final = (
    *("{hex:32}", "{hex:40}", "{hex:64}", "{b62:24}", "{b62:32}", "{b62:40}", "{b64:43}=", "{b64:40}"),
    *("{u64:43}", "{low2:32}", "{uuid}", "{b52:28}"),
)
TOKENS_OF_URLS: Final = ("{hex:32}", "{hex:40}", "{b62:24}", "{b62:40}", "{u64:43}", "{low2:32}")
SIGNS: Final = "!@#%^*+=-_.?"
WORDS: Final = (
    *("orbit", "velvet", "canyon", "lantern", "marble", "thunder", "willow", "pepper", "rocket", "saddle", "timber"),
    *("violet", "walnut", "zephyr", "anchor", "butter", "cobalt", "dragon", "ember", "falcon", "garnet", "hazel"),
)


@dataclass(frozen=True)
class SamplePlace:
    """A text in a kind of place, in a wrapping, and the secrets of one class in it that must be hidden."""

    place: str
    form: str
    of_class: str
    wrapping: str
    text: str
    secrets: tuple[str, ...]

    def leaks(self, redacted: str) -> bool:
        return any(secret in redacted for secret in self.secrets)


def in_tuning_half(place: str) -> bool:
    """Return if the kind of place is in the half whose misses may be read; of the other, only totals are."""
    return hashlib.sha256(place.encode()).digest()[0] % 2 == 0


def _password(rng: random.Random, number: int) -> str:
    """Return 8 to 20 random characters, letters and digits among them, every second time with signs within."""
    length = (8, 8, 10, 10, 12, 12, 16, 20)[number % 8]
    alphabet = ALPHABETS["b62"]
    while True:
        value = rng.choices(alphabet, k=length)
        if number % 2:
            for place in rng.sample(range(1, length - 1), 2):
                value[place] = rng.choice(SIGNS)
        text = "".join(value)
        if re.search("[0-9]", text) and re.search("[a-zA-Z]", text):
            return text


def _phrase(rng: random.Random) -> str:
    words = rng.sample(WORDS, 4)
    return rng.choice(
        (
            "-".join(words),
            ".".join(word.capitalize() for word in words[:3]),
            f"{words[0]}-{words[1]}-{rng.randrange(10, 999)}",
            f"{words[0].capitalize()}{words[1].capitalize()}{rng.randrange(10, 999)}!",
        )
    )


def _value(hole: str, of_class: str, rng: random.Random, number: int) -> str:
    if of_class == "token":
        return value_of(rng.choice(TOKENS_OF_URLS if hole == "U" else TOKENS), rng)
    if of_class == "phrase":
        return _phrase(rng).strip("!" if hole == "U" else "")
    return _password(rng, number * 2 if hole == "U" else number)


def _classes(form: str) -> tuple[str, ...]:
    """Return of which classes the values in a form may be; `other` has holes of its own."""
    if "«P»" in form:
        return "password", "phrase"
    if "«T»" in form:
        return ("token",)
    if any(hole in form for hole in ("«V»", "«U»", "«base64 of V»")):
        return "token", "password", "phrase"
    return ("other",)


def _jwt(rng: random.Random) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(b'{"sub":"%d","iat":1700000000}' % rng.randrange(10**9)).decode().rstrip("=")
    return f"{head}.{body}.{value_of('{u64:43}', rng)}"


def _fill(form: str, of_class: str, rng: random.Random, number: int) -> tuple[str, tuple[str, ...]]:
    names = spellings(rng.choice(OF_TOKENS if of_class == "token" else OF_PASSWORDS))
    value = ""
    secrets: list[str] = []

    def hole(match: re.Match[str]) -> str:
        nonlocal value
        kind = match[1]
        if match[2] is not None:
            return value_of(match[2], rng)
        if kind in names:
            return names[kind]
        if kind in {"V", "P", "T", "U"}:
            value = value or _value(kind, of_class, rng, number)
            filled = value
        elif kind == "base64 of V":
            filled = base64.b64encode(_value("V", of_class, rng, number).encode()).decode()
        elif kind == "{jwt}":
            filled = _jwt(rng)
        else:
            filled = value_of(kind, rng)
        secrets.append(filled)
        return filled

    return HOLE.sub(hole, form), tuple(secrets)


def _wrap(text: str, wrapping: str, rng: random.Random) -> str:
    if wrapping == "json":
        return json.dumps({"output": f"first\n{text}\nlast"}, ensure_ascii=False)
    if wrapping == "margin":
        margin = EACH_LINE[rng.choice(list(EACH_LINE))]
        return "\n".join(margin(number) + line for number, line in enumerate(text.split("\n")))
    return text


@cache
def _sections(file: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    section = ""
    for line in file.read_text(encoding="utf-8").splitlines()[1:]:
        if re.match("## [a-z]", line):
            section = line[3:]
            found[section] = []
        else:
            found[section].append(line.translate(str.maketrans("¶⇥␛", "\n\t\x1b")))
    return found


def _places(corpus: Path) -> Iterator[tuple[str, list[str]]]:
    for file in sorted(corpus.glob("*.txt")):
        if file.name != "clean.txt":
            yield from _sections(file).items()


def places(*, corpus: Path, seed: int = 0) -> Iterator[SamplePlace]:
    """Yield each text with four values of each class that fits, in each wrapping."""
    for place, forms in _places(corpus):
        for form in forms:
            for of_class in _classes(form):
                for number in range(4):
                    rng = random.Random(f"{seed}{number}{of_class}{form}")
                    text, secrets = _fill(form, of_class, rng, number + rng.randrange(2) * 4)
                    for wrapping in WRAPPINGS:
                        yield SamplePlace(place, form, of_class, wrapping, _wrap(text, wrapping, rng), secrets)


def lookalikes(*, corpus: Path, seed: int = 0) -> Iterator[SamplePlace]:
    """Yield what must stay, in each wrapping; the half is chosen by the text."""
    for forms in _sections(corpus / "clean.txt").values():
        for form in forms:
            rng = random.Random(f"{seed}{form}")
            text, _ = _fill(form, "clean", rng, 0)
            for wrapping in WRAPPINGS:
                yield SamplePlace(form, form, "clean", wrapping, _wrap(text, wrapping, rng), ())


def rates_of_hidden(redact: Callable[[str], str], *, corpus: Path) -> dict[tuple[str, bool], float]:
    """Return the share of texts whose secrets are hidden, by class and by half, True for that which may be read."""
    hidden: dict[tuple[str, bool], list[bool]] = defaultdict(list)
    for sample in places(corpus=corpus):
        hidden[sample.of_class, in_tuning_half(sample.place)].append(not sample.leaks(redact(sample.text)))
    return {key: sum(values) / len(values) for key, values in hidden.items()}


def touched_lookalikes(redact: Callable[[str], str], *, corpus: Path) -> set[str]:
    """Return what must stay and does not."""
    return {sample.form for sample in lookalikes(corpus=corpus) if redact(sample.text) != sample.text}
