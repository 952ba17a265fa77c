"""The form in which a file is uploaded."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import msgspec


def multipart(fields: Mapping[str, Any], name: str, content: bytes) -> tuple[bytes, str]:
    """A body of multipart/form-data, and its content type; values that are not text are sent as JSON."""
    boundary = secrets.token_hex(16)  # in no content, but for one chance in 2^128
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n'.encode()
        + (value.encode() if isinstance(value, str) else msgspec.json.encode(value))
        for field, value in fields.items()
    ]
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}.ogg"\r\n'
    parts.append(f"{head}Content-Type: audio/ogg\r\n\r\n".encode() + content)
    return b"\r\n".join([*parts, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"
