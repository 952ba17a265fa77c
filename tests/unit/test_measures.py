"""Counters of every call: tools, suggestions taken, loops and repeated failures."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tellback.contracts.guidance import Offer, Outcome, ToolInvoked
from tellback.guidance.evaluation import apply_event
from tellback.guidance.measures import OFFER_LIFETIME_CALLS
from tellback.guidance.progress.trail import ASKED_MAX, INDEXES_MAX
from tellback.guidance.provider import similar_calls
from tellback.guidance.repeats import attempt_fingerprint, is_near_duplicate
from tellback.guidance.state import BatchEffects, EvaluationState, new_evaluation
from tests.unit.test_evaluation import Speaks, begun, spec


class Counted:
    """An evaluation without providers, and its counters."""

    def __init__(self) -> None:
        self.state = new_evaluation("s", "p", "e", 1)
        self.effects = BatchEffects()

    def call(self, tool: str, query: str = "x", *, outcome: Outcome | None = None, **fields: Any) -> None:
        event = ToolInvoked(
            event_id="t", session="s", evaluation="e", tool=tool, params={"query": query}, outcome=outcome, **fields
        )
        apply_event(self.state, event, 1, Speaks(), self.effects)
        self.state = msgspec.json.decode(msgspec.json.encode(self.state), type=EvaluationState)  # as between batches

    def __getitem__(self, name: str) -> int:
        return self.effects.tallies.get(name, 0)


def offering(*offers: Offer) -> Outcome:
    return Outcome(status="success", code="ok", offered=offers)


def test_calls_errors_and_codes_are_counted_by_tool() -> None:
    counted = Counted()
    counted.call("search")
    counted.call("search", "y", status="error", outcome=Outcome(status="error", code="rate_limited"))
    counted.call("a:b c", outcome=Outcome(status="error", code="unavailable"))
    assert (counted["tool:search:calls"], counted["tool:search:errors"]) == (2, 1)
    assert counted["tool:search:code.rate_limited"] == 1
    assert counted["tool:a%3Ab%20c:errors"] == 1, "a name cannot imitate a field"


def test_a_suggestion_is_taken_by_one_of_the_next_three_calls_and_counted_once() -> None:
    counted = Counted()
    exact = Offer(kind="refine", tool="search", arguments=attempt_fingerprint("search", {"query": "ruby"}))
    counted.call("wiki", outcome=offering(exact))
    counted.call("search", "python")
    counted.call("other")
    counted.call("search", " Ruby ")
    counted.call("search", "ruby")
    assert (counted["suggestion:refine:offered"], counted["suggestion:refine:taken"]) == (1, 1)
    assert (counted["tool:wiki:offered"], counted["tool:wiki:taken"]) == (1, 1)


def test_a_suggestion_without_arguments_is_taken_by_its_tool_alone() -> None:
    counted = Counted()
    counted.call("wiki", outcome=offering(Offer(kind="alternative", tool="search"), Offer(kind="answer")))
    counted.call("search", "anything")
    counted.call("search", "again")
    assert counted["suggestion:alternative:taken"] == 1
    assert (counted["suggestion:answer:offered"], counted["suggestion:answer:taken"]) == (1, 0)
    assert counted.state.trail.offers == []


def test_the_fourth_call_is_too_late() -> None:
    counted = Counted()
    counted.call("wiki", outcome=offering(Offer(kind="alternative", tool="search")))
    for _ in range(OFFER_LIFETIME_CALLS):
        counted.call("other")
    counted.call("search")
    assert counted["suggestion:alternative:taken"] == 0


def test_a_call_does_not_take_what_it_offers_itself() -> None:
    counted = Counted()
    counted.call("search", outcome=offering(Offer(kind="retry", tool="search")))
    assert counted["suggestion:retry:taken"] == 0
    counted.call("search")
    assert counted["suggestion:retry:taken"] == 1


def test_loops_are_counted_at_each_level_whichever_providers_there_are() -> None:
    counted = Counted()
    for _ in range(9):
        counted.call("search")
    assert [counted[f"loop:{level}"] for level in (3, 5, 8)] == [1, 1, 1]
    assert counted["tool:search:loops"] == 1


def test_the_same_attempt_failing_again_is_a_repeated_failure() -> None:
    counted = Counted()
    for query in ("a", "b", "A "):
        counted.call("fetch", query, status="error")
    counted.call("fetch", "b")
    assert (counted["failure:repeated"], counted["tool:fetch:repeated_failures"]) == (1, 1)


def test_what_is_remembered_for_measuring_is_bounded() -> None:
    counted = Counted()
    offers = tuple(Offer(kind="k", tool=f"never{n}") for n in range(8))
    failed = Outcome(status="error", code="error", offered=offers)
    sizes: list[int] = []
    for n in range(120):
        counted.call("fetch", f"q{n}", status="error", outcome=failed)
        sizes.append(len(msgspec.json.encode(counted.state)))
    assert len(counted.state.trail.progress.asked) == ASKED_MAX
    assert len(counted.state.trail.offers) <= 8 * OFFER_LIFETIME_CALLS
    assert sizes[-1] < sizes[40] * 1.05


def test_providers_are_counted_by_what_became_of_them() -> None:
    state, effects = new_evaluation("s", "p", "e", 1), BatchEffects()
    panel = Speaks(failing=["B"])
    apply_event(state, begun(spec("A", 1), spec("B", 1), delivery="all"), 1, panel, effects)
    for n in range(5):
        apply_event(state, ToolInvoked(event_id=str(n), session="s", evaluation="e", tool="t"), 1, panel, effects)
    tallies = {name: count for name, count in effects.tallies.items() if name.startswith("provider")}
    assert tallies == {"provider:A:fires": 5, "provider:B:failures": 3, "provider:B:disabled": 1}


def test_numbers_make_another_call_and_letters_may_not() -> None:
    text = b'{"query":"the population of the largest city in the north of the country"}'
    assert is_near_duplicate(text, text.replace(b"country", b"country."))
    assert not is_near_duplicate(text, text.replace(b"the largest", b"the 2 largest"))
    assert not is_near_duplicate(b'{"query":"ruby"}', b'{"query":"rust"}')
    assert not is_near_duplicate(text * 100, text * 100 + b".")


@given(st.lists(st.sampled_from(["a", "A ", "b", "c 1", "c 2"]), min_size=1, max_size=INDEXES_MAX))
def test_what_repeats_is_the_same_whether_counted_step_by_step_or_from_the_calls(queries: list[str]) -> None:
    """The marks that are kept answer as the calls themselves would, as long as no provider's calls go out of sight.

    Of more repeats than that, the marks keep the first ones, and the calls the newest.
    """
    seen: list[tuple[int, ...]] = []

    class Invoker(Speaks):
        def ask(self, spec: Any, context: Any) -> None:
            assert spec.name == "A"
            seen.append(context.similar_calls())
            assert context.similar_calls() == similar_calls(context.recent)

    state, effects, panel = new_evaluation("s", "p", "e", 1), BatchEffects(), Invoker()
    apply_event(state, begun(spec("A", 1)), 1, panel, effects)
    for query in queries:
        event = ToolInvoked(event_id="t", session="s", evaluation="e", tool="search", params={"query": query})
        apply_event(state, event, 1, panel, effects)
    assert len(seen) == len(queries)


_events = st.lists(st.sampled_from(["call", "fail", "spent"]), max_size=40)


@given(_events, st.randoms(use_true_random=False))
def test_the_order_of_events_changes_no_count(kinds: list[str], random: Any) -> None:
    """Reports that hosts send side by side arrive in any order."""
    from tellback.contracts.guidance import BudgetSpent

    def run(order: list[str]) -> tuple[int, int, int, int]:
        state, effects = new_evaluation("s", "p", "e", 1), BatchEffects()
        apply_event(state, begun(spec("A", 3)), 1, Speaks(), effects)
        for kind in order:
            if kind == "spent":
                event: Any = BudgetSpent(event_id="e", session="s", evaluation="e", tokens=7)
            else:
                status = "error" if kind == "fail" else "success"
                event = ToolInvoked(event_id="e", session="s", evaluation="e", tool="t", status=status)
            apply_event(state, event, 1, Speaks(), effects)
        return state.calls, state.errors, state.fires, state.tokens

    shuffled = list(kinds)
    random.shuffle(shuffled)
    assert run(shuffled) == run(kinds)
    assert run(kinds)[2] == (len(kinds) - kinds.count("spent")) // 3
