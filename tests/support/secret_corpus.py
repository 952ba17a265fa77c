"""A corpus of invented secrets, drawn from `tests/data/secret_kinds.txt`, in the forms in which secrets leak.

Kinds and forms were written from public descriptions before the rules that they measure were touched. The hash of a
kind's name puts it into one half: the failures of the tuning half may be read, those of the measured half are only
counted, so that its rate says what to expect of a kind that nobody has looked at.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.secrets import draw

TUNING: Final = "tuning"
MEASURED: Final = "measured"
_FILE: Final = Path(__file__).parents[1] / "data" / "secret_kinds.txt"
_NEUTRAL: Final = ("value", "x", "data", "arg1", "RESULT")


class SecretKind(NamedTuple):
    """A kind of secret: how people call it, what it looks like, and whether its form alone gives it away."""

    name: str
    template: str
    formed: bool

    @property
    def half(self) -> str:
        """The half that this kind belongs to."""
        return MEASURED if hashlib.sha256(self.name.encode()).digest()[0] & 1 else TUNING


class Sample(NamedTuple):
    """A text that leaks `secret`."""

    kind: str
    form: str
    template: str
    text: str
    secret: str


# {n} is a name such as FASTLY_API_TOKEN, {p} how people say it, {v} the secret.
FORMS: Final = {
    "bare": (
        "{v}",
        "  {v}",
        "- {v}",
        "{v},",
        "'{v}'",
        "2026-11-20T08:15:01Z web-1 | {v}",
        "+{v}",
        "\t{v}\t# from the vault",
        "curl -s 'https://acme.test/hook?x={v}'",
        "<td>{v}</td>",
    ),
    "json": (
        '{{"{n}": "{v}"}}',
        '  "{n}": "{v}",',
        '{{"user":"bob","{n}":"{v}","ok":true}}',
        '{{\\"{n}\\": \\"{v}\\"}}',
        '"{{\\n  \\"{n}\\": \\"{v}\\"\\n}}"',
        '{{"config": {{"auth": {{"{n}":"{v}"}}}}}}',
        '{{"name": "{n}", "value": "{v}"}}',
        '  "name": "{n}",\n  "value": "{v}"',
        "{{'{n}': '{v}', 'retries': 3}}",
        '{{"level":"info","msg":"start","{n}" : "{v}"}}',
        '{{"{n}": ["{v}"]}}',
    ),
    "sentence": (
        "The {p} is {v}",
        "The {p} is: {v}.",
        "Your {p}: {v}",
        "Generated {p} {v} for the staging account.",
        "I set the {p} to {v} and restarted the service.",
        "Please rotate the {p} ({v}) today.",
        'Use "{v}" as the {p}.',
        "{p} {v} was rejected with 401",
        "log in with {p} `{v}`",
        "our new {p} will be {v}, the old one works until Friday",
        "I used the {p} '{v}' and it worked.",
        "WARN retrying with {p} {v}",
    ),
    "assignment": (
        "{n}={v}",
        'export {n}="{v}"',
        "{n}: {v}",
        "{n} = '{v}'",
        "{n} := {v}",
        '{n} := "{v}"',
        "{n} ::= {v}",
        "{n} ?= {v}",
        "{n} += {v}",
        "{n} ??= '{v}'",
        "{n}: |\n  {v}",
        "  {n}: >-\n    {v}",
        "<{n}>{v}</{n}>",
        "<{n}>\n  {v}\n</{n}>",
        "<key>{n}</key>\n<string>{v}</string>",
        '  + {n}                    = "{v}"',
        '{n}              "{v}"',
        'const {n}: string = "{v}";',
        "config.{n} = '{v}'",
        "docker run -e {n}={v} image",
        "tool --{n} {v}",
        "tool --{n}={v} --verbose",
        "setx {n} {v}",
        "'{n}' => '{v}',",
        "client = Client({n}='{v}')",
        '<add key="{n}" value="{v}" />',
        "ENV {n} {v}",
        "[{n}] {v}",
    ),
}


def kinds() -> list[SecretKind]:
    """Return every kind of the corpus, in the order of its file."""
    lines = (line for line in _FILE.read_text("utf-8").splitlines() if line and not line.startswith("#"))
    pairs = (line.split(" | ", 1) for line in lines)
    return [SecretKind(name.removeprefix("!"), template, name.startswith("!")) for name, template in pairs]


def samples(half: str, seed: int) -> Iterator[Sample]:
    """Yield each kind of a half once in each of its forms."""
    rng = random.Random(seed)
    for kind in kinds():
        if kind.half != half:
            continue
        for form, templates in FORMS.items():
            if form == "bare" and not kind.formed:
                continue
            for template in templates:
                secret = draw(rng, kind.template)
                name, phrase = _called(rng, kind)
                text = template.format(n=name, p=phrase, v=secret)
                yield Sample(kind.name, form, template, text, secret)


def rates(half: str, seed: int, redact: Callable[[str], str]) -> dict[str, tuple[int, int]]:
    """Return how many secrets of how many `redact` takes out of the samples, by form."""
    caught: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for sample in samples(half, seed):
        counts[sample.form] += 1
        caught[sample.form] += sample.secret not in redact(sample.text)
    return {form: (caught[form], counts[form]) for form in FORMS}


def _called(rng: random.Random, kind: SecretKind) -> tuple[str, str]:
    """Return a name as code has it, and one as people say it."""
    if kind.formed and rng.random() < 0.5:
        return rng.choice(_NEUTRAL), "one"
    words = kind.name.split()
    camel = words[0] + "".join(word.capitalize() for word in words[1:])
    names = ("_".join(words), "_".join(words).upper(), camel, "-".join(words))
    spoken = (kind.name, re.sub(r"^\w", lambda m: m[0].upper(), kind.name), kind.name.replace("api ", "API "))
    return rng.choice(names), rng.choice(spoken)
