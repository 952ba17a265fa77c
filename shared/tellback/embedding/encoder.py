"""The embedding model of this process: loaded once, on first use, never at import, and shared by its threads.

The packaged weights of all-MiniLM-L6-v2 work without a network, and their hash is checked when they load. A model of
the hub is pinned to one commit (`tellback.embedding.weights`).

On the CPU, texts are sorted by length and split into parts, and each core runs passes of its own. One pass on all cores
waits at each layer for the slowest core, and some core always has other work to do. On two cores parallel passes give
1.15 times the texts per second, with the same vectors.

texts ── by length, in parts ──▶ each core's thread takes the next part ── a pass ──▶ rows, in the order of the texts
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt

from tellback import clock
from tellback.embedding.weights import OTHER_FORMATS, ModelSource, check_fingerprint, find_source, fingerprint
from tellback.errors import ConfigurationError, Unavailable
from tellback.log import get_logger
from tellback.settings import Settings
from tellback.signals.matching import Vectors
from tellback.signals.models import PACKAGED, model_name

LARGEST: Final = 32  # texts of a pass: 16 to 64 are equally fast, and small parts balance better between cores

SMALLEST: Final = 16  # fewer texts are faster in one pass on all cores

Indices = npt.NDArray[np.intp]
"""The indexes of a part's texts in the given sequence."""


def encode_parallel(model: Any, texts: Sequence[str], cores: int) -> Vectors:
    """Return a row of unit length for each text.

    Args:
        model: a loaded SentenceTransformer on the CPU that has encoded a text before.
        texts: at least one.
        cores: torch's default number of threads.

    Raises:
        Exception: whatever the model raises at a text.
    """
    parts = split_by_length(texts, cores)
    call = _ParallelCall(model, texts, parts, max(1, cores // len(parts)))
    others: list[threading.Thread] = []
    while len(others) < min(cores, len(parts)) - 1:
        other = threading.Thread(target=call.run, name="tellback-pass", daemon=True)
        try:
            other.start()
        except RuntimeError:  # a process that is shutting down starts no threads: this one does all the work
            break
        others.append(other)
    call.run()
    for other in others:
        other.join()
    _set_threads(cores)  # torch gives later threads the number that was set last
    return call.rows()


def split_by_length(texts: Sequence[str], cores: int) -> list[Indices]:
    """Split texts by length, longest first, into parts of nearly equal size, the same number for each core.

    Texts of similar length waste little padding, and with the long parts first the cores finish at about the same time.
    """
    even = math.ceil(len(texts) / LARGEST / cores) * cores
    longest_first = np.argsort([-len(text) for text in texts], kind="stable")
    return np.array_split(longest_first, max(1, min(even, len(texts) // SMALLEST)))


class _ParallelCall:
    """The state that the threads of one call share."""

    def __init__(self, model: Any, texts: Sequence[str], parts: Sequence[Indices], cores_each: int) -> None:
        self._model = model
        self._texts = texts
        self._parts = parts
        self._cores_each = cores_each
        self._left = deque(range(len(parts)))
        self._rows: dict[int, Vectors] = {}
        self._failures: list[Exception] = []

    def run(self) -> None:
        """Encode parts until none is left."""
        _set_threads(self._cores_each)
        while self._left:
            try:
                number = self._left.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                texts = [self._texts[int(place)] for place in self._parts[number]]
                self._rows[number] = encode_batch(self._model, texts, LARGEST)
            except Exception as error:  # noqa: BLE001 - `rows` raises it again in the calling thread
                self._failures.append(error)
                self._left.clear()

    def rows(self) -> Vectors:
        for failure in self._failures:
            raise failure
        found = np.concatenate([self._rows[number] for number in range(len(self._parts))])
        rows = np.empty_like(found)
        rows[np.concatenate(self._parts)] = found
        return rows


def encode_batch(model: Any, texts: list[str], batch: int) -> Vectors:
    """Return rows of unit length from one call of the model."""
    rows = model.encode(
        texts, batch_size=batch, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
    )
    return np.ascontiguousarray(rows, np.float32)


def _set_threads(cores: int) -> None:
    """Set the number of cores for this thread's computation."""
    import torch

    torch.set_num_threads(cores)


BATCH_SIZE: Final = 64  # texts of a pass on a GPU; on the CPU, `split_by_length` decides

# A failed load is remembered: otherwise each batch of signals would try to load the model again.
RETRY_SECONDS: Final = 30.0

_logger = get_logger("tellback.encoder")


class Encoder(Protocol):
    """An embedding model, which turns texts into vectors of unit length."""

    @property
    def model(self) -> str:
        """The model's name, as banks store it."""
        ...

    @property
    def weights(self) -> str:
        """The fingerprint of its files, once loaded; '' if unknown. Models of one name can differ in their files."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in a vector, once loaded."""
        ...

    def load(self) -> None:
        """Load the model unless it is loaded.

        Raises:
            Unavailable: it does not load.
        """
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return a row of unit length for each text; load the model first if necessary."""
        ...


class SentenceEncoder:
    """A model of sentence-transformers, by name or path; '' is the packaged one. Loads on first use; thread-safe."""

    def __init__(self, name: str = "", source: ModelSource | None = None) -> None:
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
        """Load the model once; after a failure, try again after half a minute at the earliest.

        Raises:
            Unavailable: it does not load; the message has the reason.
        """
        with self._lock:
            if self._model is not None:
                return
            if not self._failure or clock.monotonic() - self._failed_at > RETRY_SECONDS:
                self._load_once()
            if self._failure:
                raise Unavailable(f"the embedding model {self.model} does not load: {self._failure}")

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return a row of unit length for each text, in one call.

        Raises:
            Unavailable: the model does not load.
            ArithmeticError: it returned NaN or an infinity.
        """
        self.load()
        with self._lock:  # one call uses every core; two at once would only be slower
            return self._encode_rows(self._model, texts)

    def _encode_rows(self, model: Any, texts: Sequence[str]) -> Vectors:
        if model.device.type == "cpu" and texts:
            vectors = encode_parallel(model, texts, self._cores)
        else:
            vectors = encode_batch(model, list(texts), BATCH_SIZE)
        if not np.isfinite(vectors).all():  # one such cluster would spoil every comparison in its bank
            raise ArithmeticError("the model returned vectors with NaN or infinity")
        return vectors

    def _load_once(self) -> None:
        start = clock.monotonic()
        try:
            loaded = _load_model(self.source)
            self._cores = loaded.cores
            self.dimension = self._encode_rows(loaded.model, ["How many dimensions?"]).shape[1]
            self.weights, self.device = loaded.weights, str(loaded.model.device)
            self._model, self._failure = loaded.model, ""
            seconds = clock.monotonic() - start
            about = {"model": self.model, "weights": self.weights, "dimension": self.dimension, "device": self.device}
            _logger.info("encoder.loaded", **about, seconds=seconds)
        except Exception as error:  # whatever a model's files or libraries raise, the signals wait
            ours = isinstance(error, ConfigurationError)  # its message says what is wrong, and reaches every caller
            self._failure = str(error) if ours else f"{type(error).__name__}: {error}"
            self._failed_at = clock.monotonic()
            if not ours:
                _logger.exception("encoder.failed", model=self.model, reason=self._failure)


@dataclass(frozen=True, slots=True)
class _LoadedModel:
    model: Any
    weights: str
    cores: int  # that torch uses of the processor


def _load_model(source: ModelSource) -> _LoadedModel:
    """Load a model, after checking its files: weights in pickle format could run code when they are read."""
    folder = find_source(source)
    if source.name == PACKAGED:
        os.environ["HF_HUB_OFFLINE"] = "1"  # the library reads it at import; the packaged model needs no download
    if folder is None:
        folder = _fetch_model(source)
    check_fingerprint(source, folder)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive a fork
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    cast("Any", logging).disable_progress_bar()  # transformers types it only in part
    model = SentenceTransformer(str(folder), device=source.device or None, local_files_only=True)
    return _LoadedModel(model, fingerprint(folder), torch.get_num_threads())


def _fetch_model(source: ModelSource) -> Path:
    """Return the folder of a hub model at its revision, downloading it into this host's cache if it is missing."""
    import huggingface_hub

    fetch = cast("Any", huggingface_hub).snapshot_download  # the hub types it only in part
    return Path(fetch(source.name, revision=source.revision, ignore_patterns=list(OTHER_FORMATS)))


_encoders: dict[ModelSource, SentenceEncoder] = {}

_guard = threading.Lock()


def encoder_for(settings: Settings, model: str | None = None) -> SentenceEncoder:
    """Return this process's only encoder of the settings' model, or of another `model`, on the settings' device."""
    source = ModelSource.from_setting(settings, model)
    with _guard:
        return _encoders.setdefault(source, SentenceEncoder(source=source))


def _forget_after_fork() -> None:
    global _guard  # noqa: PLW0603 - another thread of the parent may have held it at the fork
    _guard = threading.Lock()
    _encoders.clear()  # the threads of a loaded model do not survive a fork


os.register_at_fork(after_in_child=_forget_after_fork)
