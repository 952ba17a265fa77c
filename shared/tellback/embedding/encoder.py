"""The embedding model of this process: loaded once, on first use, never at import; shared by its threads.

The packaged weights of all-MiniLM-L6-v2 work without a network and are checked by hash when they load; models of the
hub are taken at one commit (`tellback.embedding.weights`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from tellback import clock
from tellback.embedding import passes
from tellback.embedding.weights import OTHER_FORMATS, ModelSource, check, find, fingerprint
from tellback.errors import ConfigurationError, Unavailable
from tellback.log import get_logger
from tellback.settings import Settings
from tellback.signals.matching import Vectors
from tellback.signals.models import PACKAGED, model_name

BATCH: Final = 64  # of another device; of the processor, `passes` cuts them
RETRY_SECONDS: Final = 30.0

_log = get_logger("tellback.encoder")


class Encoder(Protocol):
    """What turns texts into vectors of unit length."""

    @property
    def model(self) -> str:
        """The model's name, as banks store it."""
        ...

    @property
    def weights(self) -> str:
        """What tells its files from others' of the same name, once loaded; '' where that is not known."""
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

    def __init__(self, name: str = "", source: ModelSource | None = None) -> None:
        """Take the name, or all that settings say of the model; nothing is loaded yet."""
        self.source = source or ModelSource(model_name(name))
        self.model = self.source.name
        self.dimension = 0
        self.weights = ""
        self.device = ""
        self._cores = 0
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
        """A row of unit length for each text, in one call.

        Raises:
            Unavailable: the model does not load.
            ArithmeticError: it has given what is no number.
        """
        self.load()
        with self._lock:  # one call uses every core; two at once would only be slower
            return self._rows(self._model, texts)

    def _rows(self, model: Any, texts: Sequence[str]) -> Vectors:
        if model.device.type == "cpu" and texts:
            vectors = passes.encode(model, texts, self._cores)
        else:
            vectors = passes.passed(model, list(texts), BATCH)
        if not np.isfinite(vectors).all():  # one such context would spoil every comparison of its bank
            raise ArithmeticError("the model gives vectors with what is no number")
        return vectors

    def _try_load(self) -> None:
        start = clock.monotonic()
        try:
            loaded = _load(self.source)
            self._cores = loaded.cores
            self.dimension = self._rows(loaded.model, ["How many dimensions?"]).shape[1]
            self.weights, self.device = loaded.weights, str(loaded.model.device)
            self._model, self._failure = loaded.model, ""
            seconds = clock.monotonic() - start
            about = {"model": self.model, "weights": self.weights, "dimension": self.dimension, "device": self.device}
            _log.info("encoder.loaded", **about, seconds=seconds)
        except Exception as error:  # noqa: BLE001 - whatever a model's files or libraries raise, the signals wait
            ours = isinstance(error, ConfigurationError)  # says itself what is wrong
            self._failure = str(error) if ours else f"{type(error).__name__}: {error}"
            self._failed_at = clock.monotonic()
            _log.error("encoder.failed", model=self.model, reason=self._failure, exc_info=not ours)


@dataclass(frozen=True, slots=True)
class _Loaded:
    model: Any
    weights: str
    cores: int  # that torch uses of the processor


def _load(source: ModelSource) -> _Loaded:
    """The model, whose files are checked before any of them is read as one."""
    folder = find(source)
    if source.name == PACKAGED:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read when the library is imported: nothing of this model is to be fetched
    if folder is None:
        folder = _fetched(source)
    check(source, folder)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive a fork
    import torch  # noqa: PLC0415 - seconds to import, so only where it is used
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - as above
    from transformers.utils import logging  # noqa: PLC0415 - as above

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers types it only in part
    model = SentenceTransformer(str(folder), device=source.device or None, local_files_only=True)
    return _Loaded(model, fingerprint(folder), torch.get_num_threads())


def _fetched(source: ModelSource) -> Path:
    """A model of the hub at its revision: from this host's cache, else downloaded into it."""
    from huggingface_hub import (  # noqa: PLC0415 - as above
        snapshot_download,  # pyright: ignore[reportUnknownVariableType]  # the hub types it only in part
    )

    return Path(snapshot_download(source.name, revision=source.revision, ignore_patterns=list(OTHER_FORMATS)))


_encoders: dict[ModelSource, SentenceEncoder] = {}
_guard = threading.Lock()


def encoder_of(name: str) -> SentenceEncoder:
    """This process's encoder of a model by name or path: one copy, whoever asks."""
    return _shared(ModelSource(model_name(name)))


def encoder_for(settings: Settings, model: str | None = None) -> SentenceEncoder:
    """This process's encoder of the settings' model, or of another, on their device."""
    return _shared(ModelSource.of(settings, model))


def _shared(source: ModelSource) -> SentenceEncoder:
    with _guard:
        return _encoders.setdefault(source, SentenceEncoder(source=source))


os.register_at_fork(after_in_child=_encoders.clear)  # the threads of a loaded model do not survive a fork
