"""Logins in lists and without a sign between user and password; ids, names and placeholders that look like secrets."""

from __future__ import annotations

import pytest

from tellback.redaction import find_secret, redact_text
from tellback.redaction.stream import StreamRedactor

FIRST, SECOND = "hT5xQ9mZ2vL8", "pW3kR7nB4cY6"
DIGEST = "020f933ed82cf4cc89ee3040a51dbf2e7f85af37"
UUID = "1d6a3972-9696-47d9-8897-e7abbf6af5b1"
LISTS = [
    f"$ sudo chpasswd\nanna:{FIRST}\nben:{SECOND}\n",
    f"chpasswd <<EOF\nanna:{FIRST}\nben:{SECOND}\nEOF\n",
    f"chpasswd -c SHA512 <<'EOF'\nanna:{FIRST}\nben:{SECOND}\nEOF\n",
    f"#cloud-config\nchpasswd:\n  expire: false\n  list: |\n    root:{FIRST}\n    anna:{SECOND}\n",
    f"#cloud-config\nchpasswd:\n  list: |\n    root:{FIRST}\n    anna:{SECOND}\n  expire: false\n",
    f"web-1  | chpasswd <<EOF\nweb-1  | anna:{FIRST}\nweb-1  | ben:{SECOND}\nweb-1  | EOF\n",
]
PAPER = (
    "BORG PAPER KEY v1\nid: 2 / 80f2a9 80d25b 95029b / 867955 045346 fa7680 - de\n"
    " 1: 87b2c9 c6685f 31120d 9445cc 5c2fa7 a80daf - 5e\n 2: 09736b f1999a 7b - 40\n"
)


@pytest.mark.parametrize("text", LISTS)
def test_every_login_that_chpasswd_reads_is_hidden(text: str) -> None:
    shown = redact_text(text)
    assert not [value for value in (FIRST, SECOND) if value in shown]
    for cut in range(1, len(text)):
        if text[cut - 1] == "\n":
            streamed = "".join(StreamRedactor().feed([text[:cut], text[cut:]]))
            assert FIRST not in streamed, cut
            assert SECOND not in streamed, cut


@pytest.mark.parametrize("rest", ["", " && curl -s https://example.com", "; ls -s .", " -C 'a -s b'"])
def test_the_pass_phrase_of_a_key_is_hidden_whatever_follows(rest: str) -> None:
    """Only behind `-s` of `ssh-keygen` itself, which signs a key, `-n` has names (A-657)."""
    assert find_secret(f"ssh-keygen -t ed25519 -N Harbor_marble_99 -f key{rest}")
    assert find_secret(f"ssh-keygen -s ca -P Harbor_marble_99 -I ann -n ann key.pub{rest}")


@pytest.mark.parametrize("margin", ["", "web-1  | ", "> "])
def test_a_key_of_borg_on_paper_is_hidden(margin: str) -> None:
    shown = redact_text("".join(f"{margin}{line}\n" for line in PAPER.splitlines()))
    assert "867955 045346" in shown, "its id stays"
    assert not [part for part in ("87b2c9", "a80daf", "09736b") if part in shown]


@pytest.mark.parametrize(
    "text",
    [
        "login anna {}",
        "login anna {}, as agreed",
        "sshd: login anna {} refused",
        "Login: anna@example.com {}",
        "the login of staging: admin = {}",
        "wpa_passphrase home {}",
        'wpa_passphrase "my home" {}',
        "set security wpa psk ascii 0 {}",
        "snmpwalk -v2c -c {} 10.0.0.1",
        'expect -c \'spawn ssh h; expect "assword:"; send "{}\\r"\'',
        "$ wg genpsk\n{}{}{}1aB=",
        "I rotated the key. New one: {}{}{}x9",
        "@ben new db creds for prod: app_rw {}",
        "Creds: anna / {}",
        "https://app.example.org/auth/magic?t={}{}{}",
        '(gdb) p cfg.password\n$1 = 0x5581 "{}"',
        "$ aws ecr get-login-password\n" + "{}" * 99,
    ],
)
def test_a_password_behind_a_user_or_what_a_program_takes_is_hidden(text: str) -> None:
    assert FIRST not in redact_text(text.format(*[FIRST] * 99))


@pytest.mark.parametrize(
    "text",
    [
        "sed 's/max_tokens=100/max_tokens=200/' conf.py",
        "sed -i 's/num_tokens=1000/num_tokens=2000/; s/max_token: 12/max_token: 24/' run.sh",
        f'"private_key_id": "{DIGEST}"',
        'apiKeyId: "3z4u1etmjr"',
        "credentialsId: 'docker-hub-2026'",
        'Created token "ci-2026-q1" (expires 2026-12-31).',
        f"lock token {UUID} acquired",
        "FAILED tests/test_auth.py::TestTokens::test_refresh_token_expires_after_3600s - assert 401 == 200",
        "Tests: AuthTokenTest::testLoginWithPassword2FA",
        "export GH=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "snmpwalk -v2c -c public 10.0.0.1",
        f"with:\n  key: Linux-pip-{DIGEST}",
        f"MD5 (secret.txt) = {DIGEST[:32]}",
        "colors: {primary: '#d7f5d2', secret: '#e7702f10'}",
        "SECRET_KEY=change-me-in-production-2026",
        f"SENTRY_RELEASE={DIGEST}",
        "DATADOG_TRACE_ID=3122405097636027069",
        f"cloudflare zone: {DIGEST[:32]}",
        f"Revoked token id {UUID}",
        'echo "::add-mask::***"',
        "login attempt u1a2b3c4d5 failed",
        "login anna 4f5a6b7c8d9e0a1b",
        "login anna via Keycloak26",
        "docker run -d postgres:16-alpine\nredis:7.2-alpine3",
        "adduser, chpasswd and newusers\nsee:usermod-8\n",
    ],
)
def test_ids_names_numbers_and_placeholders_stay(text: str) -> None:
    assert redact_text(text) == text
