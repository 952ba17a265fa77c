"""The benchmarks by name: what `make bench` runs is there, and nothing else is."""

from __future__ import annotations

from pathlib import Path

from benchmarks import rows


def test_each_row_has_its_module() -> None:
    """A row whose module had been renamed ended `make bench` half-way."""
    modules = {path.stem for path in Path(rows.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(rows.ROWS) == modules
