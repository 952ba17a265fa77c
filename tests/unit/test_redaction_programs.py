"""Values in the places of the thirteenth set: names in other languages, lists of arguments, phrases as any password."""

from __future__ import annotations

import json

import pytest

from tellback.redaction import find_secret, redact_text, redact_value

TOKEN = "Zk2mX9vB4tR8wL1nPsq7Zk2mX9vB4tR8"
PASSWORD = "lAu7SnRQ"
PHRASES = ("orbit-velvet-canyon-lantern", "Orbit.Velvet.Canyon", "OrbitVelvet183!", "orbit-velvet-183")


@pytest.mark.parametrize(
    "place",
    [
        "Kennwort: {}",
        "Ihr neues Passwort lautet: {}",
        "Das Kennwort f\u00fcr admin ist {}",
        "contrase\u00f1a = '{}'",
        "Su contrase\u00f1a temporal es {}",
        "has\u0142o do bazy: {}",
        "\u041f\u0430\u0440\u043e\u043b\u044c: {}",
        "\u5bc6\u7801\uff1a{}",
        "\u60a8\u7684\u521d\u59cb\u5bc6\u7801\u662f {}",
        "benutzer,passwort\nann,{}",
    ],
)
def test_a_short_password_is_hidden_whatever_its_name_is_in(place: str) -> None:
    """A name in another language is as good as one in English (A-437)."""
    text = place.format(PASSWORD)
    assert PASSWORD not in redact_text(f"before\n{text}\nafter")
    assert PASSWORD not in redact_text(json.dumps({"output": f"before\n{text}\nafter"}, ensure_ascii=False))


def test_a_token_of_few_kinds_of_characters_is_hidden_behind_its_french_name() -> None:
    """Nothing else gives it away (A-437)."""
    assert "6b40le9nl313y2jfw27q" not in redact_text("Le nouveau jeton d'acc\u00e8s est 6b40le9nl313y2jfw27q")


def test_a_field_with_a_name_in_another_language_is_hidden() -> None:
    """So is the value of a mapping (A-437)."""
    assert redact_value({"contrase\u00f1a": PASSWORD}) == {"contrase\u00f1a": "[redacted: password]"}


@pytest.mark.parametrize(
    "line", ["Passwort: erforderlich", "enclave: north", "Le mot de passe doit \u00eatre confirm\u00e9"]
)
def test_words_of_other_languages_stay(line: str) -> None:
    """A form's remark on a password is none (A-437)."""
    assert redact_text(line) == line


@pytest.mark.parametrize(
    "place",
    [
        "Command '['sshpass', '-p', '{}', 'ssh', 'h']' returned non-zero exit status 5.",
        'execve("/usr/bin/mysql", ["mysql", "-uroot", "-p{}"], 0x7ffd) = 0',
        "spawn docker ['login', '-u', 'ci', '-p', '{}']",
        'CMD ["tool","-u","ci","-p","{}"]',
    ],
)
def test_a_list_of_arguments_is_read_as_the_command_that_it_is(place: str) -> None:
    """A password among the arguments of a program is hidden in any form of their list (A-438)."""
    assert TOKEN not in redact_text(place.format(TOKEN))


@pytest.mark.parametrize("phrase", PHRASES)
@pytest.mark.parametrize(
    "place",
    [
        "db_password: {}",
        "$ printenv DB_PASSWORD\n{}",
        'db.changeUserPassword("svc", "{}")',
        "127.0.0.1:6379> AUTH {}",
        "PASS {}",
        "DEBUG Auth - login(svc, {})",
        "cmdkey /add:fs1 /user:svc /pass:{}",
        "The wifi password at the office: {}",
    ],
)
def test_a_pass_phrase_is_hidden_where_a_random_password_is(place: str, phrase: str) -> None:
    """The rules of passwords hold for phrases of words too (A-431)."""
    assert phrase not in redact_text(f"before\n{place.format(phrase)}\nafter")


@pytest.mark.parametrize(
    "line",
    [
        "cargo test -p tokio-util-macros-impl",
        "password = Shop.Domain.Hashing.create()",
        '<input type="password" data-testid="password-reset-submit-button">',
        "token: orbit-velvet-canyon-lantern",
    ],
)
def test_other_words_with_hyphens_and_dots_stay(line: str) -> None:
    """Names of packages, calls and labels are no phrases (A-431)."""
    assert redact_text(line) == line


@pytest.mark.parametrize(
    "place",
    [
        'Password string `env:"DB_PASSWORD" envDefault:"{}"`',
        'SESSION_SECRET: z.string().min(8).default("{}")',
        "Password for 'https://ann@git.example.net': {}",
        "Password ........ {}",
        "password: [-old-]{{+{}+}}",
        "username:s:ann\npassword:s:{}",
        'write(3, "AUTH {}\\r\\n", 31) = 31',
        "*2\n$4\nAUTH\n$32\n{}",
        "echo '{}' | kinit ann@EXAMPLE.NET",
        "echo {} | sudo zfs load-key tank",
        "the password for the box is {}, please change it",
        "ALTER USER app IDENTIFIED BY {} ACCOUNT UNLOCK;",
        "chpasswd:\n  expire: false\n  list: |\n    root:{}",
        "WIFI:T:WPA;S:Office;P:{};;",
        "db2 connect to SAMPLE user db2inst1 using {}",
    ],
)
def test_a_token_is_hidden(place: str) -> None:
    """Hidden as well: defaults of settings, prompts, fills, diffs of words, protocols, pipes (A-436)."""
    assert TOKEN not in redact_text(f"before\n{place.format(TOKEN)}\nafter")


def test_a_token_without_a_second_part_is_hidden() -> None:
    """An encrypted JSON web token with a direct key has none (A-436)."""
    token = "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0..B6NeQuSoPA7YLcwK.knGpBESrfD-wC1SwaQSVaw.V-Iwy25Eyl3aFY4p"
    assert token not in redact_text(f'{{"assertion":"{token}"}}')


@pytest.mark.parametrize(
    "text",
    [
        "checksum/secret: 06ad03fcc8999266094b41d4908b101f24d62bd660800e27e8e2aff3acd3fd35",
        "$ docker run -e DB_PASSWORD pg:16\n36d8a0daa14d3ba486645db241667a059ef87dcabb5a352a153c1bd870c115e3",
        '"password": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"',
        "export const RESET_PASSWORD_REQUEST = 'auth/resetPasswordRequest';",
        "token_accessor       lQGhpETp2LSietftPOus9WPM",
        'password: "op://Prod/db/password"',
        'print ok ? "PASS" : "FAIL"',
        "httpclient.HTTPRequest.proxy_password: attribute",
        '{\n"kind": "Secret",\n"data": {\n"additionalProperties": {\n"type": "string"\n}\n}\n}',
    ],
)
def test_what_resembles_those_stays(text: str) -> None:
    """Ids, marks and schemas beside such names are no secrets (A-436)."""
    assert redact_text(text) == text


@pytest.mark.parametrize("kind", ["secret", "password"])
@pytest.mark.parametrize("before", ["enable", "username admin", "username admin privilege 15"])
def test_the_secret_of_a_router_is_hidden(before: str, kind: str) -> None:
    for line in (f"{before} {kind} Winter1948x", f"core1(config)# {before} {kind} 0 Winter1948x"):
        assert find_secret(line) == "password"
    for line in (f"{before} {kind} scanning2 for the repository", f"{before} {kind} scanning", f"no {before} {kind}"):
        assert find_secret(line) is None
