"""Cheap checks that rule out most texts before a pattern is tried let through all that the pattern finds."""

from __future__ import annotations

import pytest

from tellback.redaction import redact_text

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
