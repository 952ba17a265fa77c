"""The input of a command: a file, or standard input for `-`."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

from tellback.errors import InvalidInput

_COMPRESSED: Final = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


@contextmanager
def open_input(name: str) -> Generator[BinaryIO, None, None]:
    """Open a file, or standard input for `-`.

    Raises:
        InvalidInput: the file can't be read, or is compressed.
    """
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        source = Path(name).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise InvalidInput(f"can't read {name}: {error.strerror}") from error
    with source:
        _refuse_compressed(source, name)
        yield source


def _refuse_compressed(source: BufferedReader, name: str) -> None:
    """Refuse a compressed file, each of whose lines would be called no JSON."""
    try:
        head = source.peek(6)
    except OSError:  # of a disk that fails; the first read says so
        return
    for magic, program in _COMPRESSED.items():
        if head.startswith(magic):
            raise InvalidInput(
                f"{name} is compressed: pass - as the file, and pipe the output of `{program} -dc` into it"
            )


def input_name(name: str) -> str:
    """Return the name of an input in a message."""
    return "standard input" if name == "-" else name
