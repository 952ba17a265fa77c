"""Files of a model: the search for them, the check against their hashes, and their fingerprint."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from tellback.embedding.weights import (
    ModelSource,
    check_fingerprint,
    find_source,
    fingerprint,
    packaged_path,
    weight_files,
)
from tellback.errors import ConfigurationError
from tellback.settings import Settings, load
from tellback.signals.models import PACKAGED, PACKAGED_SHA256

COMMIT = "a" * 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of a model, if not a model."""
    files = {
        "model.safetensors": "weights",
        "config.json": "{}",
        "modules.json": "[]",
        "tokenizer.json": "words",
        "1_Pooling/config.json": "mean",
        "onnx/model.safetensors": "other weights",
        "onnx/config.json": "{}",
        "README.md": "about",
    }
    for name, text in files.items():
        path = tmp_path / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "model"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.model
def test_the_packaged_weights_are_the_original() -> None:
    assert find_source(ModelSource(PACKAGED)) == packaged_path()
    check_fingerprint(ModelSource(PACKAGED), packaged_path())


def test_other_weights_under_the_packaged_name_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"SHA-256 {sha256('weights')}, not {PACKAGED_SHA256}: install"):
        check_fingerprint(ModelSource(PACKAGED), folder)


def test_weights_are_compared_with_the_hashes_of_the_settings(folder: Path) -> None:
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "model.safetensors").write_text("more weights")
    both = f" {sha256('weights').upper()}, {sha256('more weights')} ,"
    check_fingerprint(ModelSource.from_setting(Settings(model=str(folder), model_sha256=both)), folder)
    with pytest.raises(ConfigurationError, match=r"2_Dense/model\.safetensors has SHA-256"):
        check_fingerprint(ModelSource.from_setting(Settings(model=str(folder), model_sha256=sha256("weights"))), folder)
    with pytest.raises(ConfigurationError, match="'0xff', which is not a SHA-256"):
        check_fingerprint(ModelSource.from_setting(Settings(model=str(folder), model_sha256="0xff")), folder)


def test_a_model_in_the_older_form_is_checked_too(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert weight_files(folder) == [folder / "pytorch_model.bin"]
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(ConfigurationError, match="holds no weights"):
        weight_files(folder)


def test_a_model_of_the_hub_needs_a_commit() -> None:
    """A name alone, a branch or a tag may mean another model tomorrow."""
    for revision in ("", "main", "v1.0", "a" * 39, "A" * 40):
        with pytest.raises(ConfigurationError, match=r"^the model .* TELLBACK_MODEL_REVISION.*commits/main"):
            find_source(ModelSource("BAAI/bge-small-en", revision))
    assert find_source(ModelSource("BAAI/bge-small-en", COMMIT)) is None


@pytest.mark.parametrize("name", ["/no/such/model", "./no-such-model", "~/no/such/model"])
def test_a_path_that_is_no_folder_is_not_searched_on_the_hub(name: str) -> None:
    """An option may have named it, so the message blames no setting."""
    with pytest.raises(ConfigurationError, match=f"^the model {name} is not a folder"):
        find_source(ModelSource(name, COMMIT))


def test_the_same_files_have_the_same_fingerprint_wherever_they_are(folder: Path, tmp_path: Path) -> None:
    """Files about a model, or in another form of it, make no difference; a file that moves its vectors does."""
    copy = tmp_path / "elsewhere"
    shutil.copytree(folder, copy)
    assert fingerprint(copy) == fingerprint(folder)
    (copy / "README.md").write_text("more about it")
    (copy / "onnx" / "model.safetensors").write_text("more")
    assert fingerprint(copy) == fingerprint(folder)
    for name in ("model.safetensors", "tokenizer.json", "modules.json", "1_Pooling/config.json"):
        text = (copy / name).read_text()
        (copy / name).write_text(f"{text} ")
        assert fingerprint(copy) != fingerprint(folder), name
        (copy / name).write_text(text)


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1", "mps"])
def test_devices_are_settings(device: str) -> None:
    assert ModelSource.from_setting(load({"TELLBACK_DEVICE": device})).device == device
    with pytest.raises(ConfigurationError, match="TELLBACK_DEVICE"):
        load({"TELLBACK_DEVICE": f"{device} please"})
