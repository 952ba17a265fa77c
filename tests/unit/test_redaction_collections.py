"""Secrets and lookalikes of a corpus that was written by examples of public collections of rules."""

from __future__ import annotations

import json

import pytest

from tellback.redaction import redact_text

PASSWORD = "aQ7vLm2Xd9Rk"
HEX = "3f9a1c07" * 4 + "b2"


@pytest.mark.parametrize(
    "token",
    [
        f"pk_{HEX}",
        f"pk_AbCd3f_{HEX}",
        "tk_7x2kq9vmz4rt8wbl1npsqy3hd5f6g",
        "ajkey_01kpe3gbb3ek3asrwvfsmtjtam",
        f"2cf1b0a4-9d3e-4c57-8a61-5f0e7b92d38c:{HEX[:32]}",
        "xoxd-iM/q+DS8Wd+R+wsdA52IPLvUHsjEf%2BVsTb67LDXQ",
    ],
)
def test_tokens_of_klaviyo_ntfy_arcjet_fal_and_slacks_cookie_are_hidden(token: str) -> None:
    for line in (token, json.dumps({"data": token}), f"We use {token} now."):
        assert token not in redact_text(line)


@pytest.mark.parametrize("token", [f"pk_{HEX}0", "tk_choose_directory_2_of_the_dialog", f"{HEX[:32]}:{HEX[:32]}"])
def test_what_has_nearly_their_form_stays(token: str) -> None:
    assert redact_text(token) == token


@pytest.mark.parametrize(
    "text",
    [
        "radtest bob {} 10.0.0.50 1812 testing123",
        "radtest -t mschap bob {} localhost 0 testing123",
        "isql -v MYDSN sa {}",
        "iusql MySQL-cdrdb myuser {} -b < dump.sql",
        "\tbasicauth /admin alice {}",
        "zerotier-cli -T{}k2mXz9vB4tR8 info",
        "zerotier-cli -D/var/lib/zerotier-one -T {}k2mXz9vB4tR8 status",
        "uci set wireless.@wifi-iface[0].key='{}'",
        "wireless.default_radio0.key='{}'",
        "cvs -d :pserver:builder:{}@cvs.example.org:/cvsroot co module",
        'curl -u ":{}" https://localhost:9200',
        'curl -s --url "imaps://mail" --user\\\n"kim:{}" --request "STATUS INBOX"',
    ],
)
def test_a_bare_argument_of_a_known_program_is_hidden(text: str) -> None:
    for line in (text.format(PASSWORD), json.dumps({"output": text.format(PASSWORD)})):
        assert PASSWORD not in redact_text(line)


@pytest.mark.parametrize(
    "text",
    [
        "curl -X POST --user  'johns:h0pk1ns~21s' https://localhost",
        "curl --user kevin:'summer2024' -iX PATCH https://localhost",
    ],
)
def test_a_login_of_curl_is_hidden_wherever_its_quote_begins(text: str) -> None:
    assert redact_text(text) != text


@pytest.mark.parametrize(
    "text",
    [
        "docker run -u app -p 127.0.0.1:8080:80/tcp shop",
        "mysql -u root -p shop2 < dump.sql",
        "radtest USER PASSWORD HOST PORT SECRET",
        "isql connects to server1 as the user of the data source",
        "wireless.radio0.channel='36'",
        "cvs -d :pserver:anonymous:@cvs.example.org:/cvsroot login",
        'curl -u "user:$PASS" https://localhost',
        "Login: docs/setup2/readme",
        "ld -Tlinker-script-2026-v3-build.ld -o image.elf",
        'curl -H "Authorization: Bearer XXXXXXXXXXXX" https://localhost',
        "basicauth /admin alice {env.PASSWORD_HASH}",
    ],
)
def test_a_line_of_such_a_program_without_a_secret_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        r"psexec \\\\10.0.94.120 -u Administrator -p QicTGO5ZSP cmd",
        "cypher-shell -u neo4j -p neo4j1234",
        'evil-winrm -i 10.0.0.5 -u admin -p "Summer2026"',
    ],
)
def test_a_password_behind_a_user_is_hidden_though_it_seems_a_word_and_a_number(text: str) -> None:
    assert redact_text(text) == "[redacted: password]"


@pytest.mark.parametrize(
    "text",
    [
        "mysql -u root -p production2db",
        "mysql -u root -p wordpress_2024 < dump.sql",
        "mysql -h db.local -u root -p inventory2024 < dump.sql",
        "mysqldump -u root -p inventory2024 > dump.sql",
        "mariadb -u app -p shop2024production",
        "python -u train.py -p experiment12b",
        "locust -u 100 -p profile_2026",
    ],
)
def test_what_stands_behind_such_options_stays_where_it_is_no_password(text: str) -> None:
    assert redact_text(text) == text


def test_the_table_that_pveum_prints_of_a_new_token_hides_its_value() -> None:
    value = "9f1a2c3d-e5f6-4890-abcd-ef1234567890"
    rows = (
        "\u2502 key          \u2502 value                                \u2502",
        "\u2502 full-tokenid \u2502 terraform@pve!provider               \u2502",
        '\u2502 info         \u2502 {"privsep":"0"}                      \u2502',
        f"\u2502 value        \u2502 {value} \u2502",
    )
    table = redact_text("\n".join(rows))
    assert value not in table
    assert "terraform@pve!provider" in table
    assert value not in redact_text(f'{{"full-tokenid":"root@pam!x","info":{{"privsep":"0"}},"value":"{value}"}}')


@pytest.mark.parametrize("name", ["비번", "패스워드", "비밀번호", "암호", "contraseña", "hasło"])
def test_names_in_other_languages_are_read_as_json_escapes_them(name: str) -> None:
    """`json.dumps` escapes all that is not ASCII unless told otherwise."""
    line = f"{name}:{PASSWORD}"
    assert PASSWORD not in redact_text(line)
    assert PASSWORD not in redact_text(json.dumps({"output": line}))


@pytest.mark.parametrize(
    "text",
    [
        "ID/PW:master/d2fbkhhd",
        "id/pass master/dkdjx3vi",
        "ID/PWD-master/8gioyyug",
        "ID/PW(master/wz7wnf8hf)",
        "id/pass:master,2npguukm",
        "user/pwd:master/m00feiqx",
        "ID/PW->master/ovi1bcfk",
        "ID/PW: master / d2fbkhhd",
        f"user/pass alice {PASSWORD}",
    ],
)
def test_a_user_and_a_password_behind_both_names_are_hidden(text: str) -> None:
    assert redact_text(text) != text


@pytest.mark.parametrize(
    "text",
    [
        "Supports username/password authentication, OAuth2 and SAML2.",
        "Username/password login (OAuth2) is disabled",
        "user/pass auth (SOCKS5 only)",
        "username/password credentials, base64-encoded",
        "* username/password handling (#2495a)",
        "username,password columns (varchar255)",
        "username/password: required, oauth2 optional",
        "user,pass = fields1, fields2name",
    ],
)
def test_prose_and_code_behind_both_names_stay(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"I logged in as alice with {PASSWORD} and it worked",
        "Login:gildong.hong/a8@~L5mi$B",
        f"Your one-time code is {PASSWORD}-Zk8wB3tR5nPs",
    ],
)
def test_a_login_and_a_recovery_code_in_a_sentence_are_hidden(text: str) -> None:
    assert redact_text(text) != text


@pytest.mark.parametrize(
    "text",
    [
        "gcloud secrets versions access latest --secret=db-password",
        "podman run --secret=registry-password app",
        "gcloud secrets add-iam-policy-binding --secret=api-token-prod --member=user:x@example.com",
        "wg pubkey < privatekey",
        "Cookie: _ga=GA1.1.297273815.8355119534; _ga_2O5PRS1X1K=GS1.1.9321192648.3.1.1532886196.0.0.0",
        "Set-Cookie: _gcl_au=1.1.783578310.2727730186; Max-Age=7776000",
        "Cookie: _ga_2O5PRS1X1K=GS2.1.s1746825440$o14$g0$t1746825440$j0$l0$h0; _fbp=fb.1.1596403881668.1116446470",
        'const MONGO_NO_AUTH = "mongodb://localhost:27017/database";',
        "put '/forgot-password' => \"cms/sites/passwords#update\", as: 'update_password'",
        '"/en/enterprise/creating-a-strong-password":"/en/enterprise-server@3.0/auth"',
        'curl --tlspassword "https://localhost"',
        '  "credentialId": "EudAOFbqejmgJNxfTLKh2J",',
        "  <UserSecretsId>1e41d17c-fbf1-4717-b1b4-d369c17f0431</UserSecretsId>",
        'apiVersion: v1\nkind: Secret\nmetadata:\n  name: kubernetes-dashboard-csrf\ndata:\n  csrf: ""',
    ],
)
def test_names_addresses_ids_and_counts_of_visits_stay(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "podman run --secret=orbit-velvet-canyon-lantern app",
        f"podman run --secret=db-password-{PASSWORD} app",
        f"Cookie: _gateway={HEX[:32]}",
        f"Cookie: _gallery_sid={PASSWORD}{PASSWORD}",
        '"password": "hunter#swordfish"',
        f"Cookie: _ga=GA1.1.297273815.8355119534; session={PASSWORD}{PASSWORD}",
        f"mongo_auth = mongodb://app:{PASSWORD}@localhost/db",
    ],
)
def test_a_secret_beside_those_is_hidden(text: str) -> None:
    assert redact_text(text) != text
