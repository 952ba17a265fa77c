"""Bodies by which services answer in place of a result, and records that only look like them."""

from __future__ import annotations

from typing import Any

import pytest

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.observer import ToolObserver
from tests.support.tool_results import code

BODIES: list[tuple[dict[str, Any], OutcomeCode]] = [
    (
        {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited", "code": "1300"},
        "rate_limited",
    ),
    ({"ok": False, "error": "ratelimited"}, "rate_limited"),
    ({"__type": "ThrottlingException", "message": "Rate exceeded"}, "rate_limited"),
    ({"fault": {"faultstring": "Rate limit quota violation.", "detail": {"errorcode": "x"}}}, "rate_limited"),
    ({"code": "TOO_MANY_REQUESTS", "message": "x"}, "rate_limited"),
    ({"code": "UNAVAILABLE", "message": "Rate limit exceeded"}, "rate_limited"),  # the words say more than the code
    ({"code": "INVALID_ARGUMENT", "message": "Unknown tool: web_search"}, "unknown_tool"),
    ({"cod": 429, "message": "blocked due to exceeding of requests limitation"}, "rate_limited"),
    ({"Note": "Our standard API call frequency is 5 calls per minute"}, "rate_limited"),
    ({"status": "OVER_QUERY_LIMIT", "results": []}, "rate_limited"),
    ({"cod": 401, "message": "Invalid API key."}, "denied"),
    ({"ok": False, "error": "missing_scope"}, "denied"),
    ({"detail": "Authentication credentials were not provided."}, "denied"),
    ({"status": "REQUEST_DENIED", "results": [], "error_message": "no"}, "denied"),
    ({"cod": "404", "message": "city not found"}, "no_results"),
    ({"message": "Not Found", "documentation_url": "https://docs.example"}, "no_results"),
    ({"detail": "Not found."}, "no_results"),
    ({"fault": {"faultstring": "Gateway Timeout"}}, "unavailable"),
    ({"ok": False, "error": "internal_error"}, "unavailable"),
    ({"status": "INVALID_REQUEST", "results": []}, "invalid_arguments"),
    ({"q": ["This field is required."]}, "invalid_arguments"),
    (
        {"errors": [{"message": "No field x", "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"}}]},
        "invalid_arguments",
    ),
    ({"type": "function_call_output", "call_id": "c", "output": "Rate limit exceeded"}, "rate_limited"),
    ({"type": "function_call_output", "call_id": "c", "output": "[]"}, "no_results"),
    ({"type": "function_call_output", "call_id": "c", "output": [{"type": "text", "text": "Error: boom"}]}, "error"),
    ({"results": [{"title": "a"}], "errors": [{"message": "one source timed out"}]}, "partial"),
    ({"hits": [{"title": "a"}], "timed_out": True}, "partial"),
]


@pytest.mark.parametrize(("body", "expected"), BODIES)
def test_bodies_of_services(body: dict[str, Any], expected: OutcomeCode) -> None:
    assert code(body) == expected


@pytest.mark.parametrize(
    "record",
    [
        {"code": 0, "msg": "ok", "data": [1]},
        {"code": "404", "country": "US", "area": "Atlanta"},
        {"status": "OK", "results": [{"a": 1}]},
        {"hits": [{"title": "a"}], "timed_out": False},
        {"note": "Bring milk"},
        {"tags": ["required reading"], "names": ["Ann"]},
        {"name": "Timeout", "message": "a song"},
        {"status": "error rate normal", "cpu": 3},
    ],
)
def test_records_that_are_alike(record: dict[str, Any]) -> None:
    assert code(record) == "ok"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"response": {"status": 429}}, "rate_limited"),
        ({"name": "RateLimitError", "message": "x"}, "rate_limited"),
        ("ReadTimeoutError()", "unavailable"),
        ("Claude requested permissions to use Bash, but you haven't granted it yet.", "denied"),
        ("web_search() got multiple values for argument 'query'", "invalid_arguments"),
        ("query is required", "invalid_arguments"),
        ("Invalid tool input", "invalid_arguments"),
        ("web_search is not available. Use one of: wiki", "unknown_tool"),
    ],
)
def test_errors_that_hosts_pass_on(error: object, expected: OutcomeCode) -> None:
    assert code(error=error) == expected


def test_a_refusal_that_says_when_to_come_back_is_a_rate_limit() -> None:
    assert code("no", http_status=403) == "denied"
    assert code("no", http_status=403, headers={"Retry-After": "30"}) == "rate_limited"


@pytest.mark.parametrize("page", ["Just a moment...", "DataDome captcha", "Please solve this challenge to continue."])
def test_challenges_in_a_few_words(page: str) -> None:
    assert code(page) == "rate_limited"


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"error": {"type": "rate_limit_error", "message": "slow down", "retry_after": 12}}, 12),
        ({"error": {"type": "rate_limit_error", "message": "slow down, try again in 7 seconds"}}, 7),
        ({"error": "rate limited", "retry_after": 9}, 9),
        ({"error": "rate limited", "retry_after": "9"}, 9),
    ],
)
def test_a_body_says_when_to_come_back(body: dict[str, Any], seconds: float) -> None:
    seen = ToolObserver().observe("web_search", params={"query": "x"}, result=body)
    assert seen.envelope is not None
    assert (seen.envelope.code, seen.envelope.retry_after) == ("rate_limited", seconds)


@pytest.mark.parametrize("message", ["Access denied", "Too many requests", "No results found for that"])
def test_a_tool_that_acts_may_return_its_message(message: str) -> None:
    seen = ToolObserver().observe("send_message", params={"to": "x"}, result={"message": message})
    assert seen.envelope is not None
    assert seen.envelope.code == "ok"


@pytest.mark.parametrize("record", [{"errors": 3}, {"error": 0.2}])
def test_a_number_of_errors_is_a_result(record: dict[str, Any]) -> None:
    assert code(record) == "ok"
