"""Short passwords and tokens in the places of the eleventh set: consoles, tools, calls; each rule by what it hides."""

from __future__ import annotations

import pytest

from tellback.redaction import redact_text
from tellback.redaction.values import seems_random

SHORT = ("lAu7SnRQ", "oe-rAn%5", "8?Upm.HM", "EAG4=G=t", "GAgkDlmA0J")
NUMBERED_WORDS = (
    "Utf8Decoder",
    "OAuth2User",
    "S3Bucket2",
    "X509Cert",
    "nn.Conv2d",
    "Cortex-A53",
    "Base64Url",
    "UTF-8%20is",
)


def test_short_passwords_are_distinguished_from_words_with_numbers() -> None:
    assert all(seems_random(value, 0) for value in SHORT)
    assert not [word for word in NUMBERED_WORDS if seems_random(word, 0)]


@pytest.mark.parametrize("password", ["lAu7SnRQ", "oe-rAn%5"])
@pytest.mark.parametrize(
    "place",
    [
        "db_password: {}",
        "ansible_ssh_pass={}",
        "$ printenv ADMIN_PASSWORD\n{}",
        "$ az keyvault secret show --name db-password --query value -o tsv\n{}",
        "$ kubectl get secret app -o jsonpath='{{.data.password}}' | base64 -d\n{}",
        "C:\\> set DB_PASSWORD\nDB_PASSWORD={}",
        "PASSWORD elastic = {}",
        *("db_pass_arg={}", "passArg: '{}'"),
        "steghide extract -sf f.jpg -p {}",
        'db.changeUserPassword("svc", "{}")',
        'httr::authenticate("svc", "{}")',
        '.basic_auth("svc", Some("{}"))',
        "DEBUG Auth - login(svc, {})",
        "127.0.0.1:6379> AUTH svc {}",
        "HELLO 3 AUTH svc {}",
        "sentinel auth-pass mymaster {}",
        "radius-server key {}",
        'browser.fill_in "Password", with: "{}"',
        "pass \u2192 {}",
        "host = db1\npw = {}",
        "<keyMaterial>{}</keyMaterial>",
        "net ads join -U admin%{}",
        "enable secret 0 {}",
        "echo {}|sudo -S ls",
        "echo -n '{}' | sudo --stdin ls",
        '"db_password": {{\n    "sensitive": true,\n    "value": "{}"\n  }}',
        "<db_password>\n    <value>{}</value>\n</db_password>",
        "db_password: |  # of the replica\n  {}",
    ],
)
def test_a_short_random_password_is_hidden(place: str, password: str) -> None:
    assert password not in redact_text(f"before\n{place.format(password)}\nafter")


@pytest.mark.parametrize("call", ['base64.b64decode("{}")', "base64.b64decode(b'{}')"])
def test_a_password_in_a_call_that_decodes_it_is_hidden(call: str) -> None:
    assert "cWEhWmdJRkkyZzg" not in redact_text(f"password = {call.format('cWEhWmdJRkkyZzg=')}")


@pytest.mark.parametrize("place", ["{}", "admin:{}"])
@pytest.mark.parametrize("password", ["Root#87678#79", "Bug#51433!RT9"])
def test_a_password_of_a_word_and_numbers_is_no_ticket(place: str, password: str) -> None:
    assert password not in redact_text(place.format(password))


def test_a_phrase_of_four_words_is_hidden_below_its_name() -> None:
    assert "canyon" not in redact_text("$ printenv DB_PASSWORD\norbit-velvet-canyon-lantern")
    assert redact_text('class="password reset-form"\nlogin-page') == 'class="password reset-form"\nlogin-page'


TOKEN = "Zk2mX9vB4tR8wL1nPsq7Zk2mX9vB4tR8"


@pytest.mark.parametrize(
    "place",
    [
        "##vso[task.setvariable variable=access_token;issecret=false]{}",
        "##[debug]..=> '{}' (env.CLIENT_SECRET)",
        "camel.component.aws2-s3.secret-key=RAW({})",
        "ValueError: API_TOKEN must be 16 characters, got '{}'",
        "api_token\n  Input should be a valid integer [type=int_parsing, input_value='{}', input_type=str]",
        "PS C:\\> Get-Secret -Name secretKey -AsPlainText\n{}",
        'mac := hmac.New(sha256.New, []byte("{}"))',
        "\u250c\u2500name\u2500\u252c\u2500api_key\u2500\u2510\n\u2502 svc  \u2502 {} \u2502",
        "poetry config pypi-token.r {}",
        "java -jar jenkins-cli.jar -auth admin:{} list-jobs",
        "mount -t cifs //svc:{}@h1/share /mnt",
        'const api_token: []const u8 = "{}";',
        'auto api_token = std::string{{"{}"}};',
        "SELECT '{}' AS signing_key;",
        "Authorization: Bearer: {}",
        '.header("Authorization", format!("Bearer {{}}", "{}"))',
        "auth:\n  type: bearer\n  value: {}",
        "curl -u {}: https://a.example.net",
        "codecov -t {}",
        "vault login {}",
        "netlify deploy --auth {}",
        "mysql> select @@access_token;\n{}",
        'new AuthenticationHeaderValue("Bearer", "{}")',
        '#[arg(long, default_value = "{}")] service_token: String,',
        '<api_token type="x">\n  {}\n</api_token>',
        "<api_token><![CDATA[\n{}\n]]></api_token>",
    ],
)
def test_a_token_is_hidden(place: str) -> None:
    assert TOKEN not in redact_text(f"before\n{place.format(TOKEN)}\nafter")


WORDS = "abandon ability about absent absorb abstract absurd abuse access accident account accuse"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (
            '"keys": [\n    "{0}",\n    "{0}"\n  ],',
            "91bde0db172f5a8b687a5e8417f9c773839ea37ee4bd6abc6be885c84288e6f498",
        ),
        ("Key 3: {}", "olYJjU6HgVM+d4OIbztLMUqnbR6sm/X4N7hAG/OUu7m="),
        ("vault operator unseal -address=https://v:8200 {}", "worzmn3Nm4CZnByVOnVTYQs3PFYNaXPcsO5EzDFcynU="),
        ("seed: {}", WORDS),
        ("seed phrase (write it down):\n{}", WORDS),
        ("BIP39 mnemonic -> {}", WORDS),
        ("7zz a -t7z '-p{}' x.7z d", "hP42oTJ%JlcY"),
        ("rman target sys/{}@APP", "yU9BQIOkSKQ5"),
        ("expdp svc/{}@db1 full=y", "Ai85I2OKV3xx"),
    ],
)
def test_shares_of_keys_seeds_and_passwords_of_tools_are_hidden(text: str, secret: str) -> None:
    assert secret not in redact_text(f"before\n{text.format(secret)}\nafter")


def test_names_of_cipher_suites_are_no_keys() -> None:
    assert redact_text('#define SSL_TXT_kDHEPSK "kDHEPSK"') == '#define SSL_TXT_kDHEPSK "kDHEPSK"'


@pytest.mark.parametrize("place", ["vercel --token {}", "Invalid API Key provided: {}", "the token {} is bad"])
def test_a_token_of_letters_is_hidden(place: str) -> None:
    letters = "jqWkzRvHpxTbNyGcLdMfXqVw"
    assert letters not in redact_text(place.format(letters))
    assert redact_text(place.format("internationalizationSettings")) == place.format("internationalizationSettings")


@pytest.mark.parametrize(
    "mark", ["NextToken", "ClientToken", "next_token", "continuationToken", "page_token", "LockToken", "changeToken"]
)
@pytest.mark.parametrize("form", ["{}={}", "{}: {}", '"{}": "{}"', "retry with {} {}", "the {} is {}"])
def test_marks_of_pages_stay_in_each_form(mark: str, form: str) -> None:
    """Before, only those in quotes did."""
    assert redact_text(form.format(mark, TOKEN)) == form.format(mark, TOKEN)


@pytest.mark.parametrize(
    "flag",
    [
        *(
            "--next-token",
            "--client-token",
            "--starting-token",
            "--page-token",
            "--lock-token",
            "--client-request-token",
        ),
        *("--key-id", "--ssh-public-key-id"),
    ],
)
def test_flags_for_pages_retries_and_ids_stay(flag: str) -> None:
    assert redact_text(f"aws s3api list {flag} {TOKEN}") == f"aws s3api list {flag} {TOKEN}"


@pytest.mark.parametrize("name", ["unlock_token", "exchangeToken", "--unlock-token", "--s3-access-key-id"])
def test_secrets_whose_names_end_as_marks_and_ids_do_are_hidden(name: str) -> None:
    assert TOKEN not in redact_text(f"{name} {TOKEN}" if name.startswith("--") else f'"{name}": "{TOKEN}"')


@pytest.mark.parametrize(
    "line",
    [
        "class Large4_5_PatchEmbed(Small2_5_VisionPatchEmbed):",
        '"CustomerMasterKeySpec": "ECC_NIST_P521",',
        '"PreTokenGeneration": "arn:aws:lambda:us-east-1:123456789012:function:Mail7",',
        '"PWD": "/srv/shop-2/build", "OLDPWD": "/srv/shop-2",',
        "{'PWD': '/srv/shop-2', 'HOME': '/srv'}",
        'declare -x OLDPWD="/srv/shop-2"',
        "readFile('/etc/passwd', 'utf8', callback);",
        "perldoc -u Some::Modulename",
        "password = base64.b64decode(rest)",
        "username, _, passwd = str2bytes.to_utf16le(given).partition(b':')",
        '_PassArg.context: "context",',
        'if pass_arg == "environment":',
        "Problem reported by Ann Brady (Bug#51433#14).",
        '"Asia/Singapore|-80|012345467|-2Bg6T.p 17anT.p 7hXE dM00 17bO 8Fyu Mspu DTA0"',
        '"Asia/Pyongyang|KST JCST|-8u -90 -80|01012343|-2CsUu Ucnu 9Iou dXXu jdA0 kQo0 hXB0"',
        '"Africa/Freetown|LMT FMT -01|R R 10 E 0|0123|-3ygn7 1gFc0 Lhc7 MnE 11ck 1oLE 11ck 1oLE 11ck 1pbE"',
        "_ZNSt10filesystem15last_write_timeERKNS_7__cxx114pathENSt6chrono10time_pointINS_12__file_clockENS_4EEE@@GLIBCXX",
    ],
)
def test_names_beside_a_word_for_a_secret_stay(line: str) -> None:
    assert redact_text(line) == line


@pytest.mark.parametrize(
    "place",
    ['"PWD": "{}"', '"db_pwd": "/{}"', "_ZN3c1018getTypeINS_14tagged_capsuleEv {}", "curl -u svc:{} https://a.example"],
)
def test_secrets_beside_folders_and_symbols_are_hidden(place: str) -> None:
    token = f"ghp_{TOKEN}{TOKEN[:4]}"
    assert token not in redact_text(place.format(token))
