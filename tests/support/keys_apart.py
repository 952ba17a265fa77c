"""Private keys of a corpus held apart: of each type, behind the margins of logs and in other wrappings."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote

from tests.support.secrets_apart import SecretSample, draw

_HEADS: Final = {
    "rsa": ("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", ""),
    "pkcs8": ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", ""),
    "pkcs8, encrypted": ("-----BEGIN ENCRYPTED PRIVATE KEY-----", "-----END ENCRYPTED PRIVATE KEY-----", ""),
    "ec": ("-----BEGIN EC PRIVATE KEY-----", "-----END EC PRIVATE KEY-----", ""),
    "dsa": ("-----BEGIN DSA PRIVATE KEY-----", "-----END DSA PRIVATE KEY-----", ""),
    "openssh": ("-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----", ""),
    "ssh2": (
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----",
        "---- END SSH2 ENCRYPTED PRIVATE KEY ----",
        'Comment: "rsa-key"\n',
    ),
    "pem, encrypted": (
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END RSA PRIVATE KEY-----",
        "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,7A6F3C0B1D2E4F5A6B7C8D9E0F1A2B3C\n\n",
    ),
    "pgp": (
        "-----BEGIN PGP PRIVATE KEY BLOCK-----",
        "-----END PGP PRIVATE KEY BLOCK-----",
        "Version: GnuPG v2\nComment: for backups\n\n",
    ),
    "putty": (
        "PuTTY-User-Key-File-3: ssh-ed25519",
        "Private-MAC: 5dd8a2d7a0e5f8a1c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c",
        "Encryption: none\nComment: me\nPublic-Lines: 2\nAAAAC3NzaC1lZDI1NTE5AAAAIOMq\nhWxY\nPrivate-Lines: 8\n",
    ),
}


def _numbered(line: str, at: int) -> str:
    return f"{at}:{line}"


MARGINS: Final[dict[str, Callable[[str, int], str]]] = {
    "none": lambda line, _at: line,
    "compose": lambda line, _at: f"web-1  | {line}",
    "compose, no blank": lambda line, _at: f"web-1  | {line}".rstrip(),
    "grep -n": _numbered,
    "grep, file": lambda line, at: f"keys/id.pem:{at}:{line}",
    "grep, context": lambda line, at: f"keys/id.pem-{at}-{line}",
    "cat -n": lambda line, at: f"{at:6}\t{line}",
    "bat": lambda line, at: f"{at:4} │ {line}",
    "kubectl": lambda line, _at: f"[pod/web-7f9c5d8b6-x2x4z/app] {line}",
    "stern": lambda line, _at: f"web-7f9c5d8b6-x2x4z app {line}",
    "journald": lambda line, _at: f"Mar 01 10:22:31 host-1 app[4711]: {line}",
    "journald, iso": lambda line, _at: f"2026-03-01T10:22:31+0100 host-1 app[4711]: {line}",
    "python": lambda line, at: f"2026-03-01 10:22:31,{at:03} INFO app.keys: {line}",
    "python, short": lambda line, _at: f"INFO:app.keys:{line}",
    "python, dashes": lambda line, _at: f"2026-03-01 10:22:31,123 - app.keys - DEBUG - {line}",
    "docker, time": lambda line, _at: f"2026-03-01T10:22:31.123456789Z {line}",
    "github actions": lambda line, _at: f"2026-03-01T10:22:31.1234567Z {line}",
    "diff": lambda line, _at: f"+{line}",
    "quote": lambda line, _at: f"> {line}",
    "comment": lambda line, _at: f"# {line}",
    "indented": lambda line, _at: f"        {line}",
    "celery": lambda line, _at: f"[2026-03-01 10:22:31,123: WARNING/ForkPoolWorker-2] {line}",
    "terraform": lambda line, _at: f"        {line}",
    "log4j": lambda line, _at: f"10:22:31.123 [main] INFO  c.e.Keys - {line}",
    "zap": lambda line, _at: f"2026-03-01T10:22:31.123Z\tINFO\tkeys/k.go:41\t{line}",
    "ansible": lambda line, _at: f'        "{line}",',
    "concatenation": lambda line, _at: f"    '{line}\\n' +",
    "printf": lambda line, _at: f'    "{line}\\n"',
    "tagged": lambda line, _at: f"[web] {line}",
    "cri": lambda line, _at: f"2026-03-01T10:22:31.123456789Z stdout F {line}",
    "coloured": lambda line, _at: f"\x1b[36mweb-1  | \x1b[0m{line}",
    "windows": lambda line, _at: f"{line}\r",
    "table": lambda line, _at: f"| {line} |",
}


def keys(seed: int) -> Iterator[SecretSample]:
    """Return private keys of each type, behind each margin and in each wrapping; `secret` is one of its lines."""
    rng = random.Random(seed)
    for kind, (begin, end, header) in _HEADS.items():
        body = [draw(rng, "[A-Za-z0-9+/]{64}") for _ in range(8)]
        lines = [begin, *header.splitlines(), *body, end]
        for margin, dress in MARGINS.items():
            text = "before\n" + "\n".join(dress(line, at) for at, line in enumerate(lines, 12)) + "\nafter\n"
            yield from (SecretSample(f"key, {kind}", margin, line, text) for line in body)
        whole = "\n".join(lines) + "\n"
        long = [begin, *header.splitlines(), "".join(body), end]
        wrapped = {
            "one long line": "\n".join(long),
            "one long line, compose": "\n".join(f"web-1  | {line}" for line in long),
            "json": json.dumps({"key": whole}),
            "json within json": json.dumps(json.dumps({"key": whole})),
            "env, escaped": "DEPLOY_KEY=" + whole.replace("\n", "\\n"),
            "python repr": repr(whole),
            "python repr of bytes": repr(whole.encode()),
            "one line, spaces": whole.replace("\n", " "),
            "one line": whole.replace("\n", ""),
            "cut at the end": "\n".join(lines[:-3]),
            "yaml": "key: |\n" + "".join(f"  {line}\n" for line in lines),
            "html": whole.replace("\n", "<br>"),
            "xml": f"<key>{whole}</key>",
            "crlf escaped": whole.replace("\n", "\\r\\n"),
        }
        for form, text in wrapped.items():
            yield from (SecretSample(f"key, {kind}", form, line, text) for line in body)
        yield from _encoded(kind, whole, body)


def _encoded(kind: str, whole: str, body: list[str]) -> Iterator[SecretSample]:
    """Return the same key in base64, wrapped and not, and behind percent signs."""
    once = base64.b64encode(whole.encode()).decode()
    for width in (64, 76):
        lines = [once[at : at + width] for at in range(0, len(once), width)]
        for form, margin in (("", ""), (", compose", "web-1  | "), (", indented", "    ")):
            text = "\n".join(margin + line for line in lines)
            yield from (SecretSample(f"key, {kind}", f"base64 at {width}{form}", line, text) for line in lines[1:-1])
    yield SecretSample(f"key, {kind}", "base64", once[60:], f"here: {once} end")
    twice = base64.b64encode(once.encode()).decode()
    yield SecretSample(f"key, {kind}", "base64 twice", twice[80:], twice)
    for form, safe in (("url", ""), ("url, slashes kept", "/+")):
        encoded = quote(whole, safe=safe)
        yield from (SecretSample(f"key, {kind}", form, quote(line, safe=safe), f"key={encoded}&x=1") for line in body)
