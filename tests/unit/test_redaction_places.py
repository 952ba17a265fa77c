"""Names and values in the places where people and tools meet them, each rule by what it hides and what it leaves."""

from __future__ import annotations

import random
import string

import pytest

from tellback.redaction import redact_text
from tellback.redaction.values import seems_random

VALUE = "q7Zk2mX9vB4tR8wL1nPs"
LETTERS = "jqWkzRvHpxTbNyGcLdMf"
WORDS_OF_CODE = (
    *("getaccesstokenfromstorage", "internationalization", "authenticationproviders", "user_password_confirmation"),
    *("workflow_execution_key_values", "ListOfKeyVaultExchanges", "JwkVerificationKeyJson", "AccessTokenValidityUnits"),
    *("org.springframework.security.oauth", "my-service-account-credentials", "requestVerificationTokenHandler"),
    *("QueryStringParameterMap", "XmlHttpRequestWrapper", "keyvaultsecretsprovider", "projectWorkspaceQuickJump"),
)


@pytest.mark.parametrize("alphabet", [string.ascii_lowercase, string.ascii_letters])
def test_random_letters_without_a_digit_are_told_from_words(alphabet: str) -> None:
    rng = random.Random(20261126)
    values = ["".join(rng.choices(alphabet, k=length)) for length in (24, 28, 32, 40) for _ in range(250)]
    assert sum(seems_random(value, 0) for value in values) >= 0.95 * len(values)
    assert not [word for word in WORDS_OF_CODE if seems_random(word, 0)]


PLACES = (
    'static const char *api_token\n    = "{}";',
    '@pytest.fixture\ndef api_token():\n    return "{}"',
    'func apiToken() string { return "{}" }',
    "(b'x-api-token', b'{}')",
    "API token (keep it safe):\n  {}",
    "api_token@billing='{}'",
    "%api_token% = {}",
    "C:\\app> echo %API_TOKEN%\n{}",
    "What is the API token?\nbob  9:15\n{}",
    "ann: API token? bob: {}",
    'reg add HKLM\\Software\\App /v ApiToken /t REG_SZ /d "{}" /f',
    "hdr(x-api-token) -m str {}",
    'vercel env add API_TOKEN production <<< "{}"',
    "fromEnvironment('API_TOKEN', defaultValue: '{}')",
    '<add value="{}" key="ApiToken"/>',
    "E   assert None == '{}'\nE    +  where None = Config().api_token",
    "{} is the API token",
    "`{}` \u2014 API token",
    "// TODO remove: {} (api token)",
    'string().default("{}") // api token',
    "'{}',  # the api token",
    "svc:{} are the login and the API token",
)
SHORT_PASSWORDS = (
    '{{db_password, "{}"}}',
    "db_password: !!str {}",
    "DB_PASSWORD \u2192 {}",
    "UPDATE apps SET region='eu' WHERE password != '{}'",
)
LANGUAGES = (
    "Das Passwort f\u00fcr den Server lautet {}",
    "Kennwort = {}",
    "Wachtwoord: {}",
    "La contrase\u00f1a es {}",
    "has\u0142o do bazy: {}",
    "\u043f\u0430\u0440\u043e\u043b\u044c \u043e\u0442 \u0431\u0430\u0437\u044b: {}",
    "\u30d1\u30b9\u30ef\u30fc\u30c9\u306f {} \u3067\u3059",
    "\ube44\ubc00\ubc88\ud638: {}",
    "Der API-Schl\u00fcssel ist {}",
)


@pytest.mark.parametrize("place", [*PLACES, *LANGUAGES])
def test_a_value_is_hidden_where_its_name_stands_otherwise_than_before_it(place: str) -> None:
    assert VALUE not in redact_text(f"before\n{place.replace('{}', VALUE)}\nafter")


@pytest.mark.parametrize("password", ["Winter1234!", "hunter2-Go!"])
@pytest.mark.parametrize("place", SHORT_PASSWORDS)
def test_a_short_password_is_hidden_in_a_layout(place: str, password: str) -> None:
    assert password not in redact_text(place.format(password))
