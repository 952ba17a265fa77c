"""`python -m benchmarks.clean_lines draw`, whose folders come from anywhere."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks import clean_lines


def test_a_line_of_a_file_whose_name_is_not_utf_8_is_drawn(tmp_path: Path) -> None:
    """It ended with UnicodeEncodeError, and no file was written."""
    package = tmp_path / "packages" / os.fsdecode(b"caf\xe9")
    package.mkdir(parents=True)
    (package / os.fsdecode(b"r\xe9sum\xe9.ini")).write_text("[db]\npassword = " + "Zk2mX9vB4tR8" + "wL1n\n")
    drawn = ""
    for part in range(20):
        clean_lines.main("draw", str(package.parent), str(tmp_path / "out"), str(part))
        drawn += "".join((tmp_path / "out" / f"{half}.tsv").read_text() for half in ("tune", "measure"))
    assert r"caf\udce9/r\udce9sum\udce9.ini:2" in drawn
