"""The models of `ops/proofs` describe steps that the code has, and the checker rejects what it must."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Final

import pytest

from tests.support.pages import ROOT
from tests.support.processes import run_program

FOLDER: Final = ROOT / "ops" / "proofs"
MODELS: Final = sorted(FOLDER.glob("*.pml"), key=lambda path: path.stem)
PAGE: Final = (ROOT / "docs" / "architecture.md").read_text("utf-8")
SCRIPTS: Final = ROOT / "shared" / "tellback" / "state"
_STEP: Final = re.compile(r"^STEP +(\w+) +(\S.*)$", re.MULTILINE)
_RUN: Final = re.compile(r"^(PROVES|REJECTS) +(\S+)", re.MULTILINE)

each_model = pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)


def _places(path: Path) -> list[tuple[str, str]]:
    return [(name, place) for name, places in _STEP.findall(path.read_text("utf-8")) for place in places.split()]


@each_model
def test_each_step_is_in_the_model_and_in_the_code(path: Path) -> None:
    text = path.read_text("utf-8")
    assert _places(path)
    for name, place in _places(path):
        assert re.search(rf"^(?:inline|#define) {name}\(", text, re.MULTILINE), f"{name} is no step of the model"
        if place.startswith("lua/"):
            assert (SCRIPTS / place).is_file(), place
        else:
            module, _, attribute = place.partition(":")
            assert callable(attrgetter(attribute)(import_module(module))), place


@each_model
def test_each_model_proves_rejects_and_says_what_it_assumes(path: Path) -> None:
    text = path.read_text("utf-8")
    runs = _RUN.findall(text)
    kinds = [kind for kind, _ in runs]
    assert kinds.count("PROVES") >= 1
    assert kinds.count("REJECTS") >= 2
    assert "\nASSUMES " in text
    for kind, name in runs:
        if kind == "REJECTS" and name != "NO_SWEEP":
            assert re.search(rf"#ifn?def {name}\b", text), f"{name} changes nothing in the model"


@each_model
def test_the_architecture_page_has_each_model_and_its_rejected_mutations(path: Path) -> None:
    assert f"`{path.name}`" in PAGE
    missing = [name for kind, name in _RUN.findall(path.read_text("utf-8")) if kind != "PROVES" and name not in PAGE]
    assert not missing, f"docs/architecture.md does not name {missing}"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("spin") is None, reason="needs spin: `make proofs` installs it for root")
@pytest.mark.timeout(110)
def test_a_protocol_is_proved_and_its_mutations_are_rejected() -> None:
    done = run_program([sys.executable, FOLDER / "run.py", "spool"], check=True)
    assert len(re.findall(r"^ok +spool +PROVES", done.stdout, re.MULTILINE)) == 1
    assert len(re.findall(r"^ok +spool +REJECTS", done.stdout, re.MULTILINE)) == 8


@pytest.mark.skipif(shutil.which("spin") is None, reason="needs spin: `make proofs` installs it for root")
@pytest.mark.timeout(110)
def test_the_runner_fails_if_a_mutation_passes(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "run.py", tmp_path)
    model = (FOLDER / "spool.pml").read_text("utf-8")
    header = re.sub(r"^(PROVES|REJECTS).*\n", "", model, flags=re.MULTILINE)
    forged = header.replace("\n*/", "\nREJECTS  HARMLESS FAULTS=0 | known[1] | changes nothing\n*/", 1)
    (tmp_path / "spool.pml").write_text(forged, "utf-8")
    done = run_program([sys.executable, tmp_path / "run.py"])
    assert done.returncode == 1
    assert "it passes, and must be rejected" in done.stdout
