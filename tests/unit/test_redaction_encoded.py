"""Secrets in the base64 of a text."""

from __future__ import annotations

import base64
import json
import random
import textwrap

import pytest

from tellback.redaction import Redactor, encoded_texts, find_secret, redact_text
from tellback.redaction.rules import all_scans
from tellback.redaction.stream import StreamRedactor
from tests.unit.test_redaction_forms import generated

TEXTS = (
    "password=hunter2",
    "# of the wiki\nDB_PASSWORD=Winter1948x\nDB_HOST=db\n",
    f"export GITHUB_TOKEN=ghp_{generated(36)}\nmake\n",
    json.dumps({"user": "bob", "password": "hunter2"}),
    "??>>~~??>>~~ password=hunter2-4",  # of both signs in which the alphabets differ
    "Das Passwort für bob lautet Xk9!dd82kk",
)
SETTINGS = "listen = 80\nworkers = 4\nlevel = info\n"


def encoded(text: str, encoding: str = "utf-8") -> str:
    return base64.b64encode(text.encode(encoding)).decode()


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "form", ["{}", '{{"content": "{}", "encoding": "base64"}}', "USER_DATA={}", "data:text/plain;base64,{}", "  x: {}"]
)
def test_a_secret_in_base64_of_a_text_is_hidden(form: str, text: str) -> None:
    for given in (encoded(text), base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")):
        line = form.format(given)
        rule = find_secret(line)
        assert rule
        assert redact_text(f"before\n{line}\nafter") == f"before\n[redacted: {rule}]\nafter"
        assert Redactor(within=line).rule_of(line) == rule


def test_a_secret_in_what_windows_shell_is_given_is_hidden() -> None:
    for text, rule in (("$password = 'hunter2-4'", "password"), ("Get-ChildItem C:/Users", None)):
        assert find_secret(f"powershell -EncodedCommand {encoded(text, 'utf-16-le')}") == rule


@pytest.mark.parametrize(
    "beginning", ["# Überprüfung für Straße", "Пароль от базы", "数据库的密码", "סיסמה", "é", "🔑", "# für"]
)
def test_a_text_may_begin_in_any_alphabet(beginning: str) -> None:
    for text in (f"{beginning}\nDB_PASSWORD=Xk9dd82kkQ\n", f"{beginning} password=hunter2, level=info"):
        for data in (text.encode(), text.encode("utf-8-sig"), text.encode("utf-16")):
            assert find_secret(f"data: {base64.b64encode(data).decode()}")
            assert find_secret(f"data: {base64.urlsafe_b64encode(data).decode()}")


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    for encoding in ("utf-8-sig", "utf-16"):
        assert find_secret(encoded("Bearer of-bad-news", encoding)) == "bearer"
    assert find_secret(base64.b64encode(b"\xfe\xff" + "DB_PASSWORD=hunter2".encode("utf-16-be")).decode())


SECRET = "apiVersion: v1\ndata:\n  settings: aHVudGVyMg==\nkind: Secret\nmetadata:\n  name: db\n"
TABLES = (
    "id,name,db_password,port\n1,ann,Copper-marble-Canyon-38,80\n2,bob,xK7dQ2mZ9vR4t,81\n",
    " name |      api_key      \n------+-------------------\n ann  | xK7dQ2mZ9vR4tW6bY3 \n",
)


@pytest.mark.parametrize("text", [SECRET, *TABLES])
def test_a_secret_of_kubernetes_and_a_column_of_secrets_are_hidden_in_base64(text: str) -> None:
    for beside in (text, f"# a list\n\n{text}"):
        line = f"content: {encoded(beside)}"
        assert find_secret(line) in {"kubernetes-secret", "named-column"}
        assert Redactor(within=line).rule_of(line)


def test_what_names_values_in_one_text_names_none_in_another() -> None:
    configuration = "apiVersion: v1\nkind: ConfigMap\ndata:\n  settings: some words of no use\n"
    for other in (SECRET, *TABLES):
        lines = [encoded(other), encoded(configuration), encoded("3,eve,nobody-knows-him-yet,82\n")]
        assert sorted(Redactor().hidden_lines("\n".join(lines))) == [0]


@pytest.mark.parametrize("width", [60, 64, 72, 76])
@pytest.mark.parametrize("margin", ["", "    ", "2026-11-23T10:42:00Z "])
def test_each_line_of_wrapped_base64_of_a_text_with_a_secret_is_hidden(margin: str, width: int) -> None:
    text = SETTINGS * 3 + TEXTS[1] + SETTINGS * 3
    lines = [f"{margin}{line}" for line in textwrap.wrap(encoded(text), width)]
    hidden = Redactor().hidden_lines("\n".join(["the file:", *lines, "and more"]))
    assert sorted(hidden) == list(range(1, len(lines) + 1))
    assert set(hidden.values()) == {"password"}


def test_wrapped_base64_is_hidden_wherever_a_stream_is_cut() -> None:
    wrapped = textwrap.fill(encoded(SETTINGS * 2 + TEXTS[1] + SETTINGS * 2), 76)
    text = f"before\n{wrapped}\nafter\n"
    for cut in range(1, len(text)):
        shown = "".join(StreamRedactor().feed([text[:cut], text[cut:]]))
        assert shown.split("\n") == ["before", *["[redacted: password]"] * (wrapped.count("\n") + 1), "after", ""], cut


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"alg": "HS256", "typ": "JWT", "kid": "b51fd2c4a9"}),
        json.dumps({"offset": 120, "id": "5f3a9c2b7e1d4f60", "next_token": "abc"}),
        "cursor:v2:1699999999:5f3a9c2b7e1d4f60",
        json.dumps({"version": 3, "sources": ["token.ts"], "mappings": "AAAA,SAASA,KAAK,CAAC"}),
        "arrayconnection:42 of a list of pages",
        encoded(TEXTS[0]),  # twice
        "Überprüfung der Straße am 12.",
        "Пароль должен иметь 12 знаков",
        "\ufeff密码至少需要八个字符",
        "an OpenAI client retries what takes too long",  # these words begin as tokens do
        "we refuse to go on with the list of servers as it stands",
    ],
)
def test_base64_of_a_text_without_a_secret_stays(text: str) -> None:
    for line in (
        encoded(text),
        f'"cursor": "{encoded(text)}",',
        f"//# sourceMappingURL=data:x/json;base64,{encoded(text)}",
    ):
        assert redact_text(line) == line


def test_base64_of_what_is_no_text_stays() -> None:
    """Text may stand before other bytes: only what comes before these is read."""
    source = random.Random(5)
    lines = [f"{{integrity: sha512-{base64.b64encode(source.randbytes(64)).decode()}}}" for _ in range(500)]
    lines.append(base64.b64encode(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\npassword=hunter2\n").decode())
    lines.append(base64.b64encode(b"a picture of the wall, in bytes: \x00\x01 password=hunter2\n").decode())
    assert redact_text("\n".join(lines)) == "\n".join(lines)


def test_a_text_that_comes_again_is_hidden_everywhere_and_decoded_once() -> None:
    text = f"{encoded(TEXTS[0])} x\n" * 3
    assert sorted(Redactor().hidden_lines(text)) == [0, 1, 2]
    assert len(list(encoded_texts.within(text))) == 1


def test_each_line_of_a_text_with_many_secrets_is_found_once() -> None:
    text = textwrap.fill(encoded(f"{TEXTS[0]}\n" * 200), 76)
    found = [place for place, rule in all_scans().find_all(text) if rule == "password"]
    assert len(found) == text.count("\n") + 1


@pytest.mark.parametrize("line", ["über" * 5, "٣" * 20, "日本語"])
def test_a_line_in_another_alphabet_ends_wrapped_base64(line: str) -> None:
    wrapped = encoded(f"level = info {TEXTS[0]}".ljust(57))
    assert len(wrapped) == 76
    assert sorted(Redactor().hidden_lines(f"{wrapped}\n{line}")) == [0]


def test_texts_beside_each_other_are_read_each_by_itself() -> None:
    """Of one length that is no width of wrapped lines, as a column of them has."""
    rows = [encoded(f"name=host-{number:02} level=info.") for number in range(9)]
    rows[4] = encoded("x" * (len(rows[0]) // 4 * 3 - 18) + " api_key=hunter2x")
    assert sorted(Redactor().hidden_lines("\n".join(rows))) == [4]
