"""The checks of a submitted command, made by the client before publishing and again by the worker.

The worker repeats them because a host in another language may publish without our client.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from tellback.commands.start_errors import command_error
from tellback.contracts.commands import CommandSubmitted
from tellback.contracts.limits import (
    MAX_ARGV_BYTES,
    MAX_COMMAND_ID_CHARS,
    MAX_COMMAND_NOTE_CHARS,
    MAX_INPUTS,
    MAX_NAME_CHARS,
    MAX_PATH_BYTES,
    MAX_SECRET_NAMES,
    MAX_SESSION_CHARS,
)
from tellback.redaction import find_secret

MAX_TIMEOUT: Final = 3_600.0  # seconds; the time limit of the task that runs commands is above it
# A host's name becomes the name of a queue, so it has no separators; DNS allows 253 characters.
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}")
_SHOWN: Final = 100  # characters of a refused name in its message
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def addressing_error(submitted: CommandSubmitted) -> str | None:
    """Return why no record can be kept for a command, or None: its session or id does not fit into a key."""
    limits = (
        ("command_id", submitted.command_id, MAX_COMMAND_ID_CHARS),
        ("session", submitted.session, MAX_SESSION_CHARS),
    )
    for name, value, limit in limits:
        if not 1 <= len(value) <= limit:
            return f"{name} has {len(value)} characters; use 1 to {limit}"
    return None


def submission_error(submitted: CommandSubmitted) -> str | None:
    """Return why a command cannot run on any host, or None; the text names the argument."""
    return (
        command_error(submitted.argv, submitted.cwd, submitted.env)
        or _secret_error(submitted)
        or _bounds_error(submitted)
        or _name_error(submitted)
    )


def _secret_error(submitted: CommandSubmitted) -> str | None:
    # Arguments cannot be redacted like output: the command needs them as they are, so a secret would stay in Redis.
    texts = [(f"argv[{i}]", argument) for i, argument in enumerate(submitted.argv)]
    texts += [(f"env[{name!r}]", f"{name}={value}") for name, value in submitted.env.items()]
    texts += [("note", submitted.note or ""), ("cwd", submitted.cwd or "")]
    for name, text in texts:
        if rule := find_secret(text):
            return f"{name} carries a secret (rule {rule}); name it in secret_env, and the worker's host puts it there"
    return None


def _bounds_error(submitted: CommandSubmitted) -> str | None:
    argv = _bytes_of(submitted.argv)
    env = _bytes_of((*submitted.env, *submitted.env.values()))
    if max(argv, env) > MAX_ARGV_BYTES:
        return f"argv has {argv} bytes, env {env}; each may have {MAX_ARGV_BYTES}"
    if (path := _bytes_of([submitted.cwd or ""]) - 1) > MAX_PATH_BYTES:
        return f"cwd has {path} bytes; use at most {MAX_PATH_BYTES}"
    if len(submitted.note or "") > MAX_COMMAND_NOTE_CHARS:
        return f"note has {len(submitted.note or '')} characters; use at most {MAX_COMMAND_NOTE_CHARS}"
    if not (math.isfinite(submitted.timeout) and 0 < submitted.timeout <= MAX_TIMEOUT):
        return f"timeout is {submitted.timeout:g} s; use more than 0 and at most {MAX_TIMEOUT:g}"
    return None


def _name_error(submitted: CommandSubmitted) -> str | None:
    if submitted.host is not None and not _HOST.fullmatch(submitted.host):
        return f"host {_shown(submitted.host)} is not a valid host name"
    wrong = [name for name in submitted.secret_env if not _NAME.fullmatch(name)]
    if wrong:
        return f"secret_env {_shown(wrong[0])} is not a valid name of an environment variable"
    if len(submitted.secret_env) > MAX_SECRET_NAMES or any(len(name) > MAX_NAME_CHARS for name in submitted.secret_env):
        return f"secret_env is at most {MAX_SECRET_NAMES} names of 1 to {MAX_NAME_CHARS} characters"
    ids = (*submitted.inputs, submitted.parent or "-")
    if len(submitted.inputs) > MAX_INPUTS or any(not id_ or len(id_) > MAX_COMMAND_ID_CHARS for id_ in ids):
        return f"parent and inputs are at most {MAX_INPUTS} command ids of 1 to {MAX_COMMAND_ID_CHARS} characters"
    return None


def _shown(name: str) -> str:
    """Return a name that a message quotes; a refused one can be of any length."""
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...")


def _bytes_of(texts: Iterable[str]) -> int:
    return sum(len(text.encode(errors="surrogatepass")) + 1 for text in texts)
