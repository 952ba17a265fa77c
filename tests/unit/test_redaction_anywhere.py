"""Secrets without a name: passwords with a sign, what a line about a login holds, links, and what is shown once."""

from __future__ import annotations

import pytest

from tellback.redaction import redact_text
from tellback.redaction.stream import StreamRedactor

SIGNED = "xE7oj*Wk2dTdQ9"
RANDOM = "p3fvW520MdYoK7g4"
TOKEN = "kT4vR9wLq2ZxB7nHs3JmY6pD"
HEX = "cb0f9a2a792d4357cbd69be639a5971e845affd74c9dfd8fa3454e3920a2c117"
UUID = "9d82aaaf-9696-4b42-acc1-33f2474ee62e"


@pytest.mark.parametrize(
    "text",
    [
        SIGNED,
        f"The archive goes out with {SIGNED}.",
        f"TypeError: connect() got unexpected args: ('db', 'app', '{SIGNED}')",
        f"9fceb02d0ae598e95dc970b74767f193:{SIGNED}",
        f"<td>{SIGNED}</td>",
        f"anna / {SIGNED}",
    ],
)
def test_a_random_password_with_a_sign_is_hidden_wherever_it_stands(text: str) -> None:
    assert SIGNED not in redact_text(text)
    assert SIGNED not in "".join(StreamRedactor().feed([f"{'before ' * 20}\n", f"{text}\n"]))


@pytest.mark.parametrize(
    "text",
    [
        "Let upperBound be 2^bitLength − 1 and x be 10*Kx1*Ky2*dt3",
        "see https://example.org/wiki/Ship%20It%2010kg%20Ab1%2Fc2D",
        "const directoryPath$1 = normalizePath$1; use Bunzip2 qw(bunzip2 $Bunzip2Error)",
        "com.example.MyClass@1b6d3586 and Thread-7#run2Fast",
        "printf('%08lX%02dAbc%s', a, b) # C#7.3, F#4, owner/Repo#123",
        "0a ntdll!RtlUserThreadStart+0x2b, KERNEL32!BaseThread2Init+0x14 in UserService#findById2Async",
        "kernel32!g_dwLastErrorToBreakOn ntdll32!DbgUiRemoteBreakin",
        "const total = Rate2%Count3Max4*Factor5; 100%Cotton2XL",
    ],
)
def test_formulas_addresses_names_and_formats_with_such_signs_stay(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"Log in as anna@example.org and {RANDOM} until SSO is back",
        f"unlock the vault, {RANDOM}, then restart",
        f"The archive is encrypted with {RANDOM}.",
        f"DB creds for staging -> app:{RANDOM}",
        f"admin is reachable with {RANDOM} on port 80",
    ],
)
def test_the_only_random_password_of_a_line_about_a_login_is_hidden(text: str) -> None:
    assert RANDOM not in redact_text(text)


@pytest.mark.parametrize(
    "text",
    [
        f"https://app.example.org/password/reset/{HEX}?email=anna%40example.org",
        f"https://app.example.org/invite?code={TOKEN}",
        f"https://app.example.org/verify-email?uid=17&token_hash={HEX}",
        f"https://conda.example.org/t/{TOKEN}-{TOKEN}/acme/linux-64",
        f"GET https://api.example.org/geo?q=Berlin&appid={HEX[:32]} 401",
        f"callback: code={TOKEN}&state=xyz",
    ],
)
def test_a_link_that_opens_something_is_hidden(text: str) -> None:
    assert not [value for value in (TOKEN, HEX[:32]) if value in redact_text(text)]


@pytest.mark.parametrize(
    "text",
    [
        f"Copy it, it is only displayed once, and will not be stored.\n{TOKEN}",
        f"You will not see it again: {TOKEN}",
        f"$ base64 -d < f.b64\n{TOKEN}",
        f"$ rclone obscure x\n{TOKEN}",
        f"sed -i 's/CHANGEME_PASSWORD/{TOKEN}/' app.conf",
        f"ssh -p 2200 {TOKEN}@nyc1.tmate.io",
        f"vsql -h v -U dbadmin -w {TOKEN} -c 'select 1'",
        f"CONNECT TO 'stores' USER 'ifx' USING '{TOKEN}'",
        f".LOGON td1/dbc,{TOKEN}",
        f"mc admin user add minio ci {TOKEN}",
        f'anna : XAUTH "{TOKEN}"',
        f"<auth-user-pass>\nanna\n{TOKEN}\n</auth-user-pass>",
        f"CLIENT_RANDOM {HEX} {HEX}",
        f"I generated the webhook secret with uuidgen: {UUID}",
    ],
)
def test_what_is_shown_once_or_given_to_a_program_is_hidden(text: str) -> None:
    assert not [value for value in (TOKEN, HEX, UUID) if value in redact_text(text)]


@pytest.mark.parametrize(
    "text",
    [
        "sed -i 's/get_token/fetch_token/g' src/*.py",
        "sed -i 's/API_KEY/ANTHROPIC_API_KEY/; s/token_type/tokenTypeV2/' .env.example",
        "sed -i 's|secret-store|secret-store-v2|g' values.yaml",
        "grep -rnw xK7Ab2Qz src; rg -w kX3dYp9Z",
        "docker run --rm -w Srv1aB2c node",
    ],
)
def test_names_that_are_replaced_or_searched_for_stay(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "GET /users/aB3kD9fQxZ/posts 200",
        "user aB3kD9fQxZ joined: user.id = aB3kD9fQxZ",
        '{"level":"info","user":"bob","txn":"aB3kD9fQxZ"}',
        "INFO auth.service - req=aB3kD9fQ user=bob",
        "created by the user in namespace pr-aB3kD9fQ",
        "root@aB3kD9fQxZ1:/# ls",
        "user bob watched https://www.example.org/watch?v=dQw4w9WgXcQ",
        "login.tsx:12 hydrated chunk qB7xK2mZ",
        "Thread #1 unlocked a not-locked lock at 0x7FEFFFA90",
        "await page.locator('#login2Btn3a').click()",
    ],
)
def test_ids_in_a_line_about_a_login_stay(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "GET /api/v1/invitations/65a1b2c3d4e5f6a7b8c9d0e1 404",
        f"DELETE /api/v1/confirmations/{UUID} 204",
        "https://app.example.org/invite?team=65a1b2c3d4e5f6a7b8c9d0e1",
    ],
)
def test_an_id_of_a_record_in_an_address_stays(text: str) -> None:
    assert redact_text(text) == text
