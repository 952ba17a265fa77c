"""Matching is exact at the border and does not depend on how a product was computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellback.signals import matching
from tellback.signals.matching import (
    ClusterMatch,
    ClusterMatrix,
    Vectors,
    as_bytes,
    as_vectors,
    exact_cosine,
    reaches_threshold,
)
from tellback.signals.models import default_threshold
from tests.support.examples import examples


def unit(*numbers: float) -> Vectors:
    vector = np.array(numbers, np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def at_cosine(cosine: float) -> Vectors:
    """A vector of this cosine with (1, 0)."""
    return np.array([cosine, math.sqrt(1 - cosine**2)], np.float32)


def random_units(seed: int, count: int, dimension: int = 8) -> Vectors:
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    unit_rows: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit_rows


def matrix_of(rows: Vectors) -> ClusterMatrix:
    matrix = ClusterMatrix(rows.shape[1])
    for slot, row in enumerate(rows):
        matrix.put(slot, row)
    return matrix


@pytest.mark.parametrize("threshold", [0.81, 0.83, 0.85, 0.9, 1 / 3])
def test_the_threshold_itself_matches_and_the_next_float_below_does_not(threshold: float) -> None:
    """0.83 as a float32 is below 0.83: both sides are compared in float32."""
    query = np.array([[1, 0]], np.float32)
    below = np.nextafter(np.float32(threshold), np.float32(0))
    assert matrix_of(at_cosine(threshold)[None]).best(query, threshold) == [
        ClusterMatch(0, float(np.float32(threshold)))
    ]
    assert matrix_of(np.array([[below, 0.5]], np.float32)).best(query, threshold) == [None]


def test_the_best_cluster_wins_and_of_equal_ones_the_lower_slot() -> None:
    rows = np.stack([at_cosine(0.86), at_cosine(0.95), at_cosine(0.95), at_cosine(0.5)])
    query = np.array([1, 0], np.float32)
    assert matrix_of(rows).best(query[None], 0.85)[0] == ClusterMatch(1, float(np.float32(0.95)))
    assert [match.slot for match in matrix_of(rows).all_matches(query, 0.85)] == [1, 2, 0]


def test_an_empty_bank_matches_nothing() -> None:
    assert ClusterMatrix(2).best(unit(1, 0)[None], 0.85) == [None]
    assert ClusterMatrix(2).all_matches(unit(1, 0), 0.85) == []


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 12), st.floats(0.05, 0.999))
def test_same_answer_as_pair_by_pair(seed: int, clusters: int, queries: int, threshold: float) -> None:
    rows, asked = random_units(seed, clusters), random_units(seed + 1, queries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_BLOCK_CELLS", 64)  # several blocks, so that their borders are crossed
        found = matrix_of(rows).best(asked, threshold)
        all_found = [matrix_of(rows).all_matches(query, threshold) for query in asked]
    for i, query in enumerate(asked):
        pairs = [ClusterMatch(slot, exact_cosine(query, row)) for slot, row in enumerate(rows)]
        expected = sorted(
            (m for m in pairs if reaches_threshold(m.cosine, threshold)), key=lambda m: (-m.cosine, m.slot)
        )
        assert all_found[i] == expected
        assert found[i] == (expected[0] if expected else None)


def test_a_slot_is_replaced_in_place() -> None:
    matrix = matrix_of(np.stack([unit(1, 0), unit(0, 1)]))
    matrix.put(0, unit(-1, 0))
    assert matrix.count == 2
    assert matrix.best(unit(1, 0)[None], 0.85) == [None]


def test_what_was_asked_before_is_cached_until_a_cluster_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, asked = matrix_of(np.stack([unit(1, 0)])), list[int]()
    original = matrix.best

    def counted(queries: Vectors, threshold: float) -> list[ClusterMatch | None]:
        asked.append(len(queries))
        return original(queries, threshold)

    monkeypatch.setattr(matrix, "best", counted)
    vectors = {"a": unit(1, 0), "b": unit(0, 1)}
    for _ in range(3):
        assert matrix.best_of(vectors, 0.85) == {"a": ClusterMatch(0, 1.0), "b": None}
    assert asked == [2]
    assert matrix.best_of({"b": vectors["b"]}, 0.0) == {"b": ClusterMatch(0, 0.0)}, (
        "another threshold is another question"
    )
    matrix.put(1, unit(0, 1))
    assert matrix.best_of(vectors, 0.85) == {"a": ClusterMatch(0, 1.0), "b": ClusterMatch(1, 1.0)}
    monkeypatch.setattr(matching, "_CACHED_QUERIES", 2)
    for text in "cdefg":
        assert matrix.best_of({text: unit(1, 0), "a": unit(1, 0)}, 0.85) == {
            text: ClusterMatch(0, 1.0),
            "a": ClusterMatch(0, 1.0),
        }
    assert len(matrix._found) <= 2


def test_vectors_survive_their_bytes() -> None:
    rows = random_units(1, 5)
    assert np.array_equal(as_vectors([as_bytes(row) for row in rows], 8), rows)
    assert as_vectors([], 8).shape == (0, 8)


def test_thresholds_belong_to_models() -> None:
    """The pair of requirement S-26 has a cosine of 0.818 under the shipped model, and 0.85 is the default."""
    assert default_threshold("all-MiniLM-L6-v2") == 0.81
    assert default_threshold("something-else") == 0.85
