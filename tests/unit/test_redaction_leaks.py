"""Leaks that an attacker and outside samples showed in 0.1.0, one by one, and clean text that was taken for secrets."""

from __future__ import annotations

import base64
import json
import random
import textwrap
import tracemalloc
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus

import pytest

from tellback import own_passwords
from tellback.commands.truncation import StreamTruncator
from tellback.errors import TellbackError
from tellback.hook.handling import handle_event
from tellback.redaction import Redactor, find_secret, redact_text, redact_value
from tellback.settings import load
from tests.unit.test_redaction_forms import generated

BODY = textwrap.wrap(base64.b64encode(random.Random(4).randbytes(600)).decode(), 64)
BEGIN_RSA, END_RSA = "-----BEGIN RSA PRIV" + "ATE KEY-----", "-----END RSA PRIV" + "ATE KEY-----"
ENCRYPTED = [
    BEGIN_RSA,
    "Proc-Type: 4,ENCRYPTED",
    "DEK-Info: AES-256-CBC,0A1B2C3D4E5F60718293A4B5C6D7E8F9",
    "",
    *BODY,
    END_RSA,
]
BEGIN_PGP = "-----BEGIN PGP PRIV" + "ATE KEY BLOCK-----"
PGP = [
    BEGIN_PGP,
    "Version: GnuPG v2",
    "Comment: of the build host",
    "",
    *BODY,
    "=Ab3d",
    BEGIN_PGP.replace("BEGIN", "END"),
]
MARGINS: dict[str, Callable[[int, str], str]] = {
    "docker": lambda _, line: f"web-1  | {line}",
    "docker-stripped": lambda _, line: f"web-1  | {line}".rstrip(),
    "grep": lambda number, line: f"{number}:{line}",
    "grep-file": lambda number, line: f"conf/server.pem:{number}:{line}",
    "journald": lambda number, line: f"Nov 23 00:{number:02}:07 build-3 agent[812]: {line}",
    "logging": lambda number, line: f"2026-11-23 00:00:{number:02},{number * 7 % 1000:03} INFO app.keys: {line}",
    "diff": lambda _, line: f"+{line}",
    "cat-n": lambda number, line: f"{number:6}\t{line}",
    "docker-json": lambda number, line: json.dumps(
        {"log": f"{line}\n", "stream": "stdout", "time": f"2026-11-23T00:00:{number:02}.1Z"}
    ),
    "json": lambda number, line: json.dumps({"ts": 1700000000 + number, "level": "info", "msg": line, "ok": True}),
}


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("key", [ENCRYPTED, PGP], ids=["encrypted", "pgp"])
def test_a_key_behind_a_margin_is_hidden_whole(margin: str, key: list[str]) -> None:
    """Blank lines and headers behind the margin do not end it; what follows the key is shown."""
    lines = [MARGINS[margin](number, line) for number, line in enumerate(key, 5)]
    after = MARGINS[margin](90, "the server is ready")
    shown = redact_text("\n".join(["before", *lines, after])).split("\n")
    assert shown == ["before", *["[redacted: private-key]"] * len(key), after]
    truncator = StreamTruncator(Redactor())
    truncator.feed("\n".join(["before", *lines, after]).encode())
    assert not [line for line in BODY if line in truncator.finish().text]


@pytest.mark.parametrize(
    "text",
    [
        f"{BEGIN_RSA}\n{''.join(BODY)}\n{END_RSA}",
        quote("\n".join(ENCRYPTED)),
        quote_plus("\n".join(ENCRYPTED)),
        "\n".join(textwrap.wrap(base64.b64encode("\n".join(ENCRYPTED).encode()).decode(), 76)),
        "\n".join(
            f"    {line}" for line in textwrap.wrap(base64.b64encode("\n".join(ENCRYPTED).encode()).decode(), 76)
        ),
        "\n".join(
            [
                "PuTTY-User-Key-File-3: ssh-rsa",
                "Encryption: none",
                "Private-Lines: 13",
                *BODY,
                "Private-MAC: " + "0a" * 32,
            ]
        ),
        "\n".join(f"web-1  | {line}" for line in ["Private-Lines: 13", *BODY]),
        "\n".join(["-----BEGIN OpenVPN Static key V1-----", *BODY, "-----END OpenVPN Static key V1-----"]),
    ],
    ids=["one-line", "url", "form", "base64", "base64-indented", "putty", "putty-margin", "openvpn"],
)
def test_a_key_in_other_dress_is_hidden_whole(text: str) -> None:
    """It may be one long line, URL-encoded, base64 wrapped at 76, or PuTTY's file; the line after it is shown."""
    shown = redact_text(f"before\n{text}\nready: 3 workers")
    assert shown.startswith("before\n")
    assert shown.endswith("\nready: 3 workers")
    wrapped = base64.b64encode("\n".join(ENCRYPTED).encode()).decode()
    assert not [line for line in (*BODY, wrapped[76:116], wrapped[-40:]) if line in shown]


@pytest.fixture
def own() -> Iterator[None]:
    """Forget after a test what it lets this process remember."""
    yield
    own_passwords._found.clear()


PASSWORD = "red/cat #4 at night"
LEAKS_OF_IT = (PASSWORD, quote(PASSWORD, safe=""), quote_plus(PASSWORD), quote(PASSWORD, safe=" "))


@pytest.mark.parametrize("before", ["", "a", "ab", "# key of the host\n", "PORT=1\nKEY='"])
def test_base64_of_a_file_that_holds_a_key_is_hidden_wherever_the_key_stands(before: str) -> None:
    """Each of three places that base64 has for a byte has other characters (A-570)."""
    encoded = base64.b64encode("\n".join([f"{before}{BEGIN_RSA}", *BODY, END_RSA, ""]).encode()).decode()
    assert redact_text(f"at 10:42\nfile: {encoded}\nnext") == "at 10:42\n[redacted: private-key]\nnext"
    lines = textwrap.wrap(encoded, 76)
    assert redact_text("\n".join([*lines, "next text"])).splitlines() == [
        *["[redacted: private-key]"] * len(lines),
        "next text",
    ]


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("variable", ["TELLBACK_REDIS_URL", "TELLBACK_BROKER_URL"])
def test_the_own_password_of_redis_is_hidden_once_the_settings_are_read(variable: str) -> None:
    """Clients and workers read them so; it is hidden plain and URL-encoded, in output and in a tool's result."""
    assert redact_text(f"it is {LEAKS_OF_IT[1]} here") == f"it is {LEAKS_OF_IT[1]} here"
    load({variable: f"redis://app:{quote(PASSWORD, safe='')}@127.0.0.1:6379/0"})
    for leak in LEAKS_OF_IT[:3]:
        assert redact_text(f"it is {leak} here") == "[redacted: password]"
        assert redact_value({"stdout": [leak]}) == {"stdout": ["[redacted: password]"]}


@pytest.mark.usefixtures("own")
def test_each_password_in_a_url_of_sentinel_is_hidden() -> None:
    load({"TELLBACK_REDIS_URL": "sentinel://:swordfishes@h1;sentinel://:marlinsteak@h2/0?master_name=m"})
    assert redact_text("about swordfishes") == redact_text("about marlinsteak") == "[redacted: password]"


@pytest.mark.usefixtures("own")
def test_the_own_password_of_redis_is_hidden_by_a_hook() -> None:
    """It reads options of its own; a password in a parameter of the URL counts too."""
    with pytest.raises(TellbackError):
        handle_event(b"{", "PostToolUse", ["--redis-url", "redis://127.0.0.1:1/0?password=swordfishes"])
    assert redact_text("about swordfishes") == "[redacted: password]"


@pytest.mark.parametrize("operator", ["?=", "::=", "+=", "??=", ":=", ":", "=", "=>"])
@pytest.mark.parametrize("name", ["DB_PASSWORD", "API_TOKEN", "clientSecret"])
def test_every_operator_assigns(operator: str, name: str) -> None:
    for value in (f"{generated(9)}4{generated(9)}", f'"{generated(9)}4{generated(9)}"'):
        assert find_secret(f"{name} {operator} {value}"), value


@pytest.mark.parametrize(
    "form",
    [
        "password: |\n  {}",
        "  apiToken: >-\n      {}",
        "<password>\n  {}\n</password>",
        "<key>ClientSecret</key>\n<string>{}</string>",
        '  + master_password                 = "{}"',
        "  api_token                               {!r}",
        "Generated password: {}",
        "generated password {} for user root",
        "A temporary password is generated for root@localhost: {}",
        "The initial password is {}",
        "Your new password will be {}",
        "Unseal Key 1: {}",
        "Initial Root Token: {}",
        "7z a -p{} backup.7z data",
        "sqlplus scott/{}@prod",
        "echo {} | sudo -S apt-get update",
        "echo '{}' | sudo -S true",
    ],
)
def test_what_tools_print_and_files_hold(form: str) -> None:
    """These are blocks of YAML, XML and property lists, aligned plans, sentences and command lines."""
    value = f"{generated(7)}4{generated(8)}"
    assert value not in redact_text(form.format(value))


@pytest.mark.parametrize(
    "manifest",
    [
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: web\ndata:\n  settings: {}\ntype: Opaque",
        "apiVersion: v1\ndata:\n  settings: {}\nkind: Secret\nmetadata:\n  name: web",
        "kind: Secret\nstringData:\n  app.conf: |\n    first {}\nmetadata:\n  name: web",
        '{{"apiVersion": "v1", "data": {{"settings": "{}"}}, "kind": "Secret"}}',
        '{{\n  "kind": "Secret",\n  "data": {{\n    "settings": "{}"\n  }},\n  "type": "Opaque"\n}}',
    ],
)
def test_values_of_a_kubernetes_secret_are_hidden_under_any_key(manifest: str) -> None:
    value = "aHVudGVyMjpjb3JyZWN0aG9yc2U="
    shown = redact_text(f"before\n{manifest.format(value)}\nafter")
    assert value not in shown
    assert shown.startswith("before\n")
    assert shown.endswith("after")
    assert value not in str(redact_value({"stdout": manifest.format(value)}))
    other = manifest.replace("Secret", "ConfigMap").format("eu-west-1")
    assert redact_text(other) == other


def test_a_seed_phrase_is_hidden() -> None:
    words = "abandon ability able about above absent absorb abstract absurd abuse access zoo"
    for line in (
        f"mnemonic: {words}",
        f"Seed phrase: {words}",
        f'recovery phrase is "{words}"',
        f'"mnemonic": "{words}"',
    ):
        assert words not in redact_text(line)
    assert find_secret("the seed phrase has twelve words that you must write down at once") is None


@pytest.mark.parametrize(
    "token",
    [
        f"pgar_{generated(40)}",
        f"spu-{generated(32)}",
        "api-3f0e1d2c-9a8b-4c7d-8e6f-0123456789ab",
        "sub-c-3f0e1d2c-9a8b-4c7d-8e6f-0123456789ab",
        f"sq0ige-{generated(22)}",
        f"xprv{generated(107)}",
        "https://acme.webhook.office.com/webhookb2/k7f0e1d2-9z8b-4c7d-8e6f-0123456789xy@x",
        "https://outlook.office.com/webhook/3f0e1d2c-9a8b-4c7d-8e6f-0123456789ab@3f0e1d2c-9a8b-4c7d-8e6f-0123456789ab/Incoming",
        f"https://quiet-dawn-1234.tines.com/webhook/{generated(32, '0123456789abcdef')}/x",
    ],
)
def test_a_form_without_a_rule_in_0_1_0(token: str) -> None:
    for line in (token, f"sent to {token} just now", f'{{"x": "{token}"}}'):
        assert token not in redact_text(line)


@pytest.mark.parametrize(
    "line",
    [
        '"topSkill": "Kubernetes-2"',
        "topskill=go1.22",
        '"groupAssociationId": "rtbassoc-0a1b2c3d4e5f60718"',
        '"NextToken": "eXg0Q1kzTmhkR2x2YmlJNklERXdmUT09"',
        '"ClientToken": "3f0e1d2c-9a8b-4c7d-8e6f-0123456789ab"',
        'session_id="3f0e1d2c-9a8b-4c7d-8e6f-0123456789ab"',
        '"sessionId": "s7f3k2m9q8w1"',
        '"model_session_id":"d412db86-85b1-4122-b6a2-b9686b15bfa9"',
        "manual_commit_session.go:193:func (s *ManualCommitStrategy) initializeSession(repo)",
        "--- PASS: TestStrategy_PrepareCommit2 (0.00s)",
        "    --- PASS: TestStrategy/with_2_files (0.01s)",
        "PASS: tests/run-2.sh",
        "\u2713 PASS: CP1252 with arrows",
        "getpass = win_getpass",
        "Buffer.from(password, 'utf8').toString('base64')",
        "toolu_014bJHwhDuVuTK1NTd9N67B5",
        f'<img src="data:image/png;base64,AKIA{"ABCDEFGHIJKLMNOP" * 4}xoxb-aa">'.replace("xoxb-", "xoxb"),
    ],
)
def test_what_an_agent_needs_stays(line: str) -> None:
    """These are names that only contain a telling text, marks of pages, names of sessions, results and pictures."""
    assert redact_text(line) == line


def test_a_secret_as_the_name_of_an_argument_is_hidden() -> None:
    """It looks like any other name, and is searched for as an exact value alone."""
    assert Redactor({"TOKEN": "plainwords"}).value({"plainwords": 5}) == {"[redacted: secret TOKEN]": 5}


def test_long_names_of_arguments_do_not_stay_in_memory() -> None:
    redact_value({"path": "a.py", "limit": 1})
    tracemalloc.start()
    for n in range(300):
        value = {f"text_{n}{'x' * 10_000}": "ab", f"count_{n}{'x' * 10_000}": 1}
        assert redact_value(value) == value
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1_000_000
