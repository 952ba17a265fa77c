"""The runner of `tellback run`: it makes the same record on this host, without Redis or a worker."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tellback.commands.control import CommandControl
from tellback.commands.record import CommandAttempt, build_record
from tellback.commands.runner import GRACE, ExecutionSpec, run
from tellback.commands.supervision import close_idle
from tellback.contracts.commands import CommandRecord, CommandSubmitted
from tellback.contracts.message import new_event_id
from tellback.errors import InvalidInput
from tellback.redaction import Redactor, find_secret

_NO_SECRETS: Final = frozenset({"PWD", "OLDPWD"})  # the shell's working directories, which the rules take for passwords


def run_locally(
    argv: Sequence[str],
    *,
    session: str,
    host: str,
    cwd: str | None,
    timeout: float,
    grace: float = GRACE,
    note: str | None,
    parent: str | None,
    control: CommandControl | None = None,
) -> CommandRecord:
    """Run a command as this user in this environment, and return its record.

    A relative `cwd` is resolved against the current directory.

    Raises:
        InvalidInput: the current directory does not exist any more.
    """
    try:
        event_id, place = new_event_id(), str(Path.cwd() / (cwd or ""))
    except OSError as error:
        raise InvalidInput(f"can't use the current directory: {error.strerror or error}") from error
    submitted = CommandSubmitted(
        event_id=event_id,
        command_id=event_id,
        session=session,
        argv=list(argv),
        cwd=place,
        timeout=timeout,
        note=None if note is None else " ".join(note.split()),
        parent=parent,
    )
    execution = ExecutionSpec(argv=submitted.argv, cwd=place, env=dict(os.environ), timeout=timeout, grace=grace)
    # The command inherits the whole environment, so its output may show any secret in it.
    redactor = Redactor(sensitive_values(os.environ))
    try:
        outcome = run(execution, redactor=redactor, control=control)
    finally:
        close_idle()
    return build_record(submitted, outcome, redactor=redactor, cwd=place, attempt=CommandAttempt(host=host))


def sensitive_values(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that the rules take for secrets, to search for their exact values.

    Values under 8 characters are left out: as exact values they would hide too many unrelated lines.
    """
    return {
        name: value
        for name, value in environ.items()
        if len(value) >= 8 and name not in _NO_SECRETS and find_secret(f'{name}="{value}"')
    }
