"""Cosines by a host's own model, for the detector."""

from __future__ import annotations

import pytest

from tellback.embedding.embedder import ModelSimilarity
from tests.support.signals import Angles


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
