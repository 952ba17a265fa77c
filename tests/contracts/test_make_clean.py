"""`make clean` takes away what was built, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_what_was_built_goes_and_the_sources_stay(tmp_path: Path) -> None:
    folder = tmp_path / "with a space"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    built = [folder / name for name in (".venv", "build", "dist", "site", ".ruff_cache")]
    for path in (*built, folder / "shared"):
        path.mkdir()
    subprocess.run(["make", "clean"], cwd=folder, check=True, capture_output=True, timeout=30)
    assert [path for path in built if path.exists()] == []
    assert sorted(path.name for path in folder.iterdir()) == ["Makefile", "shared"]
