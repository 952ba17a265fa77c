"""Clean lines that resemble secrets: what redaction must leave as it is."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Final

from tests.support.secrets import UUID, draw

CLEAN: Final = (
    "{hx64}  dist/tellback-0.1.0-py3-none-any.whl",
    "sha256:{hx64}",
    "commit {hx40}",
    "index {hx7}..{hx7} 100644",
    "{hx7} Say why",
    "    --hash=sha256:{hx64}",
    "Digest: sha256:{hx64}",
    f"request_id={UUID}",
    f"id: {UUID}",
    f'"uuid": "{UUID}",',
    UUID,
    "max_tokens=512",
    "max_tokens: {dg4}",
    "tokens used: {dg5}",
    '"completion_tokens": {dg3},',
    "bearer of bad news",
    "The bearer of this letter is known to me",
    "password must have at least {dg2} characters",
    "Enter your password:",
    "the secret of the {dg3} islands",
    "token {dg3} of {dg4}",
    "tokenizer.json: 100%|####| {dg3}k/{dg3}k [00:00<00:00, {dg2}MB/s]",
    "Collecting requests=={dg1}.{dg2}.{dg1}",
    "Downloading tellback-{dg1}.{dg1}.{dg1}-py3-none-any.whl ({dg3} kB)",
    "Successfully installed a-{dg1}.{dg1} b-{dg1}.{dg2}",
    "drwxr-xr-x {dg1} root root {dg4} Jan {dg1} 10:00 secrets",
    "-rw------- 1 me me {dg4} Jan  1 10:00 id_rsa",
    "key: value",
    "key = lambda item: item[{dg1}]",
    "for key, value in data.items():",
    "sort(key=len)",
    "primary_key=True",
    "api_key: str | None = None",
    "def login(user: str, password: str) -> Token:",
    "self.token = token",
    "password = getpass.getpass()",
    "token = os.environ['TOKEN']",
    "TOKEN=$TOKEN ./run",
    "client_secret: ${CLIENT_SECRET}",
    "password: <your password>",
    "secret: ********",
    "https://acme.test/users/{dg6}/posts?page={dg2}",
    "git@github.com:acme/tool.git",
    "http://127.0.0.1:{dg4}/health",
    'etag: "{hx32}"',
    "x-request-id: {hx32}",
    "2026-01-{dg2} 10:{dg2}:{dg2} INFO worker ready in {dg3} ms",
    "eyes only",
    "sk-learn is not a key",
    "ghp_ is how such tokens begin",
    "AKIA is how such ids begin",
    "Basic authentication is off",
    "Authorization is needed",
    "-----BEGIN CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5{b644} me",
    "public_key: {b643}=",
    "fingerprint SHA256:{b643}",
    "cache key python-{hx64}",
    "object {hx40} blob {dg4}",
    "layer {hx12}: Pull complete",
    "container {hx64} started",
    "trace_id={hx32} span_id={hx16}",
    "session s{dg2} opened",
    "passed {dg2} of {dg2} tests",
    "E   AssertionError: assert {dg3} == {dg3}",
    "node_modules/.cache/{hx20}/index.js",
)


def resembling(seed: int, each: int) -> Iterator[str]:
    """Clean lines of what stands beside secrets in logs: hashes, ids, versions, settings, encoded pictures, paths."""
    rng = random.Random(seed)
    for template in CLEAN:
        for _ in range(each):
            yield draw(rng, template)
    for _ in range(each):
        picture = base64.b64encode(rng.randbytes(700)).decode()
        yield f'<img src="data:image/png;base64,{picture}">'
        yield f"    {picture[:76]}"
