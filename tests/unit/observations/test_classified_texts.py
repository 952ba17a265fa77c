"""Results and errors that are no more than text, or empty: words and pages decide. Requirements G-54 and G-55."""

from __future__ import annotations

from typing import Any

import pytest

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.observer import ToolObserver
from tests.support.tool_results import code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Error: user not found", "error"),
        ("failed to get issue: GET https://api.github.com/repos/o/r/issues/99: 404 Not Found []", "error"),
        ("Failed to fetch https://example.org/shop - status code 404", "no_results"),
        ("Error: flight HAT030 not available on date 2024-05-13", "error"),
        ("Error: payment amount does not add up, total price is 429, but paid 503", "error"),
        ("Error: not enough seats on flight HAT290", "error"),
        ("Error: gift card balance is not enough", "error"),
        ("Error: invalid reason", "invalid_arguments"),
        ("Error: BookReservation.invoke() missing 1 required positional argument: 'cabin'", "invalid_arguments"),
        ("ValueError: x must be positive", "invalid_arguments"),
        ("Unknown action wikipedia", "unknown_tool"),
        ("Error: Unknown tool `wikipedia`", "unknown_tool"),
        ("Tool 'wikipedia' not found", "unknown_tool"),
        ("rate limit exceeded", "rate_limited"),
        ("Rate limited. Try again in 30 seconds.", "rate_limited"),
        ("You are being rate limited", "rate_limited"),
        ("Too many requests", "rate_limited"),
        ("HTTP 429", "rate_limited"),
        ("Error code: 429 - {'error': {'message': 'slow'}}", "rate_limited"),
        ("Request failed with status code 503", "unavailable"),
        ("503 Service Unavailable", "unavailable"),
        ("Service temporarily unavailable, try again later", "unavailable"),
        ("Error: connect ECONNREFUSED 127.0.0.1:80", "unavailable"),
        ("Request timed out after 30s", "unavailable"),
        (
            "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>",
            "unavailable",
        ),
        ("Permission denied", "denied"),
        ("Error: 401 Unauthorized", "denied"),
        ("The user doesn't want to proceed with this tool use. The tool use was rejected", "cancelled"),
        ("bash: foo: command not found", "error"),
        ("cat: /x: No such file or directory", "error"),
        ("fatal: not a git repository", "error"),
        ("<tool_use_error>File does not exist.</tool_use_error>", "error"),
        ("AssertionError", "error"),
        ("TimeoutError", "unavailable"),
        ("{'error': 'user not found'}", "error"),
        ("I'm sorry, I could not find any flights", "no_results"),
        ("There are no flights available for this route.", "no_results"),
        ("No results found for x", "no_results"),
        ("No results found! Try a less restrictive/shorter query.", "no_results"),
        ("No good Wikipedia Search Result was found", "no_results"),
        ("Your search - xyzzy - did not match any documents.", "no_results"),
        ("Found 0 results", "no_results"),
        (
            'Traceback (most recent call last):\n  File "x", line 1\nrequests.exceptions.ConnectionError: no',
            "unavailable",
        ),
        ("Traceback (most recent call last):\n  File \"x\", line 1\nKeyError: 'a'", "error"),
        ('"Error: user not found"', "error"),
    ],
)
def test_plain_text(text: str, expected: OutcomeCode) -> None:
    assert code(text) == expected
    failed = code(error=text)
    assert failed == expected or (expected == "error" and failed == "error")


CHALLENGES = [
    "Our systems have detected unusual traffic from your computer network. This page checks to see if it's really you.",
    "Unfortunately, bots use DuckDuckGo too. Please complete the following challenge to confirm this search was human.",
    "<html><head><title>Just a moment...</title></head><body>Enable JavaScript and cookies to continue</body></html>",
    "<html><head><title>Attention Required! | Cloudflare</title></head><body><p>One more step</p></body></html>",
    '<html><body><form action="/sorry/index"><div class="g-recaptcha"></div></form></body></html>',
    "Please verify you are a human to continue",
    "CAPTCHA required",
]


@pytest.mark.parametrize("page", CHALLENGES)
@pytest.mark.parametrize("status", [None, 200, 202, 403])
def test_a_captcha_page_is_a_rate_limit_and_never_no_results(page: str, status: int | None) -> None:
    assert code(page, http_status=status) == "rate_limited"


GOOD = [
    "Rate limiting is a technique used to control the rate of requests that a network interface sends or receives.",
    "CAPTCHA is a type of challenge-response test used in computing to determine whether the user is human.",
    "The HTTP 429 status code is sent when a client has sent too many requests in a given amount of time. " * 3,
    "Error correction codes are used in deep-space communication, for instance by the Voyager probes.",
    "Exceptions in Python are raised with the raise statement. Error handling uses try and except.",
    "No Results is an album by a band from Leeds that came out in 1997 and was well received.",
    "Timeout is a basketball term for a halt in the play, called by the coach of a team.",
    "Warning: 3 tests were skipped\nall 112 others passed",
    "The permission system denies access by default; administrators grant roles to groups.",
    '{"id": 7, "state": "done", "error": null, "owner": "ada"}',
    '{"id": 7, "state": "done", "error": "", "output": "x"}',
    '{"id": 7, "error": false, "items": [1, 2]}',
    '{"job": "build", "state": "failed", "error": "disk full", "host": "a", "started": "9:00"}',
    '[{"level": "error", "message": "connection refused"}, {"level": "info", "message": "up"}]',
    '{"message": "Deployment finished", "id": 3}',
    '{"total_price": 429, "paid": 503}',
    "429.0",
    "503",
    "0",
    "false",
    "Transfer successful",
    "https://example.org/errors/404",
    "def handle(error):\n    raise RateLimitError('rate limit exceeded')",
    ("A long story. " * 400) + "Please verify you are a human.",
    "<html><head><title>CAPTCHA</title></head><body>"
    + "<p>The word was coined in 2003 by von Ahn.</p>" * 60
    + "</body>",
    "<html><body>" + "<p>Contact us about anything.</p>" * 60 + '<div class="g-recaptcha"></div></body></html>',
]


@pytest.mark.parametrize("text", GOOD)
def test_a_good_result_that_only_speaks_of_failures_is_good(text: str) -> None:
    assert code(text, tool="read_page") == "ok"


@pytest.mark.parametrize("tool", ["think", "send_email", "write_file", "delete_user", "bash", "cancelOrder"])
@pytest.mark.parametrize("result", ["", None, {}, "null"])
def test_a_tool_that_acts_may_say_nothing_when_all_is_well(tool: str, result: object) -> None:
    seen = ToolObserver().observe(tool, params={"id": 1}, result=result)
    assert (seen.status, seen.status_line) == ("success", f"✓ {tool} succeeded")


def test_a_tool_that_works_on_a_text_is_no_search() -> None:
    seen = ToolObserver(question="What is the street address?").observe(
        "translate", params={"text": "hello"}, result="Guten Tag und hallo allerseits"
    )
    assert seen.status_line == "✓ translate succeeded"


NOTHING: list[Any] = [
    *([], (), {}, "", "  \n", None, "null", "[]", "{}", "none", "[[]]", '{"results": []}', "{'results': []}"),
    *({"results": []}, {"results": None}, {"total": 0}, {"count": 0, "results": []}, {"RelatedTopics": []}),
    *({"hits": {"total": 0, "hits": []}}, {"query": "x", "items": [], "page": 1}, "No results found"),
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
    *([0], {"results": [1]}, {"total": 3, "results": []}, {"ok": True}, 0, False, "0.0"),
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
