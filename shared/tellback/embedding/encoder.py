"""The embedding model of this process: loaded once, on first use, never at import; shared by its threads.

The packaged weights of all-MiniLM-L6-v2 work without a network and are checked by hash when they load.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import structlog

from tellback import clock
from tellback.errors import Unavailable
from tellback.signals.matching import Vectors
from tellback.signals.models import PACKAGE, PACKAGED, PACKAGED_SHA256, model_name

BATCH: Final = 64  # on two cores: 10 texts a second one by one, 100 to 170 in batches of 32 to 256
RETRY_SECONDS: Final = 30.0

_log = structlog.get_logger("tellback.encoder")


class Encoder(Protocol):
    """What turns texts into vectors of unit length."""

    @property
    def model(self) -> str:
        """The model's name, as banks store it."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in a vector, once loaded."""
        ...

    def load(self) -> None:
        """Load the model if that has not been done.

        Raises:
            Unavailable: it does not load.
        """
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """A row of unit length for each text; loads the model if need be."""
        ...


class SentenceEncoder:
    """A model of sentence-transformers, by name or path; '' is the packaged one. Safe across threads."""

    def __init__(self, name: str = "") -> None:
        """Take the name; nothing is loaded yet."""
        self.model = model_name(name)
        self.dimension = 0
        self._model: Any = None
        self._lock = threading.Lock()
        self._failure = ""
        self._failed_at = 0.0

    def load(self) -> None:
        """Load the model once; after a failure, try again no sooner than half a minute later.

        Raises:
            Unavailable: it does not load; the message has the reason.
        """
        with self._lock:
            if self._model is not None:
                return
            if not self._failure or clock.monotonic() - self._failed_at > RETRY_SECONDS:
                self._try_load()
            if self._failure:
                raise Unavailable(f"the embedding model {self.model} does not load: {self._failure}")

    def encode(self, texts: Sequence[str]) -> Vectors:
        """A row of unit length for each text, in one call of the model.

        Raises:
            Unavailable: the model does not load.
        """
        self.load()
        with self._lock:  # one pass uses every core; two at once would only be slower
            rows = self._model.encode(
                list(texts), batch_size=BATCH, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
            )
        return np.ascontiguousarray(rows, np.float32)

    def _try_load(self) -> None:
        start = clock.monotonic()
        try:
            self._model = _load(self.model)
            self.dimension = int(self._model.get_embedding_dimension())
            self._failure = ""
            _log.info("encoder.loaded", model=self.model, dimension=self.dimension, seconds=clock.monotonic() - start)
        except Exception as error:  # noqa: BLE001 - whatever a model's files or libraries raise, the signals wait
            self._model = None
            self._failure, self._failed_at = f"{type(error).__name__}: {error}", clock.monotonic()
            _log.exception("encoder.failed", model=self.model)


def packaged_path() -> Path:
    """The folder of the packaged model.

    Raises:
        ModuleNotFoundError: the package of the weights is not installed.
    """
    return Path(str(files(PACKAGE) / "model"))


def check_weights(folder: Path, expected: str = PACKAGED_SHA256) -> None:
    """Return if the weights in `folder` have the hash of the original.

    Raises:
        ValueError: they do not.
    """
    with (folder / "model.safetensors").open("rb") as weights:
        found = hashlib.file_digest(weights, "sha256").hexdigest()
    if found != expected:
        raise ValueError(f"{folder}/model.safetensors has SHA-256 {found}, not {expected}: install the package again")


def _load(model: str) -> Any:
    source = model
    if model == PACKAGED:
        folder = packaged_path()
        check_weights(folder)
        os.environ["HF_HUB_OFFLINE"] = "1"  # read when the library is imported: nothing of this model is to be fetched
        source = str(folder)
    elif Path(model).is_absolute() and not Path(model).is_dir():
        raise FileNotFoundError(f"TELLBACK_MODEL names {model}, which is no folder")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive a fork
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - seconds to import, so only where it is used
    from transformers.utils import logging  # noqa: PLC0415 - as above

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers types it only in part
    return SentenceTransformer(source)


_encoders: dict[str, SentenceEncoder] = {}
_guard = threading.Lock()


def encoder_of(name: str) -> SentenceEncoder:
    """This process's encoder of a model: one copy, whichever loop asks."""
    with _guard:
        return _encoders.setdefault(model_name(name), SentenceEncoder(name))


os.register_at_fork(after_in_child=_encoders.clear)  # the threads of a loaded model do not survive a fork
