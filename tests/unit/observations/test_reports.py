"""Failures as services, protocols and gateways put them, in their own words and shapes."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.observer import ToolObserver
from tests.support.tool_results import code as observed_code

TOOL = "web_search"
code = partial(observed_code, tool=TOOL)


def raised(name: str, said: str = "it went wrong") -> Exception:
    error: Exception = type(name, (Exception,), {})(said)
    return error


@pytest.mark.parametrize(
    "error",
    [
        "Daily limit exceeded",
        "The API is being called too frequently. Please slow down.",
        "userRateLimitExceeded",
        "dailyLimitExceeded",
        "Exceeded 60 requests per minute",
        "You can only make 5 requests per second",
        "limit of 100 requests/day reached",
        "Request rate is large",
        "Your request exceeds your plan's set usage limit. Please upgrade",
        raised("UsageLimitExceededError"),
        raised("RetryAfter", "Flood control exceeded. Retry in 5 seconds"),
        raised("HTTPTooManyRequestsError"),
    ],
)
def test_limits(error: object) -> None:
    assert code(error=error) == "rate_limited"


@pytest.mark.parametrize(
    "error",
    [
        "upstream connect error or disconnect/reset before headers. reset reason: connection failure",
        "no healthy upstream",
        "net::ERR_NAME_NOT_RESOLVED",
        "page.goto: Timeout 30000ms exceeded.",
        "The server had an error while processing your request. Sorry about that!",
        "Tool server is not responding",
        "EOF occurred in violation of protocol",
        "stream disconnected before completion",
        "DNS lookup failed",
        raised("PlaywrightTimeoutError", "Timeout 30000ms exceeded."),
        raised("ServerSelectionTimeoutError"),
        raised("ClosedResourceError"),
        raised("NoBrokersAvailable"),
    ],
)
def test_outages(error: object) -> None:
    assert code(error=error) == "unavailable"


@pytest.mark.parametrize(
    "error",
    [
        "Missing Authorization header",
        "Bad credentials",
        "invalid_grant",
        "Resource not accessible by integration",
        "Payment Required",
        "You must be logged in",
        "Access denied - path outside allowed directories: /etc/passwd not in /srv",
        "Access to /etc/passwd is not allowed",
        raised("InvalidApiKeyError"),
        raised("MissingAPIKeyError", "The api_key client option must be set"),
        raised("CredentialRetrievalError"),
    ],
)
def test_denials(error: object) -> None:
    assert code(error=error) == "denied"


@pytest.mark.parametrize(
    "error",
    [
        "Parameter 'n' out of range",
        "Too few arguments",
        "expected string, received number",
        "payload too large",
        "max_results must not exceed 10",
        "no value provided for required option 'x'",
        raised("ToolInputValidationException"),
        raised("InvalidToolArgumentsError"),
    ],
)
def test_wrong_arguments(error: object) -> None:
    assert code(error=error) == "invalid_arguments"


@pytest.mark.parametrize(
    "error",
    [
        "Function web_search not found",
        "Method not found",
        "Model tried to call unavailable tool 'web_search'. Available tools: wiki.",
        "'web_search' is not recognized as a tool",
        "MCP error -32601: Method not found",
        KeyError(TOOL),
    ],
)
def test_tools_that_are_not_there(error: object) -> None:
    assert code(error=error) == "unknown_tool"


@pytest.mark.parametrize(
    "error",
    [
        "SyntaxError: invalid syntax",
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        "Command timed out after 2m 0.0s",
        "Command '['sleep', '9']' timed out after 3 seconds",
        "list index out of range",
        KeyError("user_id"),
    ],
)
def test_failures_of_what_a_tool_was_given_to_run_are_not_the_tools(error: object) -> None:
    assert code(error=error, tool="bash") == "error"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("[ERROR] boom", "error"),
        ("❌ Error: boom", "error"),
        (
            "panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:\n" + "x\n" * 400,
            "error",
        ),
        ("Uncaught ReferenceError: x is not defined", "error"),
        ("### Error\nError: Ref e12 not found in the current page snapshot.", "error"),
        ("### Error handling\nEach error has a code.", "ok"),
        ("timeout of 60000ms exceeded", "unavailable"),
        ("Claude Code is unable to fetch from a.example", "error"),
        ("upstream connect error or disconnect/reset before headers", "unavailable"),
        ({"message": "Endpoint request timed out"}, "unavailable"),
        ({"message": "Bad credentials", "documentation_url": "https://docs.example"}, "denied"),
        ({"Message": "User is not authorized to access this resource"}, "denied"),
        (
            {
                "type": "https://a.example/errors/not_found",
                "title": "Not found.",
                "method": "get",
                "detail": "No page.",
            },
            "no_results",
        ),
        ("<html><body>Verifying you are human. This may take a few seconds.</body></html>", "rate_limited"),
        (
            "<html><body><h1>Pardon Our Interruption</h1><p>You were browsing too fast.</p></body></html>",
            "rate_limited",
        ),
        ("Access Denied is an album by Asking Alexandria", "ok"),
        ("Permission denied errors on Linux are commonly fixed by chmod.", "ok"),
        ("Service Unavailable (album) was released in 2004.", "ok"),
        ("Forbidden City is a palace complex in Beijing.", "ok"),
        ("[ERROR] 10:00 boom\n[INFO] 10:01 went on", "ok"),
        ({"message": "Order created"}, "ok"),
        ("Cannot cancel: within 24 hours", "error"),
        ("Line not found", "no_results"),
        ("The lost city was not found until 1911, by Hiram Bingham.", "ok"),
    ],
)
def test_results_that_are_reports_and_others_that_begin_alike(result: object, expected: OutcomeCode) -> None:
    assert code(result) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("too_many_requests", "rate_limited"),
        ("max_uses_exceeded", "rate_limited"),
        ("unavailable", "unavailable"),
        ("query_too_long", "invalid_arguments"),
        ("url_not_allowed", "denied"),
    ],
)
def test_errors_of_the_tools_that_anthropics_servers_run(said: str, expected: OutcomeCode) -> None:
    content = {"type": "web_search_tool_result_error", "error_code": said}
    assert code({"type": "web_search_tool_result", "tool_use_id": "t", "content": content}) == expected


def test_a_program_that_anthropics_servers_ran_has_its_exit() -> None:
    content = {"type": "code_execution_result", "stdout": "", "stderr": "boom", "return_code": 1}
    assert code({"type": "code_execution_tool_result", "content": content}) == "error"
    assert code({"type": "code_execution_tool_result", "content": {**content, "return_code": 0}}) == "ok"


@pytest.mark.parametrize(
    ("said", "expected"),
    [("Rate limit exceeded", "rate_limited"), ("Unknown tool: web_search", "unknown_tool"), ("boom", "error")],
)
def test_an_mcp_result_within_its_reply(said: str, expected: OutcomeCode) -> None:
    result: dict[str, Any] = {"content": [{"type": "text", "text": said}], "isError": True}
    assert code({"jsonrpc": "2.0", "id": 3, "result": result}) == expected


def test_an_mcp_result_that_is_none_of_an_error_is_read_through_its_reply() -> None:
    result = {"content": [{"type": "text", "text": "Paris is the capital."}]}
    seen = ToolObserver().observe(TOOL, params={"query": "x"}, result={"jsonrpc": "2.0", "id": 3, "result": result})
    assert seen.result == "Paris is the capital."
