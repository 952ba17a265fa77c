"""The log of a hook's failures. A hook prints none of them, so `tellback hook status` shows this file instead."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from tellback import clock
from tellback.hook.options import data_folder

NAME: Final = "hook/troubles.log"
MOST_BYTES: Final = 64 << 10
LONGEST: Final = 500


def log_failure(environ: Mapping[str, str], reason: str) -> None:
    """Append a line; before it, a file above `MOST_BYTES` is renamed to `.1`, replacing the one before.

    Raises:
        OSError: the file cannot be written.
    """
    path = f"{data_folder(environ)}/{NAME}"
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with suppress(FileNotFoundError):
        if os.stat(path).st_size > MOST_BYTES:
            os.replace(path, f"{path}.1")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        line = " ".join(reason.split())[:LONGEST].encode("utf-8", "replace").decode()
        os.write(descriptor, f"{int(clock.wall())} {line}\n".encode())
    finally:
        os.close(descriptor)
