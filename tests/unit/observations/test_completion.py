"""An agent is asked to look once more before it answers, and is not held for ever."""

from __future__ import annotations

import pytest

from tellback.guidance.observations.observer import ToolObserver

QUESTION = "What is the street address of the New York Times?"


def _observer(**more: str) -> ToolObserver:
    observer = ToolObserver(tools=["wikipedia", "book_flight", "final_answer"], question=more.get("question", QUESTION))
    observer.observe(
        "wikipedia", params={"query": "New York Times"}, result="The New York Times is headquartered in Manhattan"
    )
    return observer


def test_an_answer_that_says_what_was_asked_passes() -> None:
    check = _observer().check_answer("The street address of The New York Times is 620 Eighth Avenue.")
    assert (check.passed, check.missing, check.render()) == (True, (), "")


def test_words_of_the_question_that_nothing_mentions_are_listed() -> None:
    check = _observer().check_answer("It is in Manhattan.")
    assert not check.passed
    assert check.render() == (
        "Your task is not complete yet:\n\n- Nothing that you found or wrote mentions: street, address"
    )


@pytest.mark.parametrize("answer", ["", "  \n", None])
def test_no_answer_is_missing(answer: object) -> None:
    assert "empty" in [item.kind for item in _observer().check_answer(answer).missing]


@pytest.mark.parametrize("answer", ["extracted answer", '"Summarize what you found."'])
def test_a_placeholder_of_ours_is_no_answer(answer: str) -> None:
    assert "placeholder" in [item.kind for item in _observer(question="").check_answer(answer).missing]


def test_open_items_are_listed() -> None:
    check = _observer(question="").check_answer("done", todo=["write the tests", "line\nbreak"])
    assert [item.text for item in check.missing] == ["Still open: write the tests", "Still open: line break"]


def test_required_tools_must_have_succeeded_last() -> None:
    observer = ToolObserver(required_tools=["run_tests"])
    assert [item.name for item in observer.check_answer("done").missing] == ["run_tests"]
    observer.observe("run_tests", result="3 passed and none failed")
    assert observer.check_answer("done").passed
    observer.observe("run_tests", error="2 failed")
    assert [item.text for item in observer.check_answer("done").missing] == ["run_tests has not succeeded yet."]


def test_an_action_that_failed_is_listed_until_it_succeeds() -> None:
    observer = _observer(question="")
    observer.observe("book_flight", params={"id": 1}, error="not enough seats")
    observer.observe("wikipedia", params={"query": "seats"}, result="A seat is a place to sit on")
    check = observer.check_answer("booked!")
    assert [item.text for item in check.missing] == [
        "The last call of book_flight failed, and nothing has succeeded since."
    ]
    observer.observe("book_flight", params={"id": 2}, result='{"state": "booked"}')
    assert observer.check_answer("booked!").passed


def test_a_search_that_failed_is_made_good_by_another_result() -> None:
    observer = _observer(question="")
    observer.observe("wikipedia", params={"query": "x"}, http_status=503)
    assert not observer.check_answer("an answer").passed
    observer.observe("news_search", params={"query": "x"}, result="x is a letter of the alphabet")
    assert observer.check_answer("an answer").passed


def test_it_refuses_at_most_so_many_times_in_a_row() -> None:
    observer = _observer()
    assert [observer.check_answer("no").passed for _ in range(4)] == [False, False, True, True]
    assert observer.check_answer("no").missing, "what is missing is still reported"
    assert observer.check_answer("The street address is 620 Eighth Avenue").passed
    assert not observer.check_answer("no").passed, "and the count starts over"
    assert observer.check_answer("no", max_refusals=0).passed


def test_what_is_listed_is_bounded() -> None:
    check = _observer().check_answer("x" * 10_000_000, todo=[f"{number} " + "y" * 9_999 for number in range(500)])
    assert len(check.missing) == 10
    assert len(check.render()) < 5_000


def test_the_verification_prompt() -> None:
    observer = _observer()
    observer.observe("book_flight", params={"id": 1}, error="not enough seats")
    assert observer.verification_text(todo=["tell the price"]) == (
        "Before you give your final answer:\n\n"
        f"- The question was: {QUESTION}\n"
        '- You have results from: wikipedia "New York Times"\n'
        "- The last call of book_flight failed, and nothing has succeeded since.\n"
        "- Nothing that you found or wrote mentions: street, address\n"
        "- Still open: tell the price\n"
        "- Does the answer say what was asked, and do the results support it?"
    )
