"""Real conversations: every error is named rightly, suggestions are sound, and those that go well are left in peace."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest

from tellback.guidance.observations.feedback import ToolFeedback
from tellback.guidance.observations.observer import ToolObserver
from tellback.replay.accounts import GuidanceAnalyzer, GuidedConversation, ObservedCall
from tellback.replay.analysis import collect_tools
from tellback.replay.reading import read_transcripts
from tellback.replay.transcript import BadLine
from tests.support.conversations import Conversations

# Labelled by hand, by what the words say: each form of error in the conversations.
LABELS: Final = {
    r"payment amount does not add up, total price is \d+, but paid \d+": {"error", "invalid_arguments"},
    r"(?:flight|room) \w+ not available on date [\d-]+": {"error"},
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
def accounts(source: Conversations) -> tuple[GuidedConversation, ...]:
    file = io.BytesIO(source.raw)
    toolbox = collect_tools(file)
    file.seek(0)
    analyst = GuidanceAnalyzer()
    return tuple(
        analyst.analyze(each, toolbox.tools_for(each))
        for each in read_transcripts(file)
        if not isinstance(each, BadLine)
    )


def calls(source: Conversations) -> Iterator[ObservedCall]:
    return (call for account in accounts(source) for call in account.tool_calls)


def halves(source: Conversations) -> dict[str, list[GuidedConversation]]:
    """By task, so that no half has seen a task of the other: we tuned on the even ones."""
    found: dict[str, list[GuidedConversation]] = {"tuned": [], "held back": []}
    for account in accounts(source):
        task = int(account.conversation.label.partition("-")[0])
        found["held back" if task % 2 else "tuned"].append(account)
    return found


def plain(tool: str, arguments: object) -> str:
    """A call as a person compares it: case and white space aside. Not our own normal form."""
    return f"{tool} {json.dumps(arguments, sort_keys=True)}".lower().replace(" ", "")


def test_every_error_is_named_rightly(source: Conversations) -> None:
    errors = [call for call in calls(source) if call.returned.result.startswith("Error")]
    assert len(errors) == source.errors
    for call in errors:
        said = call.returned.result.removeprefix("Error: ")
        allowed = next((codes for pattern, codes in LABELS.items() if re.fullmatch(pattern, said)), None)
        assert allowed is not None, f"nobody has labelled {said!r}"
        assert call.code in allowed, said
        assert call.feedback.status == "error"
        assert call.feedback.status_line.startswith("✗ " + call.returned.tool)
        assert said in call.feedback.to_observation()


def test_nothing_else_is_called_an_error_and_empty_searches_are_no_successes(source: Conversations) -> None:
    for call in calls(source):
        text = call.returned.result.strip()
        if text.startswith("Error"):
            continue
        expected = "no_results" if text == "[]" else "ok"
        assert call.code == expected, (call.returned.tool, text[:200])


@pytest.mark.parametrize(("said", "codes"), UNSEEN.items())
@pytest.mark.parametrize("as_error", [True, False])
def test_errors_of_such_tools_that_the_file_has_not_are_named_rightly(
    said: str, codes: set[str], *, as_error: bool
) -> None:
    tool = "search_trains" if "search_trains" in said else "book_reservation"
    seen = ToolObserver(tools=["book_reservation", "think"], seed="x").observe(
        tool, params={"user": "u"}, result=None if as_error else said, error=said if as_error else None
    )
    assert code_of(seen) in codes
    assert seen.status_line.startswith(ALSO_SIGNED.get(code_of(seen), "✗"))


def code_of(seen: ToolFeedback) -> str:
    assert seen.envelope is not None
    return seen.envelope.code


def test_no_suggestion_names_a_tool_that_does_not_exist(source: Conversations) -> None:
    exist = {call.returned.tool for call in calls(source)}
    named = 0
    for call in calls(source):
        assert call.feedback.envelope is not None
        for step in call.feedback.envelope.suggestions:
            assert step.tool is None or step.tool in exist
            for name in re.findall(r"→ (\w+)\(", step.text):
                assert name in exist
                named += 1
    assert named


def test_no_suggestion_repeats_a_failed_attempt(source: Conversations) -> None:
    for account in accounts(source):
        failed: set[str] = set()
        for call in account.tool_calls:
            if call.returned.result.startswith("Error") or call.returned.result.strip() == "[]":
                failed.add(plain(call.returned.tool, call.returned.params))
            assert call.feedback.envelope is not None
            for step in call.feedback.envelope.suggestions:
                assert step.args is None or plain(str(step.tool), step.args) not in failed, step.text


@pytest.mark.parametrize("half", ["tuned", "held back"])
def test_solved_conversations_are_hardly_ever_nudged(source: Conversations, half: str) -> None:
    """They get at most 0.02 nudges a call, and fewer than the others; one nudge is 0.011 in the smaller half."""
    per_call: dict[bool, float] = {}
    for solved in (True, False):
        group = [account for account in halves(source)[half] if account.conversation.solved is solved]
        per_call[solved] = sum(len(each.feedback) for each in group) / sum(len(each.tool_calls) for each in group)
    assert per_call[True] < 0.02
    assert per_call[True] < per_call[False] or per_call == {True: 0.0, False: 0.0}


def test_solved_conversations_are_nudged_less_than_half_as_often(source: Conversations) -> None:
    """Both halves are counted: the few nudges of one alone would decide by chance."""
    per_call: dict[bool, float] = {}
    for solved in (True, False):
        group = [each for each in accounts(source) if each.conversation.solved is solved]
        per_call[solved] = sum(len(each.feedback) for each in group) / sum(len(each.tool_calls) for each in group)
    assert per_call[True] < per_call[False] / 2


def test_conversations_that_keep_failing_are_reported_while_there_is_time(source: Conversations) -> None:
    """Each that fails three times in a row has had a report by then.

    Of those not solved, none hears at its last failure that a tool has failed three times without a success between.
    """
    seen = 0
    for account in accounts(source):
        places = [call.index for call in account.tool_calls if call.failed]
        streaks = [place for place in places if place - 1 in places and place - 2 in places]
        reported = [nudge.call_index for nudge in account.feedback]
        if streaks:
            assert min(reported) <= streaks[0]
        if fails_on(account) and not account.conversation.solved:
            seen += 1
            assert reported, account.conversation.label
            assert reported[0] <= places[-1 if len(places) == 3 else -2]
    assert seen == source.failing


def fails_on(account: GuidedConversation) -> bool:
    """Check whether one tool fails three times without a success of it in between."""
    failures: Counter[str] = Counter()
    for call in account.tool_calls:
        failures[call.returned.tool] = failures[call.returned.tool] + 1 if call.failed else 0
        if failures[call.returned.tool] == 3:
            return True
    return False


def test_the_same_file_gives_the_same_bytes(source: Conversations) -> None:
    file = io.BytesIO(source.raw)
    toolbox = collect_tools(file)
    file.seek(0)
    first = next(each for each in read_transcripts(file) if not isinstance(each, BadLine))
    texts: list[Any] = [
        [
            call.feedback.to_observation()
            for call in GuidanceAnalyzer().analyze(first, toolbox.tools_for(first)).tool_calls
        ]
        for _ in range(2)
    ]
    assert texts[0] == texts[1]
