"""Lines that one rule alone hides, or one condition alone leaves, of those that no other test needs.

Their values are words, or short, so that no rule of random values hides them too.
"""

from __future__ import annotations

from typing import Final

import pytest

from tellback.redaction import redact_text

LINES: Final = (
    "PASSWD=\\\n  hunter2",
    "pwd: |\n  swordfish",
    "PASSPHRASE=\\\n  swordfish",
    "DB_PASS=\\\n  swordfish",
    "CLIENT_SECRET=\\\n  swordfish",
    "TOKEN=\\\n  swordfish",
    "API_KEY=\\\n  swordfish",
    "otp_seed = 1f-9.22ab.4c7d",
    "salt=4f9a1c22",
    "curl --proxy-user ci:hunter2 http://h",
    "registry --docker-creds ci:hunter2 pull",
    "root:swordfish@unix(/run/mysqld.sock)/app",
    '{"k": "GawgguFyGrWKav7AX4VKUg3f2b8c1e9d8c7b6a5f4e3"}',
    "db.acme.test:5433:shop:ci:hunter2",
    "db.acme.test:6432:shop:ci:hunter2",
    "kinit ci <<< swordfish",
    "docker login --password-stdin <<< swordfish",
    "plink -ssh h -pw swordfish",
    "AUTHINFO PASS swordfish",
    "printf swordfish | sudo -S id",
    "composer config github-oauth.github.com abcdefghijklmnopqrstuvwxyz_abcde",
    "security add-internet-password -a ci -w hunter2x",
    "sshpass -f <(echo swordfish) ssh h",
    "useradd -m -p swordfish ci",
    "signtool sign /f c.pfx /p swordfish",
    "schtasks /ru ci /rp swordfish",
    "composer config http-basic.repo.acme.test ci swordfish",
    "ci:{PLAIN}swordfish:1000",
    "salt = [\n  12, 250, 33, 41, 7, 99, 180, 201,\n]",
    "otp_seed = [\n  12, 250, 33, 41, 7, 99, 180, 201,\n]",
    "salt = [12, 250, 33, 41, 7, 99, 180, 201]",
    "otp_seed = [12, 250, 33, 41, 7, 99, 180, 201]",
    "| otp seed | kX7dQ2mZ9vR4tW6b |",
    "sentry_dsn → kX7dQ2mZ9vR4tW6b",
    "pepper → kX7dQ2mZ9vR4tW6b",
    "The salt of the new host is kX7dQ2-mZ9vR4",
    "The psk for the guest net is kX7dQ2-mZ9vR4",
    "The api_hash for the new bot is kX7dQ2-mZ9vR4",
    "Recovery Password:\n    123456-234567-345678-456789-567890-678901-789012-890123",
    "{'value': 'kX7dQ2mZ9vR4tW6b', 'name': 'api_token'}",
    "echo -n kX7dQ2mZ9vR4tW6b > api_token",
    "printf '%s' kX7dQ2mZ9vR4tW6b > api_token",
    "test-1234567890123456-123456-0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "UGFzc3dvcmQ6\n aHVudGVyMmh1bnRlcg==",
    'app.use(cookieParser("kX7dQ2mZ9vR4"))',
    '{"username":"ci","key":"0a1b2c3d4e5f60718293a4b5c6d7e8f9"}',
    "kagi -k kX7dQ2mZ9vR4tW6bY3nH8 search",
    "sqlldr scott/kX7dQ2mZ9v@orcl control=x",
    "SQL> conn scott/kX7dQ2mZ9v@orcl",
    "SQL> connect scott/kX7dQ2mZ9v@orcl",
    "https://acme.test/t/ab-0a1b2c3d-1111-4222-8333-0a1b2c3d4e5f",
    "https://acme.test/confirm/kX7dQ2mZ9vR4tW6bY3nH8",
    "https://acme.test/activate/kX7dQ2mZ9vR4tW6bY3nH8",
    "https://acme.test/unsubscribe/kX7dQ2mZ9vR4tW6bY3nH8",
    "https://acme.test/accept/kX7dQ2mZ9vR4tW6bY3nH8",
    "https://acme.test/join/kX7dQ2mZ9vR4tW6bY3nH8",
    "raw result: hunter2-of-2026x",
    "bundle config set gems.acme.test ci:hunter2-of-2026",
    "/msg NickServ IDENTIFY kX7dQ2mZ9vR4",
    "ci\t*\tkX7dQ2mZ9vR4",
    "ci *  kX7dQ2mZ9vR4",
    'jwt.decode(t, "kX7dQ2mZ9vR4")',
    'jws.sign({ id: 1 }, "kX7dQ2mZ9vR4")',
    'new PDO("mysql:host=db", "ci", "hunter2-of-2026")',
    'createUser("ci", "hunter2-of-2026")',
    "Invalid user kX7dQ2mZ9vR4 from 10.0.0.1",
    '{"value":"kX7dQ2mZ9vR4tW6b","name":"api_token"}',
    "OC-Aa1b2C3d4E5f",
    "rk_prod_a1b2c3d4e5",
    "cli_a1b2c3d4e5f6a7b",
    "x TFMwdExTMUNSVWRKVGl",
    "my_dsn=k1-22ab99cd-33",
    "10 SHA256 HEX:60869701F0B885263E6B42610DE5973F9B3986C6B6386CCD8290CA883EBE4060",
    "$ consul keygen\nhunter2-of-2026x",
)


@pytest.mark.parametrize("text", LINES)
def test_a_secret_is_hidden_by_the_one_rule_for_its_place(text: str) -> None:
    assert "[redacted: " in redact_text(f"before\n{text}\nafter")


@pytest.mark.parametrize(
    "line",
    [
        "xnpg_a1b2c3d4e5f6",
        "DOC-Aa1b2C3d4E5f",
        "axoxe-a1b2c3d4e5",
        "mask_live_a1b2c3d4e5",
        "task_test_a1b2c3d4e5",
        "task_prod_a1b2c3d4e5",
        "xcli_a1b2c3d4e5f6a7b",
        "x-eyJhbGciOiJIUzI.ab",
        "myxapp-1-a1b2c3d4e5",
        "VisualBasic a1b2c3d4e5f6",
        "/etc/passwd: 'root1:x'",
        "cp /etc/passwd='/mnt/x1'",
        "ok ? 'pass' : 'fail-1'",
        "client_secret=12345678",
        "Authorization: Basic your-base64-here",
        "registry --creds ci:***",
        "https://ci:hunter2@example.com/x",
        "CREATE USER ci IDENTIFIED BY '%s12'",
        "ConvertTo-SecureString $given12 -AsPlainText",
        "jdbc:oracle:thin:scott/$PW1@db",
        "winxrar a -hpswordfish x.rar",
        "docker run -u1000:staff1 img",
    ],
)
def test_an_almost_secret_stays_by_one_condition_of_a_rule_alone(line: str) -> None:
    """Prefixes within words, accounts, tests that pass, ids, placeholders and variables."""
    assert redact_text(line) == line
