"""Logins in lists and without a sign between user and password."""

from __future__ import annotations

import pytest

from tellback.redaction import redact_text
from tellback.redaction.stream import StreamRedactor

FIRST, SECOND = "hT5xQ9mZ2vL8", "pW3kR7nB4cY6"
LISTS = [
    f"$ sudo chpasswd\nanna:{FIRST}\nben:{SECOND}\n",
    f"chpasswd <<EOF\nanna:{FIRST}\nben:{SECOND}\nEOF\n",
    f"chpasswd -c SHA512 <<'EOF'\nanna:{FIRST}\nben:{SECOND}\nEOF\n",
    f"#cloud-config\nchpasswd:\n  expire: false\n  list: |\n    root:{FIRST}\n    anna:{SECOND}\n",
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
    ],
)
def test_a_password_behind_a_user_or_what_a_program_takes_is_hidden(text: str) -> None:
    assert FIRST not in redact_text(text.format(FIRST, FIRST, FIRST))
