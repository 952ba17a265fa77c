"""Results that found nothing: a search's answer, and not a record that happens to hold an empty list."""

from __future__ import annotations

from typing import Any

import pytest

from tellback.guidance.observations.observer import ToolObserver
from tests.support.tool_results import code

NOTHING: list[Any] = [
    {"hits": {"total": {"value": 0, "relation": "eq"}, "hits": []}},
    {"batchcomplete": "", "query": {"search": [], "searchinfo": {"totalhits": 0}}},
    {"query": {"pages": {"-1": {"title": "Xyz", "missing": ""}}}},
    {"web": {"results": []}},
    [{"results": []}],
    {"documents": [[]], "ids": [[]], "distances": [[]]},
    {"organic": [], "searchParameters": {"q": "x"}},
    {"items": [], "total_count": 0, "incomplete_results": False},
    {"status": "ok", "totalResults": 0, "articles": []},
    {"object": "list", "data": [], "has_more": False},
    {"count": 0},
    "<results></results>",
    '<?xml version="1.0"?>\n<results/>',
    "Empty result set",
    "(0 rows)",
    "No users found with that name",
    "No such page exists on Wikipedia.",
    "Search returned no results",
    'Page id "x" does not match any pages. Try another id!',
]
SOMETHING: list[Any] = [
    {"order_id": "#W1", "status": "cancelled", "items": [], "address": {"city": "x"}},
    {"name": {"first_name": "A"}, "email": "a@example.org", "orders": []},
    {"item": "apple", "count": 0},
    {"answer": "Paris is the capital.", "results": []},
    {"AbstractText": "A city.", "RelatedTopics": [], "Results": []},
    {"web": {"results": [{"title": "a"}]}},
    {"total": 3, "items": [{"a": 1}]},
    {"query": {"pages": {"7": {"title": "Xyz", "extract": "A place."}}}},
    "<b>Paris</b>",
]


@pytest.mark.parametrize("result", NOTHING)
def test_nothing_was_found(result: object) -> None:
    assert code(result) == "no_results"


@pytest.mark.parametrize("result", SOMETHING)
def test_something_was_found(result: object) -> None:
    assert code(result, tool="get_details") == "ok"


def test_a_tool_that_acts_answers_with_no_results() -> None:
    seen = ToolObserver().observe("send_email", params={"to": "a"}, result={"status": "sent", "result": None})
    assert seen.status == "success"
