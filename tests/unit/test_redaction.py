"""Texts that count as a secret, and the markers that replace them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.commands.local import sensitive_values
from tellback.redaction import Redactor, find_secret, redact_text, redact_value


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        # the five fixed patterns
        ("Bearer eyJhbGciOi", "bearer"),
        ("curl -H 'Authorization: Bearer abc'", "bearer"),
        ("password=hunter2", "password"),
        ("export DB_PASSWORD=hunter2", "password"),
        ("api_key=1", "api-key"),
        ("api-key=1", "api-key"),
        ("https://x/?APIKEY=1", "api-key"),
        ("id AKIAIOSFODNN7EXAMPLE", "aws-access-key"),
        ("token xoxb-1234", "slack-token"),
        ("token xoxp-1234", "slack-token"),
        # some cases of each rule for assignments and places
        ('"password" : "swordfish"', "password"),
        ('<add key="Password" value="swordfish" />', "password"),
        ("sshpass -p swordfish ssh host", "password"),
        ("root:swordfish@tcp(10.0.0.1:3306)/shop", "url-credentials"),
        ("Server=db;Uid=sa;Pwd=sw0rdfish;", "password"),
        ("tool --db-password sw0rdfish", "password"),
        ("Cookie: sessionid=0a1b2c3d4e5f6a7b", "secret-assignment"),
        ('{\\"clientSecret\\": \\"a1b2c3d4e5\\"}', "secret-assignment"),
        ("fastly_id: a1b2c3d4e5f6a7b8", "issuer-assignment"),
    ],
)
def test_a_marker_names_the_rule_that_matched(line: str, rule: str) -> None:
    """The whole line is replaced, and no other; the rates are tested elsewhere."""
    assert redact_text(f"before\n{line}\nafter") == f"before\n[redacted: {rule}]\nafter"


@pytest.mark.parametrize(
    "line",
    [
        "bearer of bad news",
        "The Bearer of bad news",
        "max_tokens=512",
        "AKIA short",
        "xoxz-1",
        "the api key is lost",
        "pass word=1",
    ],
)
def test_prose_and_settings_stay(line: str) -> None:
    """A text that only resembles a secret is left as it is."""
    assert redact_text(line) == line


@pytest.mark.parametrize(
    "line",
    [
        *("PWD=/home/me", "token: null", "token_type=bearer", "secretName: shop-tls-2024", "password: $DB_PASSWORD"),
        *(
            "run -u 1000:1000 image",
            "balance -u https://rpc.example.com",
            "password: str",
            "token = next(tokens)",
            "ssh -p 2222 host",
        ),
    ],
)
def test_references_types_and_calls_stay(line: str) -> None:
    """A name of a secret does not make what follows it one."""
    assert redact_text(line) == line


def test_text_that_is_not_ascii_keeps_its_lines() -> None:
    """Letters whose small form is longer do not move a marker to another line."""
    assert redact_text("İİİİİİİİ\nİ DB_PASSWORD=x\nİİ") == "İİİİİİİİ\n[redacted: password]\nİİ"


def test_exact_values_are_found_wherever_they_stand() -> None:
    """A value that was handed to the command is not shown, in any line of its own."""
    redactor = Redactor({"TOKEN": "s3cr3t-value", "KEY": "first-half\nsecond-half\nab"})
    assert (
        redactor.text("x s3cr3t-value y\nno\nsecond-half\nab")
        == "[redacted: secret TOKEN]\nno\n[redacted: secret KEY]\nab"
    )


def test_values_of_a_mapping_are_read_with_their_key() -> None:
    """Tool parameters are redacted at any depth, and what is no text stays."""
    value = {"password": "x", "n": 1, "list": [{"api_key": "y"}, "password=z", None], "ok": "text", "password=": 1}
    assert redact_value(value) == {
        "password": "[redacted: password]",
        "n": 1,
        "list": [{"api_key": "[redacted: api-key]"}, "[redacted: password]", None],
        "ok": "text",
        "[redacted: password]": 1,
    }


def test_a_value_nested_without_end_is_not_followed() -> None:
    """A cycle ends in a marker, not in a RecursionError."""
    cycle: list[object] = []
    cycle.append(cycle)
    circle: dict[str, object] = {}
    circle["again"] = circle
    assert "nested too deeply" in str(redact_value(circle))
    assert "nested too deeply" in str(redact_value(cycle))


@given(st.text(st.sampled_from("Bearpi_-kyswod=AKI09xb \n\r:'"), max_size=200))
def test_nothing_that_a_rule_matches_is_left(text: str) -> None:
    """Redaction is complete and done once: its own output has nothing to redact."""
    kept = redact_text(text)
    assert find_secret(kept) is None
    assert kept.count("\n") == text.count("\n")


ALMOST = (
    *(
        "AKIA0000 ",
        "authorization:        ",
        "Bearer ",
        "api_",
        "xoxb ",
        "passwor",
        'Authorization"  ',
        "password: ",
        "pwd",
    ),
    *(
        "token=",
        "token=aaaaaaaaaaaaa ",
        "a_b_c_d_",
        "ghp_",
        "sk-",
        "-----BEGIN \n",
        "eyJ",
        "eyJabcdefghijklmnop",
        "://a:",
    ),
    *(
        "://",
        "fastly: abcdefghijklmnop1 ",
        "--token ",
        "----",
        "datadog",
        "secret: aBcDefghijkl ",
        "a" * 100 + "\n",
        "=",
    ),
    *(
        '"key": "',
        "\n",
        " ",
        "login x password ",
        "env a_token ",
        "-us1",
        ":A",
        "Basic ",
        "BEGIN A PRIVATE KE",
        "a:b@",
        "\\n",
    ),
    *(
        "key=" + "a" * 19 + " ",
        "name: a_token\n value",
        "password is ",
        "x:5432:a:b:",
        "$2b$10$",
        "identified by ",
        "login -p ",
    ),
    *("secret=", "zip -p ", "_key ", 'auth": "aa', "value"),
    *("sk-ant-", "EAA" * 20 + " ", "0123456789abcdef" * 4 + "-", "password", "api-key", "KEY-----", "M" * 30 + "."),
)


def cost(text: str) -> float:
    """Processor time of one redaction, in seconds: the least of three."""
    costs: list[float] = []
    for _ in range(3):
        start = time.process_time()
        redact_text(text)
        costs.append(time.process_time() - start)
    return min(costs)


@pytest.mark.parametrize("almost", ALMOST)
def test_almost_matches_cost_linear_time(almost: str) -> None:
    """Four times the text costs about four times the time, on what is bad for each rule."""
    few, many = (cost(almost * (size // len(almost))) for size in (20_000, 80_000))
    assert many < 10 * few + 0.0025


def test_a_run_of_base64_is_not_searched_again_from_each_of_its_places() -> None:
    """A line of 80 KB that says "PRIVATE KEY" in base64, again and again, took a second."""
    assert cost("UFJJVkFURSBLRV" * 5_600) < 60 * cost("QUJDREVGR0hJSk" * 5_600)


def test_the_working_directory_is_no_secret_of_the_environment() -> None:
    environ = {"PWD": "/srv/project/one", "OLDPWD": "/srv/project/two", "DB_PASSWORD": "correct-horse-9"}
    assert sensitive_values(environ) == {"DB_PASSWORD": "correct-horse-9"}
