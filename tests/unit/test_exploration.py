"""Places that new facts have in a ranking, and penalties that are bounded or come late."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.contracts.signals import Candidate, RecallHit, RecallRequested
from tellback.signals.ranking import FEW_SIGNALS, Usefulness, rank_candidates

PROVEN = Usefulness(1.0, "global", 50)
NEW = Usefulness(0.5, "neutral")


def ask(candidates: list[Candidate], **options: Any) -> RecallRequested:
    given_: dict[str, Any] = {"boost_by_usefulness": True, **options}
    return RecallRequested(event_id="e", bank="b", query="q", candidates=candidates, **given_)


def bubble(proven: int, new: int) -> tuple[list[Candidate], list[Usefulness]]:
    """Proven facts, and new ones after them, each less relevant than the one before."""
    names = [f"p{i}" for i in range(proven)] + [f"n{i}" for i in range(new)]
    return [Candidate(name, 0.9 - i / 100) for i, name in enumerate(names)], [PROVEN] * proven + [NEW] * new


def ids(hits: list[RecallHit]) -> list[str]:
    return [hit.fact_id for hit in hits]


def test_without_exploration_proven_facts_keep_a_new_one_out() -> None:
    """Exploration opens this filter bubble: requirement S-42."""
    candidates, known = bubble(10, 1)
    assert "n0" not in ids(rank_candidates(ask(candidates, usefulness_weight=0.6), known))


@pytest.mark.parametrize(("exploration", "brought"), [(0.0, 0), (0.05, 1), (0.1, 1), (0.3, 3), (0.31, 4), (1.0, 5)])
def test_exploration_is_the_share_of_places_rounded_up(exploration: float, brought: int) -> None:
    candidates, known = bubble(10, 5)
    hits = rank_candidates(ask(candidates, exploration=exploration), known)
    assert ids(hits) == [f"p{i}" for i in range(10 - brought)] + [f"n{i}" for i in range(brought)]
    assert [hit.explored for hit in hits] == [False] * (10 - brought) + [True] * brought


def test_a_new_fact_that_came_by_itself_counts_toward_the_share() -> None:
    candidates, known = bubble(10, 2)
    candidates[0], known[0] = Candidate("own", 2.0), NEW
    hits = rank_candidates(ask(candidates, exploration=0.1), known)
    assert ids(hits)[0] == "own"
    assert not any(hit.explored for hit in hits)
    assert ids(rank_candidates(ask(candidates, exploration=0.2), known))[-1] == "n0"


def test_the_most_relevant_new_fact_comes_first_whatever_the_order_of_the_candidates() -> None:
    candidates, known = bubble(2, 3)
    order = [4, 2, 0, 3, 1]
    hits = rank_candidates(ask([candidates[i] for i in order], limit=2, exploration=0.5), [known[i] for i in order])
    assert ids(hits) == ["p0", "n0"]


@pytest.mark.parametrize(("signals", "explored"), [(FEW_SIGNALS - 1, True), (FEW_SIGNALS, False)])
def test_a_fact_is_new_below_five_signals(signals: int, *, explored: bool) -> None:
    candidates = [Candidate("p", 0.9), Candidate("f", 0.1)]
    hits = rank_candidates(ask(candidates, limit=1, exploration=1), [PROVEN, Usefulness(0.2, "cluster", signals)])
    assert ids(hits) == (["f"] if explored else ["p"])


def test_exploration_does_not_pass_the_filter() -> None:
    candidates, known = bubble(2, 1)
    assert ids(rank_candidates(ask(candidates, min_usefulness=0.6, exploration=1), known)) == ["p0", "p1"]


def test_exploration_serves_recalls_without_a_boost_too() -> None:
    candidates, known = bubble(3, 1)
    assert ids(rank_candidates(ask(candidates, limit=2, exploration=0.5, boost_by_usefulness=False), known)) == [
        "p0",
        "n0",
    ]


def test_a_penalty_has_a_floor() -> None:
    [hit] = rank_candidates(ask([Candidate("f", 0.5)], penalty_floor=0.4), [Usefulness(0.1, "cluster", 50)])
    assert hit.usefulness == 0.4
    assert hit.score == pytest.approx(0.7 * 0.5 + 0.3 * 0.4)
    [hit] = rank_candidates(ask([Candidate("f", 0.5)], penalty_floor=0.4), [Usefulness(0.45, "cluster", 50)])
    assert hit.usefulness == 0.45


@pytest.mark.parametrize(("signals", "counted"), [(0, 0.5), (2, 0.5), (3, 0.1)])
def test_a_penalty_wants_some_signals_first(signals: int, counted: float) -> None:
    [hit] = rank_candidates(ask([Candidate("f", 0.5)], penalty_after=3), [Usefulness(0.1, "cluster", signals)])
    assert hit.usefulness == counted


def test_praise_counts_from_the_first_signal() -> None:
    [hit] = rank_candidates(ask([Candidate("f", 0.5)], penalty_after=3), [Usefulness(0.65, "cluster", 1)])
    assert hit.usefulness == 0.65


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1), st.integers(0, 9)), max_size=30),
    st.integers(1, 12),
    st.floats(0, 1),
)
def test_exploration_gives_new_facts_their_share_and_no_more(
    facts: list[tuple[float, float, int]], limit: int, exploration: float
) -> None:
    candidates = [Candidate(str(i), semantic) for i, (semantic, _, _) in enumerate(facts)]
    known = [Usefulness(score, "global", signals) for _, score, signals in facts]
    plain = rank_candidates(ask(candidates, limit=limit), known)
    hits = rank_candidates(ask(candidates, limit=limit, exploration=exploration), known)
    assert len(set(ids(hits))) == len(hits) == len(plain)
    new = {str(i) for i, each in enumerate(known) if each.signals < FEW_SIGNALS}
    share = math.ceil(exploration * len(plain) - 1e-9)
    assert len(new & set(ids(hits))) == max(len(new & set(ids(plain))), min(share, len(new)))
    stayed = [hit for hit in hits if not hit.explored]
    assert ids(stayed) == [name for name in ids(plain) if name in ids(stayed)]
    assert hits == stayed + [hit for hit in hits if hit.explored]
