"""Real conversations: every error is named rightly, suggestions are sound, and those that go well are left in peace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tellback.guidance.observations.feedback import ToolFeedback
from tellback.guidance.observations.observer import Observer
from tellback.replay.accounts import Account, Analyst, Observed
from tellback.replay.analysis import toolbox_of
from tellback.replay.reading import read
from tellback.replay.transcript import BadLine

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "agent_conversations.jsonl"

needs_data = pytest.mark.skipif(not DATA.exists(), reason="the transcripts (../shared/data) are not here")

# Labelled by hand, by what the words say: each form of error in the file.
LABELS: Final = {
    r"payment amount does not add up, total price is \d+, but paid \d+": {"error", "invalid_arguments"},
    r"flight \w+ not available on date [\d-]+": {"error"},
    r"gift card balance is not enough": {"error"},
    r"not enough balance in payment method \w+": {"error"},
    r"not enough seats on flight \w+": {"error"},
    r"certificate cannot be used to update reservation": {"error", "invalid_arguments"},
    r"payment method (?:\w+ )?not found": {"error", "invalid_arguments"},
}
# And forms that tools of this kind have, and the file has not.
UNSEEN: Final = {
    "Error: user not found": {"error", "no_results"},
    "Error: reservation not found": {"error", "no_results"},
    "Error: flight HAT001 not found": {"error", "no_results"},
    "Error: number of passengers does not match": {"error", "invalid_arguments"},
    "Error: invalid characters in expression": {"invalid_arguments"},
    "Error: invalid payment method": {"invalid_arguments"},
    "Error: division by zero": {"error", "invalid_arguments"},
    "Error: BookReservation.invoke() missing 1 required positional argument: 'insurance'": {"invalid_arguments"},
    "Error: Think.invoke() got an unexpected keyword argument 'idea'": {"invalid_arguments"},
    "Error: 'first_name'": {"error", "invalid_arguments"},
    "Error: string indices must be integers, not 'str'": {"error", "invalid_arguments"},
    "Error: non-pending order cannot be modified": {"error"},
    "Error: insufficient gift card balance to pay for the price difference": {"error"},
    "Error: new item 1615379700 not found or available": {"error", "no_results"},
    "Unknown action search_trains": {"unknown_tool"},
    "Error: too many requests": {"rate_limited"},
    "Error: service temporarily unavailable": {"unavailable"},
}
ALSO_SIGNED: Final = {"no_results": "⚠"}  # all other failures begin with ✗


@cache
def accounts() -> tuple[Account, ...]:
    with DATA.open("rb") as file:
        toolbox = toolbox_of(file)
        file.seek(0)
        analyst = Analyst()
        return tuple(analyst.account(each, toolbox.of(each)) for each in read(file) if not isinstance(each, BadLine))


def calls() -> Iterator[Observed]:
    return (call for account in accounts() for call in account.calls)


def halves() -> dict[str, list[Account]]:
    """By task, so that no half has seen a task of the other: we tuned on the even ones."""
    found: dict[str, list[Account]] = {"tuned": [], "held back": []}
    for account in accounts():
        task = int(account.conversation.label.partition("-")[0])
        found["held back" if task % 2 else "tuned"].append(account)
    return found


def plain(tool: str, arguments: object) -> str:
    """A call as a person compares it: case and white space aside. Not our own normal form."""
    return f"{tool} {json.dumps(arguments, sort_keys=True)}".lower().replace(" ", "")


@needs_data
def test_every_error_is_named_rightly() -> None:
    errors = [call for call in calls() if call.step.result.startswith("Error")]
    assert len(errors) == 70
    for call in errors:
        said = call.step.result.removeprefix("Error: ")
        allowed = next((codes for pattern, codes in LABELS.items() if re.fullmatch(pattern, said)), None)
        assert allowed is not None, f"nobody has labelled {said!r}"
        assert call.code in allowed, said
        assert call.seen.status == "error"
        assert call.seen.status_line.startswith("✗ " + call.step.tool)
        assert said in call.seen.to_observation()


@needs_data
def test_nothing_else_is_called_an_error_and_empty_searches_are_no_successes() -> None:
    for call in calls():
        text = call.step.result.strip()
        if text.startswith("Error"):
            continue
        expected = "no_results" if text == "[]" else "ok"
        assert call.code == expected, (call.step.tool, text[:200])


@pytest.mark.parametrize(("said", "codes"), UNSEEN.items())
@pytest.mark.parametrize("as_error", [True, False])
def test_errors_of_such_tools_that_the_file_has_not_are_named_rightly(
    said: str, codes: set[str], *, as_error: bool
) -> None:
    tool = "search_trains" if "search_trains" in said else "book_reservation"
    seen = Observer(tools=["book_reservation", "think"], seed="x").observe(
        tool, params={"user": "u"}, result=None if as_error else said, error=said if as_error else None
    )
    assert code_of(seen) in codes
    assert seen.status_line.startswith(ALSO_SIGNED.get(code_of(seen), "✗"))


def code_of(seen: ToolFeedback) -> str:
    assert seen.envelope is not None
    return seen.envelope.code


@needs_data
def test_no_suggestion_names_a_tool_that_does_not_exist() -> None:
    exist = {call.step.tool for call in calls()}
    named = 0
    for call in calls():
        assert call.seen.envelope is not None
        for step in call.seen.envelope.suggestions:
            assert step.tool is None or step.tool in exist
            for name in re.findall(r"→ (\w+)\(", step.text):
                assert name in exist
                named += 1
    assert named


@needs_data
def test_no_suggestion_repeats_a_failed_attempt() -> None:
    for account in accounts():
        failed: set[str] = set()
        for call in account.calls:
            if call.step.result.startswith("Error") or call.step.result.strip() == "[]":
                failed.add(plain(call.step.tool, call.step.params))
            assert call.seen.envelope is not None
            for step in call.seen.envelope.suggestions:
                assert step.args is None or plain(str(step.tool), step.args) not in failed, step.text


@needs_data
@pytest.mark.parametrize("half", ["tuned", "held back"])
def test_solved_conversations_are_hardly_ever_nudged(half: str) -> None:
    """The bound is 0.2 nudges a call; what we aim at is a quarter of it, and fewer than in the others."""
    per_call: dict[bool, float] = {}
    for solved in (True, False):
        group = [account for account in halves()[half] if account.conversation.solved is solved]
        per_call[solved] = sum(len(each.nudges) for each in group) / sum(len(each.calls) for each in group)
    assert per_call[True] < 0.05
    assert per_call[True] < per_call[False] / 2


@needs_data
def test_conversations_that_keep_failing_are_told_while_there_is_time() -> None:
    """Each that fails twice in a row is told at once; of those not solved none hears at its last."""
    seen = 0
    for account in accounts():
        places = [call.index for call in account.calls if call.failed]
        streaks = [place for place in places if place - 1 in places]
        told = [nudge.call_index for nudge in account.nudges]
        if streaks:
            assert min(told) <= streaks[0]
        if len(places) >= 3 and not account.conversation.solved:
            seen += 1
            assert told, account.conversation.label
            assert told[0] <= places[-1 if len(places) == 3 else -2]
    assert seen == 9


@needs_data
def test_the_same_file_gives_the_same_bytes() -> None:
    with DATA.open("rb") as file:
        toolbox = toolbox_of(file)
        file.seek(0)
        first = next(each for each in read(file) if not isinstance(each, BadLine))
    texts: list[Any] = [
        [call.seen.to_observation() for call in Analyst().account(first, toolbox.of(first)).calls] for _ in range(2)
    ]
    assert texts[0] == texts[1]
