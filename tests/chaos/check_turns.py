"""Invariants 6 and 13: exactly one first answer for each turn, and every delivery comes to its end."""

from __future__ import annotations

from tests.chaos.end_state import EndState, TurnEnd
from tests.chaos.story import Story, TurnStory
from tests.chaos.verdict import ChaosVerdict

DONE = frozenset({"delivered", "dead", "dropped", "ambiguous"})
ANSWERED = {"accepted", "replaced", "duplicate", "spooled", "unknown", "done"}
"""Results of an ending that may have been the answer of a turn that is responded; a retry gets `duplicate`."""


def check_first_answers(story: Story, end: EndState) -> ChaosVerdict:
    """Check the state of each turn against the replies that its hosts got and what transports sent."""
    verdict = ChaosVerdict(6, "a turn has exactly one first answer")
    for id_, turn in story.turns.items():
        found = end.turns.get(id_)
        if found is None:
            verdict.expect(not turn.opened, f"{id_} was opened and does not exist")
            continue
        problem = _problem(turn, found)
        verdict.expect(not problem, f"{id_}: {problem}; {found}, asked {turn.asked}, sent {turn.sent}")
    states = sorted({found.state for found in end.turns.values()})
    verdict.note = ", ".join(f"{sum(f.state == state for f in end.turns.values())} {state}" for state in states)
    return verdict


def _problem(turn: TurnStory, found: TurnEnd) -> str:
    accepted = sum(result in {"accepted", "replaced"} for _, result in turn.asked)
    # An attempt that failed sent nothing: an answer may still replace its fallback.
    firsts = {(kind, key) for kind, key, settled in turn.sent if kind != "late" and settled != "retry"}
    lates = {key for kind, key, _ in turn.sent if kind == "late"}
    kinds = {kind for kind, _ in firsts}
    problems = {
        "it is still open": found.state in {"open", "finishing"},
        "two answers were accepted": accepted > 1,
        "the accepted answer is not its end": accepted and found.state not in {"responded", "no_reply"},
        "two first answers were sent": len(firsts) > 1,
        "two late answers were sent": len(lates) > 1,
        "a fallback was sent beside an answer": "fallback" in kinds and found.state != "fallback",
        "an answer was sent beside its end": "answer" in kinds and found.state != "responded",
        "nobody gave its answer": found.state == "responded"
        and not any(result in ANSWERED for _, result in turn.asked),
    }
    return ", ".join(problem for problem, is_so in problems.items() if is_so)


def check_deliveries(story: Story, end: EndState) -> ChaosVerdict:
    """Check that each answer reached a transport and its end, and none is settled twice or waits unseen."""
    verdict = ChaosVerdict(13, "every delivery comes to its end")
    for id_, turn in story.turns.items():
        found = end.turns.get(id_)
        if found is None or found.state not in {"responded", "fallback"}:
            continue
        firsts = [settled for kind, _, settled in turn.sent if kind != "late"]
        verdict.expect(found.delivery in DONE, f"{id_}: its delivery is {found.delivery}")
        verdict.expect(firsts, f"{id_}: no transport had its answer")
        for key in {key for _, key, _ in turn.sent}:
            ends = sum(settled == "delivered" and each == key for _, each, settled in turn.sent)
            verdict.expect(ends <= 1, f"{id_}: {key} was delivered {ends} times")
    for what in end.left:
        verdict.fail(f"not settled: {what}")
    return verdict
