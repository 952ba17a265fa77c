"""ops/pins: what the images install, by hash. Requirement A-126."""

from __future__ import annotations

import importlib.util
import re
import sys
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
