"""Cheap checks that rule out most texts before a pattern is tried let through all that the pattern finds."""

from __future__ import annotations

import pytest

from tellback.redaction import find_secret, made_passwords, margins, phrases, redact_text
from tellback.redaction.substrings import located

SECRET = "kind: Secret\ndata:\n  settings: aHVudGVyMg==\n"


@pytest.mark.parametrize("form", ["kind", "Kind", "KIND"])
@pytest.mark.parametrize("more", ["", "# naïve – 鍵\n"])
def test_a_kubernetes_secret_is_known_by_its_kind_in_any_case(form: str, more: str) -> None:
    text = SECRET.replace("kind", form)
    assert "aHVudGVyMg==" not in redact_text(f"{more}{text}")
    assert redact_text(f"{more}{text.replace(form, 'name')}") == f"{more}{text.replace(form, 'name')}"


@pytest.mark.parametrize("password", ["x7ojaqwktKdt!v", "xKojaqwkt7dt!v", "x7qzj#vwktKdt"])
def test_a_password_with_a_sign_is_hidden_whichever_comes_first_of_its_digit_and_its_capital(password: str) -> None:
    prose = "The runner keeps what a command printed!now, and an agent reads it.\n"
    assert password not in redact_text(f"{prose}use {password}\n{prose}")


@pytest.mark.parametrize("value", ["!aabbccddee1", "^wwvxqrdd(e1"])
def test_a_value_with_signs_is_hidden_from_twelve_characters_on(value: str) -> None:
    assert redact_text(f"salt={value}") != f"salt={value}"
    assert redact_text(f"salt={value[:-1]}") == f"salt={value[:-1]}"


@pytest.mark.parametrize("sign", ["=", ": ", ' = "ab" -> "', ': str = "', "|=", ' string = "', ': ["', "=b'", '=r"""'])
def test_a_value_with_signs_is_known_behind_each_sign(sign: str) -> None:
    assert redact_text(f"salt{sign}a!bbccd@dee1ff2") != f"salt{sign}a!bbccd@dee1ff2"


def test_the_key_of_a_session_is_hidden_with_its_quote() -> None:
    assert find_secret("export BW_SESSION='kX7dQ2mZ9vR4tW6bY3nH8jL5pC1gF0sX+a1B2c3D4e5=='") is not None


def test_the_name_of_a_session_in_quotes_stays() -> None:
    assert find_secret('tmux new-session; TMUX_SESSION="build-2026-11-30-run7"') is None


@pytest.mark.parametrize(
    "form", ["db_pw:\n  {}", "db_pw: |\n  {}", "<key>db_pw</key><string>{}</string>", "db_pws: {}"]
)
def test_a_password_below_a_short_name_is_hidden(form: str) -> None:
    assert find_secret(form.format("R3b5Prbh")) is not None


@pytest.mark.parametrize("value", ["ju6vqgese33melzg", "Fal29$battery", "fe9429c1462a87837302649cecf80197"])
def test_what_a_sentence_calls_the_key_is_hidden(value: str) -> None:
    assert find_secret(f"HMAC with {value} as the signing key") is not None


def test_the_token_of_a_runner_is_hidden_with_one_digit() -> None:
    assert find_secret("./config.sh --url https://github.com/acme --token APUMMEPNKDURYVGGOQY4XIUHUNMNY") is not None


@pytest.mark.parametrize("pod", ["api-7d9f8b6c5d-x2z9k", "api-zb9f8b6c-9dz9k"])
def test_the_name_of_a_pod_is_a_margin(pod: str) -> None:
    assert margins.read(f"{pod} app ready\n{pod} app now").text == "ready\nnow"


@pytest.mark.parametrize("phrase", ["orbit-velvet-canyon-lantern", "velvet-canyon-42"])
def test_a_phrase_with_hyphens_is_known_by_what_follows_one(phrase: str) -> None:
    text = f"-- say {phrase} or -x2"
    assert phrases.randomised(text, text, located(text))[1] == [(7, 7 + len(phrase))]


@pytest.mark.parametrize(
    "before",
    [
        *("the pw is ", "reset the password for bob to ", "our Password for the wiki was  ", "pw: ", "password = `"),
        *("passwd -> ", "pw \u2014 ", "the pw of bob (", "pw ", "passwd  ", 'password "', "for the password use '"),
        *("log in with ", "creds: bob / ", "login bob:", "the pw of ana con ", "pw for bob, try '"),
    ],
)
def test_a_made_password_is_known_by_what_stands_before_it(before: str) -> None:
    assert "winter1948" not in redact_text(f"{before}winter1948")
    assert "winter1948" in redact_text(f"{before}and then winter1948")


@pytest.mark.parametrize(
    "word", ["winter1948", "winter_9", "winter9!", "winter19!", "winter19!?", "w1nter#77!19", "wint3r12@", "t@ng0_77"]
)
@pytest.mark.parametrize("behind", ["", ".", ", or summer-2", " of 12345678", "\u3001\u5024", "\u00a7"])
def test_a_made_password_is_known_by_its_last_digit(word: str, behind: str) -> None:
    text = f"the pw is {word}{behind}"
    assert list(made_passwords.spans(text, text, located(text))) == [(10, 10 + len(word))]


@pytest.mark.parametrize(
    "word", ["wint3r-19", "wint_3r-19", "wint-3r-19", "wint!3r-19", "wint#3r-19", "wint\u00e93-19"]
)
@pytest.mark.parametrize("filler", ["", "for host 12 ", "for the host of the team that has room 12 on floor 7 "])
def test_a_made_password_is_known_by_what_stands_before_its_first_digit(word: str, filler: str) -> None:
    text = f"the password {filler}is {word}"
    found = list(made_passwords.spans(text, text, located(text)))
    assert found == [(len(text) - len(word), len(text))]


@pytest.mark.parametrize("before", [" ", ' "', " '", " `", ' ("'])
def test_a_made_password_is_found_behind_any_quote_or_space(before: str) -> None:
    text = f"x1, y2: the password is:{before}winter1948"
    found = list(made_passwords.spans(text, text, located(text)))
    assert found == [(len(text) - 10, len(text))]


_SIGNS = (
    *(": ", "=", " => ", " -> ", " ?= ", " += ", " .= ", " |= ", " || ", ' "', '{"', "{'"),
    *(': string = "', ': str = "', ": final = '", ' string="', '= "old" -> "', ': b"', "= $'"),
)
_SIGNS_OF_TOKENS = ('"] ', ": basic ", ":\n  ", ": |\n  ", ": >-\r\n  ", ">\n  ", "</key>\n<string>")


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        *((name, sign) for name in ("db_token", "db_password", "wifi_psk") for sign in _SIGNS),
        *(("db_token", sign) for sign in _SIGNS_OF_TOKENS),
        *(("db_password", sign) for sign in (*_SIGNS_OF_TOKENS, "->", ' value="') if "basic" not in sign),
    ],
)
def test_a_value_that_is_not_random_is_known_behind_each_sign(name: str, sign: str) -> None:
    assert "station12-depot34" not in redact_text(f"{name}{sign}station12-depot34")


@pytest.mark.parametrize(
    "text",
    [
        *("password: sesame", "db_password = kQzErTyW # x", "passwd: kqwe/TyZxCvB+wlmn", "passwd: /kQwErTyZxCvBnMl"),
        *("snmp community = EYjV.bOqyH4w", "pwd = XpnF=jgffe5tbz", "$pass |= cx.ajeQhPTJWUMId"),
        *('password: ["sesame"]', 'db_password: final = "sesame"', 'passwd: &str = "sesame"', 'Passwd{"sesame"}'),
        *('DB_PASSWD ?= "sesame"', 'passwd string = "sesame"', "wifi_psk || 'sesame'", 'passwd: "sesame"'),
        *('passwd = f"sesame"', '<x name="passwd" value="sesame"/>', "<passwd>sesame.x</passwd>"),
        *("passwd: |\n  sesame", "passwd>\n  sesame", "<key>passwd</key>\n<string>sesame</string>"),
    ],
)
def test_a_password_without_a_digit_near_is_known_by_its_sign_or_its_beginning(text: str) -> None:
    """Each is found by one part of the check behind names of passwords alone."""
    assert redact_text(text) != text
