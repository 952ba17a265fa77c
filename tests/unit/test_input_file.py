"""The input of a command: text is read, and what is compressed is named as such. Requirement C-181."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tellback.cli.app import app
from tellback.cli.input_file import open_input
from tellback.errors import InvalidInput


def _zstd(content: bytes) -> bytes:
    """Return a frame with one raw block; Python has no library for it before 3.14."""
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(content), len(content) << 3 | 1, 0, 0]) + content


def _zipped(content: bytes) -> bytes:
    with zipfile.ZipFile(archive := io.BytesIO(), "w") as made:
        made.writestr("talks.jsonl", content)
    return archive.getvalue()


@pytest.mark.parametrize(
    ("compress", "command"),
    [
        *((gzip.compress, "gzip -dc"), (bz2.compress, "bzip2 -dc"), (lzma.compress, "xz -dc")),
        *((_zstd, "zstd -dc"), (_zipped, "unzip -p")),
    ],
)
def test_a_compressed_file_is_named_as_one(tmp_path: Path, compress: Callable[[bytes], bytes], command: str) -> None:
    """Each of its lines was called no JSON."""
    path = tmp_path / "talks"
    path.write_bytes(compress(b'{"messages": []}\n'))
    done = CliRunner().invoke(app, ["replay", str(path), "--offline"])
    assert done.exit_code == 2
    assert f"talks is compressed: pass - as the file, and pipe the output of `{command}` into it" in done.stderr


def test_compressed_standard_input_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals alone were checked there."""
    compressed: Any = io.BytesIO(gzip.compress(b"{}"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(compressed)))
    with pytest.raises(InvalidInput, match="standard input is compressed"), open_input("-"):
        pass


@pytest.mark.parametrize("text", [b"BZhang asked,b,1\n", b"PK of it,b,1\n", b""])
def test_a_text_that_begins_like_a_compressed_file_is_read(tmp_path: Path, text: bytes) -> None:
    """The first column of a table may begin with any word."""
    path = tmp_path / "pairs.csv"
    path.write_bytes(text)
    with open_input(str(path)) as file:
        assert file.read() == text


class _Failing(io.RawIOBase):
    """The file of a disk that fails."""

    def readable(self) -> bool:
        return True

    def readinto(self, _buffer: object) -> int:
        raise OSError(5, "Input/output error")


def test_an_input_whose_first_read_fails_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader knows the line, and says so."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(_Failing())))
    with open_input("-") as file, pytest.raises(OSError, match="Input/output error"):
        file.readline()
