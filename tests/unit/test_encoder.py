"""The encoder's promises that need no model, and the detector's cosines by a host's own model."""

from __future__ import annotations

import sys

import pytest

from tellback import Settings, clock
from tellback.embedding import encoder
from tellback.embedding.embedder import ModelSimilarity
from tellback.embedding.encoder import SentenceEncoder, encoder_for
from tellback.embedding.weights import ModelSource
from tellback.errors import Unavailable
from tellback.signals.models import PACKAGED
from tests.support.processes import run_program
from tests.support.signals import Angles


@pytest.mark.programs
def test_importing_the_loops_loads_neither_torch_nor_a_model() -> None:
    code = (
        "import sys, tellback_workers.loops.signals, tellback_workers.loops.recalls, tellback.embedding.clusters;"
        "sys.exit(', '.join({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)) or 0)"
    )
    run_program([sys.executable, "-c", code], check=True)


@pytest.mark.programs
def test_a_client_and_its_bank_need_no_numpy() -> None:
    """Numpy comes with the workers; an agent host signals and recalls without it."""
    code = (
        "import sys, tellback; tellback.connect; tellback.Bank; tellback.SignalItem;"
        "import tellback.state.recalls; sys.exit('numpy' if 'numpy' in sys.modules else 0)"
    )
    run_program([sys.executable, "-c", code], check=True)


def test_names_of_the_packaged_model() -> None:
    """A process has one copy, whichever name of the model a setting uses."""
    assert SentenceEncoder("").model == PACKAGED
    assert SentenceEncoder("sentence-transformers/all-MiniLM-L6-v2").model == PACKAGED
    assert encoder_for(Settings()) is encoder_for(Settings(), "all-MiniLM-L6-v2")
    assert SentenceEncoder("BAAI/bge-small-en").model == "BAAI/bge-small-en"


def test_a_model_that_does_not_load_is_unavailable_and_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[str] = []

    def broken(source: ModelSource) -> object:
        attempts.append(source.name)
        raise OSError("no such model")

    now = [1_000.0]
    monkeypatch.setattr(encoder, "_load_model", broken)
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    failing = SentenceEncoder("some/model")
    for _ in range(3):
        with pytest.raises(Unavailable, match=r"some/model does not load: OSError: no such model"):
            failing.load()
    assert attempts == ["some/model"]
    now[0] += encoder.RETRY_SECONDS + 1
    with pytest.raises(Unavailable):
        failing.encode(["text"])
    assert len(attempts) == 2


def test_each_text_has_its_highest_cosine() -> None:
    encoder = Angles()
    similarity = ModelSimilarity(encoder=encoder)
    assert similarity(["x@0", "y@0", "x@0"], ["x@60", "x@90", "y@0"]) == pytest.approx([0.5, 1.0, 0.5], abs=1e-6)
    assert encoder.calls == [["x@0", "y@0", "x@60", "x@90"]], "each text once, in one call"
    assert similarity([], ["a"]) == []
    assert similarity(["a"], []) == [0.0]
    assert len(encoder.calls) == 1
    assert similarity([f"x@{i}" for i in range(600)], ["x@0"])[60] == pytest.approx(0.5, abs=1e-6)
    assert [len(call) for call in encoder.calls[1:]] == [512, 88]
