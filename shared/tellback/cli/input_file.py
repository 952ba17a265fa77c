"""The input of a command: a file, or standard input for `-`."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

from tellback.errors import InvalidInput

_COMPRESSED: Final = {
    "gzip -dc": (b"\x1f\x8b",),
    "bzip2 -dc": tuple(b"BZh%d1AY&SY" % level for level in range(1, 10)),  # a column of a CSV file may begin with BZh
    "xz -dc": (b"\xfd7zXZ\0",),
    "zstd -dc": (b"\x28\xb5\x2f\xfd",),
    "unzip -p": (b"PK\x03\x04",),
}
_HEAD: Final = max(len(magic) for magics in _COMPRESSED.values() for magic in magics)


@contextmanager
def open_input(name: str) -> Generator[BinaryIO, None, None]:
    """Open a file, or standard input for `-`.

    Raises:
        InvalidInput: the file can't be read, or is compressed.
    """
    if name == "-":
        _refuse_compressed(sys.stdin.buffer, name)
        yield sys.stdin.buffer
        return
    try:
        source = Path(name).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise InvalidInput(f"can't read {name}: {error.strerror}") from error
    with source:
        _refuse_compressed(source, name)
        yield source


def _refuse_compressed(source: BinaryIO, name: str) -> None:
    """Refuse a compressed file, each of whose lines would be called no JSON."""
    try:
        head = source.peek(_HEAD) if isinstance(source, BufferedReader) else b""
    except OSError:  # of a disk that fails; the first read says so
        return
    for command, magics in _COMPRESSED.items():
        if head.startswith(magics):
            raise InvalidInput(
                f"{input_name(name)} is compressed: pass - as the file, and pipe the output of `{command}` into it"
            )


def input_name(name: str) -> str:
    """Return the name of an input in a message."""
    return "standard input" if name == "-" else name
