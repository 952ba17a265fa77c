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
