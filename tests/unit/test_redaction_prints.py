"""Values in the places of the twelfth set: what debuggers, shells of languages and tools print; calls; pass phrases."""

from __future__ import annotations

import pytest

from tellback.redaction import redact_text


@pytest.mark.parametrize("escape", ["\\u001b", "\\x1b", "\\033", "\\e"])
def test_a_colour_that_is_escaped_hides_no_value(escape: str) -> None:
    text = f"{escape}[33mDB_PASSWORD{escape}[39m={escape}[32mlAu7SnRQ{escape}[39m"
    assert redact_text(text) == "[redacted: password]"
