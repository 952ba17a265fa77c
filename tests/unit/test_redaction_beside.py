"""Promise that a text that is hidden stays hidden whatever stands before or after it.

But for what a command above it prints as an id or a digest (`redaction/printed_ids.py`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from string import ascii_letters

import pytest

from benchmarks.almost_secrets import HASH, UUID
from tellback.redaction import Redactor
from tests.support.leaks import leaks
from tests.support.secrets import secrets

OTHERS = (
    *("-----END RSA PRIV" + "ATE KEY-----", "hello world", "x = 1234567890123", f"id {UUID}", f"commit {HASH}"),
    *("password:", "token = None", "| password | token |", "kind: Secret", "_Zabc12foo", "鍵 密碼", "a?code=12345"),
    *("C:\\new\\table", "%3A%22 +", "&quot;", "\x1b[0m", "ordinary prose goes on. " * 40, "12345 67890 " * 400),
    *("the_name_of_the_token_ " * 200, "name: alice\nrole: admin\n" * 8),
)
# Of letters alone, which no long value with a digit in their line makes part of what is searched.
FORMS = (
    *('stripe_secret_key: Some("{}"), // 1', "the API key for db1 is {}", "password for srv2: {}"),
    *('CLIENT_SECRET: "{}" # v2', "--token {} --port 8080", '"access_token": "{}", "expires": 3600'),
)


def of_letters(seed: int, each: int) -> Iterator[str]:
    source = random.Random(seed)
    for form in FORMS:
        for _ in range(each):
            yield form.format("".join(source.choice(ascii_letters) for _ in range(source.choice((16, 20, 24, 32)))))


@pytest.mark.bulk
@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other[:12])
def test_what_is_hidden_alone_is_hidden_beside_any_other_text(other: str) -> None:
    redactor = Redactor()
    below = other.count("\n") + 1
    tried = [text for _, text in secrets(seed=881, each=1)] + [text for _, _, text in leaks(seed=882, each=1)]
    for text in (*tried, *of_letters(seed=883, each=40)):
        hidden = set(redactor.hidden_lines(text))
        assert hidden <= set(redactor.hidden_lines(f"{text}\n{other}")), text
        assert {number + below for number in hidden} <= set(redactor.hidden_lines(f"{other}\n{text}")), text
