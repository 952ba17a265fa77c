"""Long texts that are dense in runs of token characters, of which each different one is searched once."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pytest

from benchmarks.almost_secrets import ALMOST
from tellback.redaction import redact_text, tokens
from tellback.redaction.token_runs import VALUE, TokenRuns
from tellback.redaction.values import DOUBT

_PARSER: Any = import_module("re._parser")
DENSE = (
    *("urls", "paths", "uuids", "lock files", "issuers and versions", "long words with prefixes"),
    *("json web tokens", "sentences with codes", "sentences with numbers"),
)
TOKENS = (
    "ghp_" + "a1B2c3D4e5" * 4,
    "QUklWQVRFIEtF" + "x",
    "0123456789abcdef0123456789abcdef-us12",
    "AKIA" + "ABCDEFGHIJ234567",
    "acme_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW",
)


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("kind", DENSE)
def test_a_token_among_runs_that_come_again_is_hidden(kind: str, token: str) -> None:
    before = ALMOST[kind] * (9_000 // len(ALMOST[kind])) + "\n"
    shown = redact_text(f"{before}{token}\n{before}")
    assert token not in shown
    assert shown.startswith(before)
    assert shown.endswith(f"\n{before}")


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("kind", DENSE)
def test_a_text_in_base64_among_runs_that_come_again_is_hidden(kind: str, *, wrapped: bool) -> None:
    before = ALMOST[kind] * (9_000 // len(ALMOST[kind])) + "\n"
    comment = b"# of the wiki in the hall" * 3 if wrapped else b""
    encoded = base64.b64encode(b"DB_PASSWORD=Winter1948x " + comment).decode()
    within = textwrap.fill(encoded, 60)
    shown = redact_text(f"{before}{within}\n{before}{within}\n{before}")
    assert shown.count("[redacted: ") == 2 * (within.count("\n") + 1)
    assert shown.count(before) == 3


@pytest.mark.parametrize("offset", range(0, 60, 3))
def test_a_token_across_two_blocks_of_runs_is_hidden(offset: int) -> None:
    """Runs are listed for 16,000 characters at a time, and the end of one block may be in a token."""
    path = "/usr/lib/python3/site-packages\n"
    before = "#" * offset + "\n" + path * (15_970 // len(path))
    token = TOKENS[0]
    assert token not in redact_text(f"{before}{token}\n{path * 900}")


def test_a_text_is_searched_by_its_different_runs_alone() -> None:
    text = ALMOST["paths"] * 900
    once = TokenRuns(text).each_once(text)
    assert once is not None
    assert len(once) < 200
    ids = ALMOST["uuids"] * 300
    assert TokenRuns(ids).runs == [], "no id is a token"


def test_long_runs_are_listed_though_more_words_stand_between() -> None:
    assert TokenRuns(ALMOST["sentences with codes"] * 900).once is not None
    assert TokenRuns(ALMOST["json"] * 900).once is None, "of short runs, few are looked at"


def test_a_text_of_different_runs_is_searched_itself() -> None:
    """To list them would only take longer."""
    text = "".join(f"/srv/app-{at}/module_{at}.py\n" for at in range(2_000))
    assert TokenRuns(text).each_once(text) is None


def test_no_token_is_shorter_than_the_runs_that_are_listed() -> None:
    """One that a lookbehind finds is as long as what that looks at."""
    for name, rest, prefixes in (*tokens.PREFIXED, *tokens.ANYWHERE, *tokens.OF_LONG_WORDS):
        pattern = _PARSER.parse(rest.replace(DOUBT, ""))
        for prefix in prefixes.split():
            assert max(len(prefix) + pattern.getwidth()[0], _behind(pattern)) >= VALUE, (name, prefix)


def _behind(items: Iterable[tuple[object, Any]]) -> int:
    """Return how many characters a part of a pattern looks back, if each of its matches does."""
    found = [0]
    for operator, argument in items:
        if str(operator) == "ASSERT" and argument[0] < 0:
            found.append(argument[1].getwidth()[0])
        elif str(operator) == "SUBPATTERN":
            found.append(_behind(argument[-1]))
        elif str(operator) == "BRANCH":
            found.append(min(map(_behind, argument[1])))
    return max(found)
