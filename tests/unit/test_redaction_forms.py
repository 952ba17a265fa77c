"""Forms that an outside set of secrets brought to light: long values, colours, tables, camel case, marks of issuers."""

from __future__ import annotations

import random
import string

import pytest

from tellback.redaction import Redactor, find_secret, redact_text
from tellback.redaction.stream import StreamRedactor

_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"


def generated(count: int, alphabet: str = _ALNUM, seed: int = 3) -> str:
    """Return `count` random characters, the same in each run."""
    source = random.Random(seed)
    return "".join(source.choice(alphabet) for _ in range(count))


@pytest.mark.parametrize("length", [50, 101, 400, 401, 402, 900, 4_000])
@pytest.mark.parametrize(
    "form",
    [
        "AWS_SESSION_TOKEN={}",
        '{{"aws_session_token": "{}"}}',
        "GET /v1?x=1&token={}&y=2 200",
        "deploy --token {} --region eu",
        "ENV API_TOKEN {}",
        "GET /v1?session_cookie={} - 200",
        "session_cookie = {} + 2 others",
        "${{HOST}}:secret={}",
        '"auth": "{}"',
    ],
)
def test_a_value_is_a_secret_however_long(form: str, length: int) -> None:
    """Temporary credentials of clouds have many hundreds of characters."""
    assert find_secret(form.format(generated(length)))


@pytest.mark.parametrize(
    "line",
    [
        f"\x1b[32mDB_PASSWORD\x1b[0m=\x1b[1m{generated(14)}\x1b[0m",
        f"\x1b[38;5;208mapi_token\x1b[0m: \x1b[38;5;10m{generated(24)}\x1b[m",
        f"\x1b[01;31m\x1b[Kghp_\x1b[m\x1b[K{generated(36)}",
        f"\x1b[1mBearer {generated(4)}\x1b[0m",
    ],
)
def test_colours_hide_no_secret(line: str) -> None:
    """`grep --color` and many other tools print them; the lines around keep theirs."""
    around = "\x1b[32mok\x1b[0m"
    shown = redact_text(f"{around}\n{line}\n{around}").split("\n")
    assert (shown[0], shown[2]) == (around, around)
    assert shown[1].startswith("[redacted: ")


def test_an_exact_value_is_found_between_colours() -> None:
    redactor = Redactor({"SHOP": "swordfish-9"})
    assert redactor.rule_of("the \x1b[31msword\x1b[0mfish-9 is here") == "secret SHOP"


@pytest.mark.parametrize(
    "line",
    [
        f"| DB_PASSWORD | {generated(14)} |",
        f"| API_TOKEN   | {generated(30)} |",
        f'  "azureStorageKey": "{generated(86)}==",',
        f"cosmosKey = '{generated(86)}=='",
        f"<azureDevopsPat>{generated(52, 'abcdefghijklmnopqrstuvwxyz234567')}9a8b</azureDevopsPat>",
        "LDAP_BIND_PW=battery-correct-river-5",
        "SECRET_KEY = 'django-insecure-@iv!wa)td74hw^p1@2*a#b7!od#k!1cpfjg(#13_h=4vi-h((o'",
        "SECRET_KEY=django-insecure-@iv!wa)td74hw^p1@2*a#b7!od#k!1cpfjg(#13_h=4vi-h((o",
        "deploy --jwt-secret lx^7mPOgqYOmWmphSY0V14ASSIn9313G --region eu",
        f"deploy --azure-devops-pat {generated(52)}",
        f"echo ::add-mask::{generated(8)}",
        f'{{"kty": "OKP", "crv": "Ed25519", "d": "{generated(43)}"}}',
        "  password: Hn/YIKmCYrNPsaE4",
        "GET /next?to=%2Fhome%3Fpassword%3Dswordfish9",
        "&quot;password&quot;:&quot;swordfish9&quot;",
        r"\u0022password\u0022:\u0022swordfish9\u0022",
        f"Set-Cookie: PHPSESSID={generated(26, string.ascii_lowercase + string.digits)}; path=/",
        f"connect.sid=s%3A{generated(32)}.{generated(43)}",
        "CLICKSEND_ACCESS_KEY=ESSJ8KIR-3LAG-1VAP-JADS-OLPGBBB3RFXI",  # a doubtful value does not hide a better match
    ],
)
def test_names_and_values_in_further_forms(line: str) -> None:
    assert find_secret(line)


@pytest.mark.parametrize(
    "token",
    [
        f"dp.st.prd.{generated(43)}",
        f"AAAA{generated(7)}:APA91b{generated(134)}",
        f"{generated(44)}AzFu{generated(6)}==",
        f"{generated(76)}+ASt{generated(6)}==",
        f"ATTA{generated(72, _HEX)}",
        f"cio{generated(32)}",
        f"packagist_uut_{generated(68, _HEX)}",
        f"pk_12345678_{generated(32, string.ascii_uppercase + string.digits)}",
        f"live_{generated(30)}",
        f"test_{generated(30)}",
        f"re_{generated(8)}_{generated(24)}",
        f"KEY{generated(32, '0123456789ABCDEF')}_{generated(22)}",
        f"sk_{generated(48, _HEX)}",
        f"rpa_{generated(46, string.ascii_uppercase + string.digits)}",
        f"{generated(36, _HEX)}NRAL",
        f"YC{generated(38)}",
        f"napi_{generated(64, string.ascii_lowercase + string.digits)}",
        f"SWMTKN-1-{generated(50, string.ascii_lowercase + string.digits)}-{generated(25)}",
        f"aio_{generated(28)}",
        f"AC{generated(32, _HEX)}",
    ],
)
def test_a_token_shows_its_issuer_wherever_it_stands(token: str) -> None:
    for line in (token, f"the request with {token} was refused", f"run('{token}')", f'["{token}", 1]'):
        assert find_secret(line), line


@pytest.mark.parametrize(
    "line",
    [
        '"minipass": "^7.0.2",',
        "compass: north-by-northwest-2",
        "passthrough: enabled-2",
        "Cache restored from key: Linux-node-3e1f9a77b2c4d5e6f708192a3b4c5d6e7f8091a2",
        '"result_key": "SageMakerImageVersionAliases"',
        '"output_token": "LastEvaluatedTableName",',
        '"cacheKey": "5d41402abc4b2a76b9719d911017c592ae2f0a7f"',
        "error in napi_detachable_arraybuffer_expected,",
        "napi_acquire_threadsafe_function() failed",
        '"Authorization": "Bearer {{environment_variables.KEY}}"',
        "-H 'Authorization: Bearer $TOKEN'",
        "tests/test_auth.py::test_thatalllonglowercasenamesarefunctions PASSED",
        "cionoscopic precious social audacious",
        "| password | ask-first |",
    ],
)
def test_what_is_no_secret_stays(line: str) -> None:
    """These are versions, names, keys of caches, functions of Node, and placeholders."""
    assert find_secret(line) is None


@pytest.mark.parametrize(
    "text",
    [
        'BUNDLE_GEMS__CONTRIBSYS__COM: "1a2b3c4d:5e6f7a8b"',
        "GET /repos?pat=9b1d3f5a7c2e4b6d8f0a1c3e5b7d9f2a&page=1",
        "rotate the webhook kT4vR9wLq2ZxB7nHs3Jm today",
        "kT4vR9wLq2ZxB7nHs3Jm is our api token",
        "xK7dQ2mZ9vR4 -- api token",
        "xK7dQ2mZ9vR4 - that's the api token",
        "PASSWD=\\\n  hT5xQ9mZ\n",
    ],
)
def test_a_form_that_is_in_no_set_is_hidden(text: str) -> None:
    """Rules of these forms matched nothing while the rest of the suite ran."""
    assert "[redacted" in redact_text(text)


@pytest.mark.parametrize(
    "form",
    [
        '<add key="Cookie" value="{}" />',
        'props.setProperty("Cookie", "{}");',
        "- name: Cookie\n  value: {}",
        "Cookie: >-\n  {}",
        "The Set-Cookie is {}, please expire it.",
        "| Cookie | {} |",
        'host,Cookie,port\ndb1,"{}",80',
        " id | Cookie | host\n----+--------+-----\n  1 | {} | db1",
    ],
)
@pytest.mark.parametrize("name", ["sessionid", "JSESSIONID", "ASP.NET_SessionId", "remember_me"])
def test_a_cookie_is_hidden_in_any_form_whatever_its_name(form: str, name: str) -> None:
    """Its name made the value seem less random: 454 of 3,276 such texts were shown."""
    value = "PVlPYoChyjzTRextedADqYdOmnLxm1ej"
    assert value not in redact_text(form.format(f"{name}={value}; theme=dark"))


def test_counters_digests_and_paths_of_cookies_stay() -> None:
    for text in (
        "The cookie is _ga=GA1.1.297273815.8355119534; theme=dark",
        "cookie jar written, digest sha=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "cookie file=/var/lib/app/cookies/Default2/Cookies1.txt",
    ):
        assert redact_text(text) == text


def test_a_webhook_of_teams_is_hidden_in_the_query_of_a_url() -> None:
    """The `@` of an encoded URL stays encoded, since it would end a login."""
    team, flow = "180bc0db-c0e1-4d0a-a1b2-0c4d5e6f7a8b", "5f0e1d2c-3b4a-4958-8676-f5e4d3c2b1a0"
    url = f"https%3A%2F%2Fcontoso.webhook.office.com%2Fwebhookb2%2F{team}%40{flow}%2FIncomingWebhook%2F{'1f' * 16}"
    assert redact_text(f"next={url}") == "[redacted: webhook-url]"


@pytest.mark.parametrize(
    "text",
    [
        "id | secret\nb424-8ab7\nXkMDciUgdAd5\nlogin:\n",
        "id | secret\n6e98-b8c8\nrefresh_value is 3kLAvrLYoN0yZNSGHElFP9ovOATkKdSL\n",
        "password help\n6e98-b8c8\nrefresh_value is 3kLAvrLYoN0yZNSGHElFP9ovOATkKdSL\n",
        "The token is:\n  3IsPP4Hg\nrefresh_value is 3kLAvrLYoN0yZNSGHElFP9ovOATkKdSL\n",
        "The password is:\n  3IsPP4Hg\nrefresh_value is 3kLAvrLYoN0yZNSGHElFP9ovOATkKdSL\n",
    ],
)
def test_what_comes_below_does_not_decide_about_a_short_value(text: str) -> None:
    """A rule that is searched near long values found short ones too, where a long one stood below by chance."""
    whole = "".join(StreamRedactor().feed([text]))
    assert whole == "".join(StreamRedactor().feed(text.splitlines(keepends=True)))
    assert ("3IsPP4Hg" in whole) == ("token" in text)
