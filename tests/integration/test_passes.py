"""Many texts through a real model side by side on the cores: the vectors are those of one pass after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tellback.embedding import encoder
from tellback.embedding.encoder import SentenceEncoder
from tellback.signals.matching import Vectors

pytestmark = pytest.mark.model

CORES = 2


class _SeenPasses:
    """A model that records the input of each of its passes, and the number of cores."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.calls: list[tuple[list[str], int, int]] = []
        self._meanwhile = meanwhile

    def encode(self, texts: list[str], *, batch_size: int, **_: Any) -> Vectors:
        assert len(texts) <= batch_size
        self.calls.append((texts, cores_of_this_thread(), threading.get_ident()))
        if any("poison" in text for text in texts):
            raise ValueError("a text that no model takes")
        self._meanwhile()
        return np.array([[int(text), len(text)] for text in texts], np.float32)


def cores_of_this_thread() -> int:
    import torch  # here, since it takes every process that collects tests seconds

    return torch.get_num_threads()


@pytest.fixture(autouse=True)
def cores() -> None:
    import torch

    torch.set_num_threads(CORES)


@given(
    st.lists(st.text(max_size=20), min_size=1, max_size=300),
    st.integers(1, 40),
)
@example([""] * 32, 2)
@example([""] * 47, 40)
def test_parts_have_each_text_once_and_are_even(texts: Sequence[str], cores: int) -> None:
    parts = encoder.split_by_length(texts, cores)
    places = np.concatenate(parts)
    assert sorted(places) == list(range(len(texts)))
    lengths = [len(texts[place]) for place in places]
    assert lengths == sorted(lengths, reverse=True), "the longest first"
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= encoder.LARGEST
    assert len(parts) == 1 or min(sizes) >= encoder.SMALLEST
    assert len(parts) % cores == 0 or len(parts) == max(1, len(texts) // encoder.SMALLEST), (
        "a core is left without work"
    )


def test_rows_stand_as_the_texts_do() -> None:
    texts = [str(7 ** (n % 19)) for n in range(333)]
    rows = encoder.encode_parallel(_SeenPasses(), texts, CORES)
    assert [tuple(row) for row in rows] == [(np.float32(int(text)), len(text)) for text in texts]


def test_two_passes_are_side_by_side_each_on_a_core_of_its_own() -> None:
    """A pass ends only when another has begun."""
    both = threading.Barrier(2)
    seen = _SeenPasses(lambda: both.wait(60))
    encoder.encode_parallel(seen, [str(n) for n in range(64)], CORES)
    assert [cores for _, cores, _ in seen.calls] == [1, 1]
    assert len({thread for _, _, thread in seen.calls}) == 2


def test_few_texts_have_all_cores_and_no_other_thread() -> None:
    seen = _SeenPasses()
    encoder.encode_parallel(seen, [str(n) for n in range(encoder.SMALLEST)], CORES)
    assert [(cores, thread) for _, cores, thread in seen.calls] == [(CORES, threading.get_ident())]


def test_threads_that_begin_later_have_all_cores() -> None:
    """The last setting that torch was given holds for them, whichever thread gave it."""
    encoder.encode_parallel(_SeenPasses(), [str(n) for n in range(64)], CORES)
    found: list[int] = []
    later = threading.Thread(target=lambda: found.append(cores_of_this_thread()))
    later.start()
    later.join()
    assert [*found, cores_of_this_thread()] == [CORES, CORES]


def test_what_the_model_raises_is_raised_and_ends_the_call() -> None:
    seen = _SeenPasses()
    texts = [str(n) for n in range(3_200)]
    texts[0] = "poison " * 10  # the longest, so it comes with the first pass
    with pytest.raises(ValueError, match="a text that no model takes"):
        encoder.encode_parallel(seen, texts, CORES)
    assert len(seen.calls) < 100, "the other passes were made in vain"
    assert not [thread for thread in threading.enumerate() if thread.name == "tellback-pass"]


def test_where_no_thread_can_begin_the_caller_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", none)
    rows = encoder.encode_parallel(_SeenPasses(), [str(n) for n in range(64)], CORES)
    assert list(rows[:, 0]) == list(range(64))


@pytest.mark.slow
def test_vectors_are_those_of_the_bare_model() -> None:
    """The texts have any length, and come from many threads at once."""
    bare = SentenceEncoder("")
    texts = ["x " * (n % 40) + f"text {n}" for n in range(70)]
    expected = np.concatenate([bare.encode([text]) for text in texts])
    found: list[Vectors] = []

    def embed() -> None:
        found.append(bare.encode(texts))

    threads = [threading.Thread(target=embed) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    for rows in found:
        assert np.einsum("ij,ij->i", rows, expected) == pytest.approx(1, abs=1e-5)
        assert np.array_equal(rows, found[0])
