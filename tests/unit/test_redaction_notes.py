"""Ids, hosts and names that look like passwords, in notes that people write."""

from __future__ import annotations

import pytest

from tellback.redaction import redact_text


@pytest.mark.parametrize(
    "line",
    [
        "tests/test_auth.py::test_password_is_hashed[marble-38201] PASSED",
        "tests/test_auth.py::test_token[chromium-42b7] FAILED",
        "kubectl get secret web-token-f239d5cb -o yaml",
    ],
)
def test_parameters_of_a_test_and_names_with_a_hash_stay(line: str) -> None:
    """Brackets directly behind a name hold no value, and Kubernetes ends names in a hash (A-629)."""
    assert redact_text(line) == line
    assert redact_text(f"- {line}") == f"- {line}"
