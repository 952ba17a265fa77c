"""Values in what agents see of their tools: results within JSON, stores of secrets, tests; and lookalikes."""

from __future__ import annotations

import json

import pytest

from tellback.redaction import redact_text

TOKEN = "Zk2mX9vB4tR8wL1nPsq7Zk2mX9vB4tR8wL1nPsq7"


@pytest.mark.parametrize(
    "result",
    [
        {"stdout": f"$ op read op://prod/shop/credential\n{TOKEN}", "exit_code": 0},
        {"content": f">>> secrets.token_urlsafe(30)\n'{TOKEN}'", "is_error": False},
        {"stdout": f"$ cat /run/secrets/api_token\n{TOKEN}", "stderr": "one\ntwo", "seconds": 1.5},
    ],
)
def test_the_last_line_of_a_text_is_read_alone_whatever_field_follows(result: dict[str, object]) -> None:
    assert TOKEN not in redact_text(json.dumps(result))
    assert TOKEN not in redact_text(repr(result))


def test_frames_of_tables_that_json_escapes_divide_cells() -> None:
    rows = (
        "\u250c\u2500\u2500\u252c\u2500\u2500\u2510",
        "\u2502 NAME \u2502 VALUE \u2502",
        f"\u2502 TWILIO_AUTH \u2502 {'1f' * 15}7a \u2502",
    )
    assert "1f1f" not in redact_text(json.dumps({"content": "\n".join(rows)}))


@pytest.mark.parametrize(
    "place",
    [
        "$ aws ssm get-parameter --name /prod/shop --with-decryption --query Parameter.Value --output text\n{}",
        "$ head -c 32 /dev/urandom | base64\n{}=",
        "====== Data ======\nKey       Value\n---       -----\nstripe    {}\nregion    eu",
        "RAILS_ENV=production\nSESSION_SIGNING={}\nPORT=8080",
        "shop_key\n  Value error, must begin with sh_ [type=value_error, input_value='{}', input_type=str]",
        "assert settings.api_key == \"\"\nE       AssertionError: assert '{}' == ''",
        ">>> Fernet.generate_key()\nb'{}='",
        "$ python manage.py shell -c 'from django.conf import settings; print(settings.SECRET_KEY)'\n{}$&@!",
        "$ node -e \"console.log(require('crypto').randomBytes(20).toString('hex'))\"\n{}",
        '  "encrypt": "{}Zk2=",',
        "Here is the API token for staging: {}. Do not commit it.",
    ],
)
def test_a_token_is_hidden(place: str) -> None:
    assert TOKEN not in redact_text(f"before\n{place.format(TOKEN)}\nafter")


@pytest.mark.parametrize(
    "text",
    [
        "login with admin / Y7fZO3OjJly4",
        "temp pw for the new box: ojZjk5FMhrfg (ssh ubuntu@10.0.0.9)",
        "INSERT INTO users (email, password) VALUES ('ann@example.io', ':gi*aaabNn0Mxbs.');",
        "createUser monitor SHA ojZjk5FMhrfg AES ojZjk5FMhrfg",
        '{"action": "type", "element": "Password textbox", "text": "bf0sgextprsu"}',
        "{'content': '>>> os.environ[\"DB_PASS\"]\\n\\'8t^bm1MtcZ=?fWhD\\'', 'exit_code': 0}",
        '{"tool": "imap", "line": "a1 LOGIN ann@example.io fVLyshsmJzpJeI41"}',
        "Or enter this code manually: O32RI3ZPYQCY3RRI7YQZB35QCXO32OJD",
        "define( 'NONCE_SALT',       ')+3*_J=.6QAV|I&=zRDn.b5{(:dz/;b-1xgH[D4Q)+3*_J=.6QAV|I&=zRDn.b5{' );",
    ],
)
def test_a_password_or_a_seed_is_hidden(text: str) -> None:
    assert redact_text(text).startswith("[redacted: ")


@pytest.mark.parametrize(
    "line",
    [
        'Warning  Failed  2m  kubelet  Error: secret "app-db-credentials-7f9c4d" not found',
        "ClientError: The security token in the request is invalid. RequestId: 5b1f0e0a-11c1-4d22-b333-4e44f5555666",
        '127.0.0.1:6379> KEYS token:*\n2) "token:blacklist:2024-05"',
        "password: ENC[AES256_GCM,data:8wy3FbVujzFxTjWiWv+e,iv:YZMr28TbT5hNmpQVPepeDi6+YpSQuE7GTyu+=,type:str]",
        f"  encryptedData:\n    password: AgB{TOKEN * 6}",
        '<div class="css-VJyBpF9 MuiPasswordField-root">',
        '<li key="item-76bc477b">',
        'apiKey: "sk-xxxxxxxxxxxxxxxxxxxxxxxx"',
        f"ETAG_SHA={TOKEN}",
        f'"NextToken": "{TOKEN}{TOKEN}abcdef=="',
        ".dark-input-password-icon{color:#92a4b3;cursor:pointer;transition:all .3s}",
        '("shop_auth", "0023_user_is_bot"),',
        "'user_password': 'DatabaseUserPasswordDetails',",
        "'wallet_secret': 'SensitiveAttribute',",
        'SCORE_PASS = "PASS"',
        "key=asset_key, value=AllPartitionsSubset(partitions_def, ctx)",
        "# ClustersAccessibleTest_K8sClustersAccessibleViaPrivateEndPt.json",
        "get the value from the file identified by 'entry'",
        "shop/plugins/syntax.py,SHA256=uMf4-CAgfsdCR4ORqNu45Q1uETv5QoXG4F1aMhnivgg,1150",
        'SignatureAlgorithmOID.RSA_WITH_SHA224: "sha224WithRSAEncryption",',
        '"PasswordTextbox.errorNotMatching": "Mapasiwedi sakufanana",',
        "for b in bytearray(password.encode('utf-16-le')):",
        '"https://docs.example.com/#pa-1-separate-and-limit-highly-privileged-administrative-users"',
        "function setRefreshToken(token) {\n    api.setRefreshToken(token);\n}",
        '{"version":"bcb06592ab0a43d49a8eb5e1fc2883f8","signature":"d8f0985adf0305e83fa288d809cfe13a"}',
        "-H 'Authorization: Bearer SHOP_VIRTUAL_KEY'",
        "exports.CredentialContextSchema = v4_1.default",
        'clientSecret: "your-app-secret"',
        "encryptSync(password: Uint8Array | string): string {",
        '#~ msgid "The login and/or password you specified are not correct."',
        "if password_transport == 'pipe'",
        "def __init__(self, password: 'TypeInputCheckPassword', period: int):",
    ],
)
def test_what_an_agent_needs_stays(line: str) -> None:
    assert redact_text(line) == line


def test_a_time_before_a_secret_of_kubernetes_keeps_its_indentation() -> None:
    lines = ("apiVersion: v1", "data:", "  conn: 0xq7T9OCIfmkk9nP7JVM3vQz", "kind: Secret")
    text = "\n".join(f"2025-05-02T10:11:12.1234567Z {line}" for line in lines)
    assert "0xq7T9" not in redact_text(text)
