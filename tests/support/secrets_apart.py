"""Secrets of a corpus held apart: written before its writer read a rule that it tests.

`tests/data/secret_kinds_apart.txt` names the kinds, `tests/data/secret_forms_apart.toml` what stands around a secret.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

_DATA = Path(__file__).parent.parent / "data"
_FORMS: Final[dict[str, dict[str, Any]]] = tomllib.loads((_DATA / "secret_forms_apart.toml").read_text())
_PART = re.compile(
    r"\[(?P<chars>[^]]+)\](?:\{(?P<count>\d+)\})?|\((?P<choices>[^)]*)\)|(?P<literal>.)",
    re.DOTALL,
)
_CHOSEN = (
    "hunter2Xk9!",
    "Tr0ub4dor&3x",
    "correcthorse42",
    "Sommer2026!",
    "pa55-Word.x",
    "qN7vR2mL0p",
    "zebra_Tango77",
    "0pen$esame9",
)
_WORDS: Final = (
    "abandon ability able about above absent absorb abstract absurd abuse access accident account accuse achieve acid "
    "acoustic acquire across act action actor actress actual adapt add addict address adjust admit adult advance zebra "
    "zero zone zoo wrestle wrist write wrong yard year yellow young youth world worry worth wrap wreck"
)


class KindApart(NamedTuple):
    """One kind of secret; `bare` says that its form alone gives it away."""

    name: str
    pattern: str
    bare: bool


class SecretSample(NamedTuple):
    """A text that holds a secret, and where it comes from."""

    kind: str
    form: str
    secret: str
    text: str

    def leaks_in(self, shown: str) -> bool:
        """Return if a part of the secret's core is still to be read: twelve characters, or a third of a short one."""
        size = max(6, min(12, len(self.secret) // 3))
        core = self.secret[len(self.secret) // 3 :]
        return any(core[at : at + size] in shown for at in range(max(1, len(core) - size + 1)))


def kinds() -> Iterator[KindApart]:
    """Return every kind of the data file."""
    for line in (_DATA / "secret_kinds_apart.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, pattern = line.split(" | ", 1)
            yield KindApart(name.removeprefix("!"), pattern, name.startswith("!"))


def draw(rng: random.Random, pattern: str) -> str:
    """Return one text that the pattern describes."""
    text = ""
    for part in _PART.finditer(pattern):
        if part["chars"]:
            alphabet = _alphabet(part["chars"])
            text += "".join(rng.choice(alphabet) for _ in range(int(part["count"] or 1)))
        elif part["choices"] is not None:
            text += rng.choice(part["choices"].split("|"))
        else:
            text += part["literal"]
    return text


def _alphabet(chars: str) -> str:
    for low, high in re.findall(r"(\w)-(\w)", chars):
        chars = chars.replace(f"{low}-{high}", "".join(map(chr, range(ord(low), ord(high) + 1))))
    return chars


def of_kinds(seed: int) -> Iterator[SecretSample]:
    """Return one sample for each kind and form."""
    rng = random.Random(seed)
    for kind in kinds():
        secret = draw(rng, kind.pattern)
        words = re.findall(r"[a-z0-9]+", kind.name.lower())
        snake = "_".join(words)
        names = {
            "label": kind.name,
            "UPPER": snake.upper(),
            "snake": snake,
            "kebab": "-".join(words),
            "camel": words[0] + "".join(word.title() for word in words[1:]),
            "s": secret,
        }
        for form, template in {**(_FORMS["bare"] if kind.bare else {}), **_FORMS["named"]}.items():
            yield SecretSample(kind.name, form, secret, _filled(template, names))
        encoded = quote(secret, safe="")
        yield SecretSample(kind.name, "query, encoded", encoded, f"https://x.example.com/?{snake}={encoded}&a=1")
        yield SecretSample(kind.name, "json, encoded", encoded, quote(json.dumps({snake: secret}), safe=""))


def passwords(seed: int) -> Iterator[SecretSample]:
    """Return one sample for each password and each way to give it."""
    rng = random.Random(seed)
    drawn = ["".join(rng.choice(string.ascii_letters + string.digits) for _ in range(16)) for _ in range(2)]
    for secret in (*_CHOSEN, *drawn):
        values = {
            "s": secret,
            "q": quote(secret, safe=""),
            "basic": base64.b64encode(f"admin:{secret}".encode()).decode(),
            "b64": base64.b64encode(f"{secret}:{secret}".encode()).decode(),
        }
        for form, template in _FORMS["passwords"].items():
            key = next(key for key in ("basic", "b64", "q", "s") if f"{{{key}}}" in template)
            yield SecretSample("password", form, values[key], _filled(template, values))


def printed(seed: int) -> Iterator[SecretSample]:
    """Return secrets in the sentences and files of the programs that print them."""
    rng = random.Random(seed)
    for form, (template, pattern) in _FORMS["printed"].items():
        for _ in range(3):
            secret = draw(rng, pattern)
            yield SecretSample("printed", form, secret, _filled(template, {"s": secret}))
    for form, template in _FORMS["phrases"].items():
        words = " ".join(rng.sample(_WORDS.split(), 12))
        yield SecretSample("seed phrase", form, words, _filled(template, {"s": words}))


def _filled(template: str, values: dict[str, str]) -> str:
    """Put values in; `str.format` would read the braces of code and JSON."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)
