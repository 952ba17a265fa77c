"""Models other than the packaged one: small real ones, made here, by path, from the hub's cache, and on a device."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tellback.embedding import encoder
from tellback.embedding.encoder import SentenceEncoder, encoder_for
from tellback.embedding.weights import ModelSource, fingerprint, sha256_of
from tellback.errors import Unavailable
from tellback.settings import Settings
from tellback.signals.matching import Vectors
from tests.support.models import make_model
from tests.support.processes import run_program

pytestmark = pytest.mark.model

COMMIT = "0123456789" * 4
LOAD = """
import sys
from tellback.embedding.encoder import encoder_for
from tellback.settings import load
model = encoder_for(load())
model.load()
print(model.model, model.dimension, model.weights, model.device)
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models"))


def test_a_folder_is_a_model(tiny: Path) -> None:
    """Its vectors have unit length, and its files are known by their fingerprint."""
    model = encoder_for(Settings(model=str(tiny), model_sha256=sha256_of(tiny / "model.safetensors"), device="cpu"))
    rows = model.encode(["one text", "another"])
    assert rows.shape == (2, 32)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-6)
    assert (model.dimension, model.weights, model.device) == (32, fingerprint(tiny), "cpu")
    assert encoder_for(Settings(), str(tiny)) is not model, "what settings say of it is part of it"


def test_other_weights_than_those_meant_are_never_loaded(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(*_: object, **__: object) -> None:
        pytest.fail("loaded")

    monkeypatch.setattr("sentence_transformers.SentenceTransformer", loaded)
    with pytest.raises(Unavailable, match=r"does not load: .*has SHA-256 .*TELLBACK_MODEL_SHA256"):
        encoder_for(Settings(model=str(tiny), model_sha256="0" * 64)).load()


def test_a_device_that_is_not_there_is_said(tiny: Path) -> None:
    with pytest.raises(Unavailable, match=r"(?i)does not load: .*device"):
        encoder_for(Settings(model=str(tiny), device="warp:7")).load()


@pytest.mark.slow
def test_a_model_of_the_hub_is_that_of_its_commit(tiny: Path, tmp_path: Path) -> None:
    """It comes from the cache of the hub's own library, without a network; another commit is not found."""
    held = tmp_path / "hub" / "models--some--tiny"
    shutil.copytree(tiny, held / "snapshots" / COMMIT)
    env = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1", "TELLBACK_MODEL": "some/tiny"}

    def loaded(revision: str) -> subprocess.CompletedProcess[str]:
        arguments = [sys.executable, "-c", LOAD]
        with_revision = env | {"TELLBACK_MODEL_REVISION": revision}
        return run_program(arguments, env=with_revision)

    assert loaded(COMMIT).stdout.split()[-4:-1] == ["some/tiny", "32", fingerprint(tiny)]
    assert "does not load" in loaded("f" * 40).stderr


def test_a_model_that_gives_no_numbers_is_refused(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = encoder._load_model

    def broken(source: ModelSource) -> object:
        loaded = original(source)

        def nonsense(texts: Sequence[str], **_: object) -> Vectors:
            return np.full((len(texts), 32), np.nan, np.float32)

        loaded.model.encode = nonsense
        return loaded

    monkeypatch.setattr(encoder, "_load_model", broken)
    with pytest.raises(Unavailable, match="NaN or infinity"):
        SentenceEncoder(str(tiny)).load()
