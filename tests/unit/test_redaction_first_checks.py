"""Cheap checks that rule out most texts before a pattern is tried let through all that the pattern finds."""

from __future__ import annotations

import pytest

from tellback.redaction import margins, phrases, redact_text
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


@pytest.mark.parametrize("pod", ["api-7d9f8b6c5d-x2z9k", "api-zb9f8b6c-9dz9k"])
def test_the_name_of_a_pod_is_a_margin(pod: str) -> None:
    assert margins.read(f"{pod} app ready\n{pod} app now").text == "ready\nnow"


@pytest.mark.parametrize("phrase", ["orbit-velvet-canyon-lantern", "velvet-canyon-42"])
def test_a_phrase_with_hyphens_is_known_by_what_follows_one(phrase: str) -> None:
    text = f"-- say {phrase} or -x2"
    assert phrases.randomised(text, text, located(text))[1] == [(7, 7 + len(phrase))]
