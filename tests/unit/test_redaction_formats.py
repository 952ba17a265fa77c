"""What only resembles a secret since it says a name again, or is a type, and what differs from it by little."""

from __future__ import annotations

import pytest

from tellback.redaction import redact_text

TOKEN = "Zk2mX9vB4tR8wL1nPsq7Zk2mX9vB4tR8"


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
