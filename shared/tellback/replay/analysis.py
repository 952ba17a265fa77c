"""A whole file analysed in this process: read twice, first for the tools that there are, then for the guidance."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import BinaryIO, Final

from tellback.replay.accounts import Analyst
from tellback.replay.digest import TOP, Digest
from tellback.replay.reading import read
from tellback.replay.toolbox import Toolbox
from tellback.replay.transcript import BadLine

_IN_MEMORY: Final = 16 << 20  # of a pipe, which cannot be read twice; the rest goes to a temporary file


def analyse(
    file: BinaryIO,
    *,
    source: str = "-",
    top: int = TOP,
    analyst: Analyst | None = None,
    told: Callable[[int], None] = lambda _: None,
) -> Digest:
    """The guidance that the conversations of `file` would have been given; `told` hears how many are done.

    Raises:
        BrokenProvider: a provider failed.
    """
    analyst = analyst or Analyst()
    digest = Digest(source, top)
    with twice(file) as again:
        toolbox = toolbox_of(again)
        digest.tools = toolbox.names
        again.seek(0)
        for done, item in enumerate(read(again), start=1):
            if isinstance(item, BadLine):
                digest.add_bad(item)
            else:
                digest.add(analyst.account(item, toolbox.of(item)))
            told(done)
    return digest


def toolbox_of(file: BinaryIO) -> Toolbox:
    """The tools that a file's conversations show to exist."""
    toolbox = Toolbox()
    for item in read(file):
        if not isinstance(item, BadLine):
            toolbox.note(item)
    return toolbox


@contextmanager
def twice(file: BinaryIO) -> Generator[BinaryIO, None, None]:
    """The file, or a copy of a pipe, which can be read from its beginning again."""
    if file.seekable():
        yield file
        return
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as copy:
        shutil.copyfileobj(file, copy)
        copy.seek(0)
        yield copy  # type: ignore[misc]  # a BinaryIO in all but its declared type
