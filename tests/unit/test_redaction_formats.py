"""Secrets in the formats of the fourteenth set, behind escapes too, and what only resembles them."""

from __future__ import annotations

import html
import json
import quopri
from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import quote, quote_plus

import pytest

from tellback.redaction import Redactor, redact_text

TOKEN: Final = "Zk2mX9vB4tR8wL1nPsq7Zk2mX9vB4tR8"


def _json_for_pages(text: str) -> str:
    """Return the text in JSON as libraries of Java and .NET escape it, so that a page may hold it."""
    encoded = json.dumps({"output": text})
    for sign in "&'<=>":
        encoded = encoded.replace(sign, f"\\u{ord(sign):04x}")
    return encoded


ESCAPED: Final[dict[str, Callable[[str], str]]] = {
    "JSON for pages": _json_for_pages,
    "HTML": html.escape,
    "a URL": lambda text: f"body={quote(text, safe='')}",
    "a URL twice": lambda text: f"next={quote(quote(text, safe=''), safe='')}",
    "mail": lambda text: quopri.encodestring(text.encode()).decode(),
}


@pytest.mark.parametrize("escaped", ESCAPED.values(), ids=ESCAPED)
@pytest.mark.parametrize(
    "text",
    [
        f"docker run -e DB_PASSWORD='{TOKEN}' api",
        f'{{"a": 1, "apiToken": "{TOKEN}"}}',
        f"<apiKey>{TOKEN}</apiKey>",
        f"[client_secret] => {TOKEN}",
        f"$ terraform output -raw session_secret\n{TOKEN}",
        f"  - name: API_KEY\n    value: {TOKEN}",
    ],
)
def test_a_secret_is_hidden_in_a_text_with_escaped_signs(text: str, escaped: Callable[[str], str]) -> None:
    """As JSON for pages, HTML, URLs and mail escape separators, quotes and line breaks (A-449)."""
    assert TOKEN not in redact_text(f"before\n{escaped(text)}\nafter")


@pytest.mark.parametrize(
    "password", ["p/ssw0rd!", "he#ll0X", "my pass9", "x:y7Qw", 'S3"cr', "1<2>3aB", "t@u,v8", "a?b{9}Z"]
)
@pytest.mark.parametrize(
    "text",
    [
        "redis://user:{}@cache:6379/0",
        "git clone https://bot:{}@git.shop.test/a.git",
        "copying //app:{}@files/a",
        '{{"dsn": "amqp://:{}@mq//"}}',
    ],
)
def test_an_encoded_password_of_a_url_is_hidden(text: str, password: str) -> None:
    """Its signs stay encoded, since they would end it (A-449)."""
    encoded = text.format(quote(password + "Zk2mX9vB", safe=""))
    assert "Zk2mX9vB" not in redact_text(encoded)


@pytest.mark.parametrize("secret", ["3Dk29Qx7", "ab%2Fcd12", "a&lt;b%20c", "x\\u003dy9", "ends=3D"])
@pytest.mark.parametrize("text", ["X={}", "see {} there", "https://{}@host/", '{{"output": "={}"}}'])
def test_an_exact_value_that_resembles_an_escape_is_hidden(text: str, secret: str) -> None:
    """Whatever stands before it (A-449)."""
    assert secret not in Redactor({"SHOP": secret}).text(text.format(secret))


@pytest.mark.parametrize(
    "text",
    [
        "https://app.example.net/?q=a%20b%3Dc&next=%2Fkeys%2Flist%3Fpage%3D2",
        "if (a &lt; b &amp;&amp; token == null)",
        json.dumps({"text": "<b>tokens</b> = 'none'"}).replace("<", "\\u003c").replace("=", "\\u003d"),
        "Content-Type: text/plain; charset=3Dutf-8",
        "mode=3D, 84 %, 100%25",
    ],
)
def test_a_text_with_escaped_signs_and_no_secret_stays(text: str) -> None:
    """Escapes are read and not changed (A-449)."""
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-04T10:11:12.1234567Z ##[debug]Evaluating: env.API_KEY\n2026-03-04T10:11:12.1234568Z ##[debug]=> '{}'",
        'Content-Disposition: form-data; name="apiToken"\nContent-Type: text/plain\n\n{}',
        "  - name: X-API-Key\n    in: header\n    example: {}",
        "app=> SELECT setting FROM pg_settings WHERE name = 'api_token';\n setting\n---------\n {}\n(1 row)",
        "$ keyring get shop svc\n{}",
        "E       AssertionError: assert '{0}' == 'x'\nE        +  where '{0}' = Settings().api_key",
    ],
)
def test_a_token_is_hidden(text: str) -> None:
    """In logs with the marks of a debugger, parts of a form, examples, results of a query, keyrings, checks (A-470)."""
    assert TOKEN not in redact_text(text.format(TOKEN))


@pytest.mark.parametrize(
    "text",
    [
        "_CLIENT_SECRET = 'CLIENT_SECRET'",
        "_OpenProcessToken = windll.advapi32.OpenProcessToken",
        '#define PARAM_SIGNATURE_X931_PAD "x931-pad"',
        "REGSTR_VAL_HIDESHAREPWDS = `HideSharePwds`,",
        'correct_password = "correct_password"',
        "class _X25519PrivateKey(X25519PrivateKey):",
        "def load_private_key(self) -> Ed25519PrivateKey | Ed448PrivateKey: ...",
        "class JinaV3ForTokenClassification(JinaEmbeddingsV3PreTrainedModel):",
        "class Thinker(Qwen2_5OmniThinkerForConditionalGeneration):",
        "PPasswordEntry = ^TPasswordEntry;",
        "property Password: UTF8String read FPassword;",
        'n?"password":"select"',
        "'(-f -u)*:recipient:_email_addresses'",
        '"pskcxml": "application/pskc+xml",',
        "push('Authorization', 'Bearer [your token]')",
        "https://REDACTED:REDACTED@www.example.net/",
        f"[{', '.join(['112, 97, 116, 104'] * 16)}]",
    ],
)
def test_what_says_its_own_name_or_a_type_stays(text: str) -> None:
    """So do constants, references, types, bytes of a text and stand-ins (A-448)."""
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        'client_secret = "client-secret-7f3k9q2m4x8v"',
        "CLIENT_SECRET=CLIENT_SECRET_7f3k9q2m4x8v",
        f"client_secret = client_secret.{TOKEN}",
        'db_password: "mydbpassword1"',
        'password = "mypassword"',
        'myauth = ("svc", "myauth-7f3k9q2m4x8v")',
        '"psk": "k7Rt2mQx"',
        '-H "Authorization: Bearer sk-1234"',
        "https://ann:REDACTED7@db1.internal/",
        f"[{', '.join(['112, 97, 216, 104'] * 16)}]",
    ],
)
def test_what_only_begins_or_ends_as_its_name_is_hidden(text: str) -> None:
    """A value that goes on after its name, or a short name at its end, may be a password (A-448)."""
    assert redact_text(text) != text


@pytest.mark.parametrize(
    "text",
    [
        # Lists of words, one of which is a name of passwords.
        "PF\nPG\nPH\nPK\nPL\nPM\nPN\nPR\nPT\nPW\nPY\nXN--3E0B707E\nXN--45BR5CYL",
        "\nd2i_".join(("", *"ABCDEFGH", "PrivateKey", "RSA_PSS_PARAMS", "TS_REQ")),
        "b32d19f32539f18cec08d1e234e8ad45  usr/bin/pwdx\nb96e8bd4d69265513d4213c86c8258e1  usr/share/man/pwdx.1.gz",
        "application/vnd.apple.pkpass\napplication/x-bzdvi",
        "# CHECK: PASS: shtest-shell :: rm-unicode-0.txt",
        'MovedAttribute("HTTPPasswordMgr", "urllib2", "urllib.request"),',
        '209,6,30,"MultiSensor_QPE_01H_Pass1","Multi-sensor accumulation 1-hour (1-hour latency)","mm"',
        "('joe', 'password', 'proxy.example.com:3128')",
        "['openssl', '-out', 'key.passwd.pem','-aes256']",
        "self.assertTrue(bypass('newdomain.com:1234'))",
        "#include <pwd.h>\n#include <stdint.h>",
        "#include <boost/spirit/multi_pass.hpp>\n#include <boost/config.hpp>",
        'PWD_REPLY = "257.1"',
        "registerConvertArithToSPIRVPass();\nregisterConvertArmNeon2dToIntrPass();",
        "password_grant: ResourceOwnerPasswordCredentialsGrant",
        "src/a.c: In function 'get_auth_info':\nsrc/xcb_util.c:433:39: error: 'error_connection' undeclared",
        "NL80211_AUTHTYPE_MAX = __NL80211_AUTHTYPE_NUM - 1,",
        "x86_cpu_PAT = x86_cpu_index_1_edx + 16,",
        '# METHOD can be "trust", "reject", "md5", "password", "scram-sha-256",',
        "ssh-keygen -s ca_key -I key_id -n user1,user2 user_key.pub",
        'assert s.should_strip_auth("https://example.com/foo", "http://example.com/bar")',
        "last_pass_time => '1219328376.07815',",
        "man3/XtSessionReturnToken.3.gz -> XtSessionGetToken2.3.gz",
        '"Resource": "arn:aws:secretsmanager:*:*:secret:prod/db-1AbCdE"',
        # By chance: of a picture in SVG, of time zones, of base64, of names.
        '<path d="M22 15v2h-3v2h-2v-2h-6V9H8v2H6V9H5v2H3V9H2V7h1V5h2v2h1V5h2v2h5v8h4v-2h2v2Z"/>',
        "1HiMn.I KL0 1oN0 11b0 1oN0 11b0 1oN0 11b0 1qN0 WL",
        "lcUq/6qJ34IxD3L/DCfXCh5WAFAeDJDBlrXYFIW7pw0WwfgHJBu6haEaBQmAupVj",
        '"input":{"shape":"ListRequestedServiceQuotaChangeHistoryByQuotaRequest"}',
        "icons/material/cookie-outline.svg,sha256=OPp4c9oijqEnlCYpxI2BpoFAK9jGADImKHrEwmRe_Js,768",
    ],
)
def test_what_resembles_a_name_and_its_value_stays(text: str) -> None:
    """So do lists of words and of files, headers, marks of tests, calls and types (A-452, A-657)."""
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "$ cat tokens.csv\napi_token\n{0}\nother",
        "done\n api_token\n-----------\n {0}\n",
        "PASS_DB_PROD={0}",
        'add("db_password", "{0}")',
        "('joe', 'password', '{0}')",
        'FTP_PASS = "{0}"',
        "openSession('pass', '{0}')",
        "<db.password>\n  {0}\n</db.password>",
    ],
)
def test_a_value_in_such_places_is_hidden(text: str) -> None:
    """A line, a call or an element gives it its name (A-452)."""
    value = "q7Zk2mX9vB4t"
    assert value not in redact_text(text.format(value))


def test_a_value_on_a_page_is_hidden_below_its_name() -> None:
    """Two words above the name make it none of a list (A-452)."""
    assert "q7#Zk2!mX9vB" not in redact_text("name\nann\nsecret\nq7#Zk2!mX9vB\nregion\neu-west")


@pytest.mark.parametrize("encode", [quote, partial(quote, safe=""), quote_plus])
@pytest.mark.parametrize("password", ["q7Zk2mX9vB4t", "q7/Zk2mX9vB4t", "q7@Zk2mX9:B4t", "q7 Zk2mX9+B4t"])
def test_a_login_in_a_url_that_is_encoded_again_is_hidden(encode: Callable[[str], str], password: str) -> None:
    """So is one in the value of a parameter (A-453)."""
    url = f"postgres://app:{quote(password, safe='')}@db1.internal/shop"
    assert encode(quote(password, safe="")) not in redact_text(f"next={encode(url)}&page=2")


@pytest.mark.parametrize(
    "text",
    [
        "the db password is {}, use it",
        "export API_TOKEN = '{}'",
        '{{"note": "rotate it", "api_token": "{}"}}',
        "Authorization: Bearer {}",
    ],
)
def test_a_secret_in_the_text_of_a_form_is_hidden(text: str) -> None:
    """A plus is a space there (A-454)."""
    assert TOKEN not in redact_text(f"id=7&text={quote_plus(text.format(TOKEN))}")


@pytest.mark.parametrize(
    "text",
    [
        "client_secret={}&next=%2Fhome%3Fa%3Db",
        "%7B%22token%22%3A%22{}%22%7D",
        "postgres://app:{}@db1/x?options=-c%3Dfoo",
    ],
)
def test_a_plus_of_base64_in_the_text_of_a_form_ends_no_secret(text: str) -> None:
    """It is read both as itself and as a space (A-454)."""
    secret = "q7+Zk2mX9vB4+tR8wL1nPsd3+Yh5"
    assert secret not in redact_text(text.format(secret))


def test_a_plus_within_an_exact_value_is_found_in_a_form() -> None:
    """So is one whose plus was encoded (A-454)."""
    redactor = Redactor({"SHOP": "ab+cd12"})
    assert "ab+cd12" not in redactor.text("text=x%3Dy&v=ab+cd12")
    assert "ab%2Bcd12" not in redactor.text("text=x%3Dy&v=ab%2Bcd12")


@pytest.mark.parametrize(
    "text",
    [
        "https://app.example.net/login?next=https%3A%2F%2Fapp.example.net%2Fp%3Fmail%3Dann%40example.net",
        "q=how+to+rotate+a+token%3F&page=2",
        "data=q7Zk2mX9vB4tR8wL1nPs%2Bq7Zk2mX9%3D%3D",
    ],
)
def test_an_encoded_text_without_a_secret_stays(text: str) -> None:
    """Addresses of mail in a query, and questions about secrets (A-453, A-454)."""
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text", [f"acme_{TOKEN}", f"SESSION_SIGNING={TOKEN}", "acme_Zk2mX9vB4\x1b[1mtR8wL1nPsq7Zk2mX9vB4tR8"]
)
@pytest.mark.parametrize("end", ["", "\u001b[0m", "\n12 words", "é"])
def test_a_token_of_32_letters_and_digits_needs_no_known_issuer(text: str, end: str) -> None:
    """Its rules are left out where no text has as many in a row, which one in colours has as it is shown."""
    within = json.dumps({"stdout": text + end})
    assert TOKEN[10:] not in Redactor(within=within).text(text + end)
    assert TOKEN[10:] not in redact_text(text + end)
