"""What a submitted command must be: asked by the client before publishing, and by the worker of whoever did not ask."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from tellback.commands.failures import invalid
from tellback.contracts.commands import CommandSubmitted
from tellback.redaction import find_secret

MAX_BYTES: Final = 64 << 10  # of argv, of env: both stand in the record or the job
MAX_NOTE_CHARS: Final = 1_000
MAX_ID_CHARS: Final = 200
MAX_SESSION_CHARS: Final = 512
MAX_INPUTS: Final = 100
MAX_TIMEOUT: Final = 3_600.0  # seconds; the hard limit of the task that runs commands lies above it
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def unaddressable(submitted: CommandSubmitted) -> str | None:
    """Why no record can be kept for it: it names no session or command that a key could hold."""
    limits = (("command_id", submitted.command_id, MAX_ID_CHARS), ("session", submitted.session, MAX_SESSION_CHARS))
    for name, value, limit in limits:
        if not 1 <= len(value) <= limit:
            return f"{name} has {len(value)} characters; use 1 to {limit}"
    return None


def problem(submitted: CommandSubmitted) -> str | None:
    """What keeps it from being run anywhere, or None; the text names the argument."""
    return (
        invalid(submitted.argv, submitted.cwd, submitted.env)
        or _secret(submitted)
        or _bounds(submitted)
        or _names(submitted)
    )


def _secret(submitted: CommandSubmitted) -> str | None:
    """A command carries what it needs to run, so that a secret in it would stand in Redis as it is."""
    texts = [(f"argv[{i}]", argument) for i, argument in enumerate(submitted.argv)]
    texts += [(f"env[{name!r}]", f"{name}={value}") for name, value in submitted.env.items()]
    texts += [("note", submitted.note or ""), ("cwd", submitted.cwd or "")]
    for name, text in texts:
        if rule := find_secret(text):
            return f"{name} carries a secret (rule {rule}); name it in secret_env, and the worker's host puts it there"
    return None


def _bounds(submitted: CommandSubmitted) -> str | None:
    argv = _size(submitted.argv)
    env = _size((*submitted.env, *submitted.env.values()))
    if max(argv, env) > MAX_BYTES:
        return f"argv has {argv} bytes, env {env}; each may have {MAX_BYTES}"
    if len(submitted.note or "") > MAX_NOTE_CHARS:
        return f"note has {len(submitted.note or '')} characters; use at most {MAX_NOTE_CHARS}"
    if not (math.isfinite(submitted.timeout) and 0 < submitted.timeout <= MAX_TIMEOUT):
        return f"timeout is {submitted.timeout:g} s; use more than 0 and at most {MAX_TIMEOUT:g}"
    return None


def _names(submitted: CommandSubmitted) -> str | None:
    if submitted.host is not None and not _HOST.fullmatch(submitted.host):
        return f"host {submitted.host!r} is no host's name"
    wrong = [name for name in submitted.secret_env if not _NAME.fullmatch(name)]
    if wrong:
        return f"secret_env {wrong[0]!r} is no name of an environment variable"
    ids = (*submitted.inputs, submitted.parent or "-")
    if len(submitted.inputs) > MAX_INPUTS or any(not id_ or len(id_) > MAX_ID_CHARS for id_ in ids):
        return f"parent and inputs are at most {MAX_INPUTS} command ids of 1 to {MAX_ID_CHARS} characters"
    return None


def _size(texts: Iterable[str]) -> int:
    return sum(len(text.encode(errors="surrogatepass")) + 1 for text in texts)
