"""A batch is assigned as its queries would be, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellback.errors import StateConflict
from tellback.signals.assignment import ClusterAssignment, assign_clusters
from tellback.signals.matching import ClusterMatrix, Vectors
from tests.support.examples import examples
from tests.unit.test_matching import at_cosine, matrix_of, random_units

CAP = 1_000


def apply(matrix: ClusterMatrix, assignment: ClusterAssignment) -> None:
    for target in assignment.targets:
        if target.vector is not None:
            matrix.put(target.slot, target.vector)


def slots(assignment: ClusterAssignment) -> list[int]:
    return [assignment.targets[index].slot for index in assignment.target_indexes]


def test_the_first_query_of_a_bank_begins_a_cluster_and_its_like_share_it() -> None:
    vectors = {"a": at_cosine(1.0), "b": at_cosine(0.9), "c": at_cosine(0.2)}
    assignment = assign_clusters(["a", "b", "a", "c"], vectors, ClusterMatrix(2), threshold=0.85, cap=CAP)
    assert slots(assignment) == [0, 0, 0, 1]
    assert [target.query for target in assignment.targets] == ["a", "c"]


def test_a_better_cluster_begun_in_the_batch_takes_over() -> None:
    """`near` first belongs to the old cluster; once `other` has begun one that is closer, it belongs there."""
    angle = np.radians([0, 29, 36])
    old, near, other = (np.array([np.cos(a), np.sin(a)], np.float32) for a in angle)
    matrix = matrix_of(old[None])
    assignment = assign_clusters(
        ["near", "other", "near"], {"near": near, "other": other}, matrix, threshold=0.85, cap=CAP
    )
    assert slots(assignment) == [0, 1, 1]


@settings(max_examples=examples(80))
@given(st.integers(0, 2**32), st.integers(0, 8), st.lists(st.integers(0, 11), min_size=1, max_size=30))
def test_a_batch_places_as_single_signals_would(seed: int, before: int, order: list[int]) -> None:
    rows = random_units(seed, 12, 3)
    vectors: dict[str, Vectors] = {str(i): row for i, row in enumerate(rows)}
    queries = [str(i) for i in order]
    begin = random_units(seed + 1, before, 3) if before else np.empty((0, 3), np.float32)
    together, single = matrix_of(begin), matrix_of(begin)
    assignment = assign_clusters(queries, vectors, together, threshold=0.85, cap=CAP)
    apply(together, assignment)
    one_by_one: list[int] = []
    for query in queries:
        alone = assign_clusters([query], vectors, single, threshold=0.85, cap=CAP)
        apply(single, alone)
        one_by_one += slots(alone)
    assert slots(assignment) == one_by_one
    assert together.count == single.count


def test_at_the_cap_the_oldest_slot_is_used_again() -> None:
    matrix = matrix_of(np.eye(3, dtype=np.float32))
    new = {"x": -np.eye(3, dtype=np.float32)[0], "y": -np.eye(3, dtype=np.float32)[1]}
    assignment = assign_clusters(["x", "y"], new, matrix, threshold=0.85, cap=3, oldest=[2, 0, 1])
    assert slots(assignment) == [2, 0]


def test_a_cluster_that_the_batch_signals_is_not_evicted() -> None:
    eye = np.eye(3, dtype=np.float32)
    assignment = assign_clusters(
        ["new", "old"], {"new": -eye[0], "old": eye[2]}, matrix_of(eye), threshold=0.85, cap=3, oldest=[2, 0, 1]
    )
    assert slots(assignment) == [0, 2]


def test_a_cap_below_one_batch_is_an_error() -> None:
    with pytest.raises(StateConflict, match="cap"):
        assign_clusters(["x"], {"x": at_cosine(0.1)}, matrix_of(at_cosine(1.0)[None]), threshold=0.85, cap=1)
