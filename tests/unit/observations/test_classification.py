"""Raw results and errors of any library fall into the outcomes that guidance knows. Requirement G-54."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import urllib.error
from datetime import UTC, datetime
from email.message import Message
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tellback import Evidence, Finding, InvalidInput
from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.observer import ToolObserver
from tests.support.tool_results import code as observed_code

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


code = partial(observed_code, now=NOW)


def wait(result: object = None, error: object = None, **more: Any) -> float | None:
    seen = ToolObserver().observe("t", params={"query": "x"}, result=result, error=error, now=NOW, **more)
    assert seen.envelope is not None
    return seen.envelope.retry_after


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, "ok"),
        (201, "ok"),
        (202, "rate_limited"),
        (400, "invalid_arguments"),
        (401, "denied"),
        (403, "denied"),
        (404, "no_results"),
        (408, "unavailable"),
        (409, "error"),
        (422, "invalid_arguments"),
        (429, "rate_limited"),
        (451, "denied"),
        (500, "unavailable"),
        (501, "error"),
        (502, "unavailable"),
        (503, "unavailable"),
        (504, "unavailable"),
        (529, "unavailable"),
    ],
)
def test_http_statuses(status: int, expected: OutcomeCode) -> None:
    assert code("a body of some words", http_status=status) == expected
    assert code("a body of some words", metadata={"http_status": status}) == expected


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            {"status": 422, "body": {"detail": [{"loc": ["body", "currency"], "msg": "field required"}]}},
            "invalid_arguments",
        ),
        ({"status_code": 500, "text": "oops", "headers": {}}, "unavailable"),
        ({"statusCode": 403, "body": "no", "url": "https://a.example"}, "denied"),
        ({"status": 200, "body": {"error_rate": 0.4}}, "ok"),
        ({"status": "404", "body": "a text"}, "ok"),
        ({"status": 440, "body": "a mass in kg", "planet": "Io"}, "ok"),
    ],
)
def test_the_record_of_a_response_is_named_by_its_status(record: dict[str, object], expected: OutcomeCode) -> None:
    assert code(record) == expected
    assert code(json.dumps(record)) == expected


@pytest.mark.parametrize("body", ["", "[]", {"results": []}, "<html></html>", "Please wait", None])
def test_a_202_is_a_rate_limit_and_never_no_results(body: object) -> None:
    assert code(body, http_status=202) == "rate_limited"


def test_a_202_with_content_is_an_accepted_job() -> None:
    assert code({"id": "job-1", "state": "queued"}, http_status=202) == "ok"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "30"}, 30.0),
        ({"retry-after": " 1.2 "}, 2.0),
        ({b"Retry-After": b"7"}, 7.0),
        ({"Retry-After": "Thu, 01 Jan 2026 12:01:30 GMT"}, 90.0),
        ({"Retry-After": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"Retry-After": "Thu, 01 Jan 2026 12:01:30 GMT", "Date": "Thu, 01 Jan 2026 12:01:00 GMT"}, 30.0),
        ({"Retry-After": "-5"}, 0.0),
        ({"Retry-After": "999999999"}, 86_400.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": ""}, None),
        ({"retry-after-ms": "1500"}, 2.0),
        ({"X-RateLimit-Reset": str(int(NOW.timestamp()) + 45)}, 45.0),
        ({"x-ratelimit-reset-after": "12"}, 12.0),
        ({}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_seconds_or_a_date(status: int, headers: dict[Any, Any], seconds: float | None) -> None:
    assert wait("", http_status=status, headers=headers) == seconds


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        ("Rate limit exceeded. Try again in 20s.", 20.0),
        ("429 Too Many Requests: retry after 2 minutes", 120.0),
        ("Rate limited: retry after 250 milliseconds", 0.25),
        ("Rate limit reached. Please try again in 250ms", 0.25),
        ({"error": {"code": 429, "message": "slow down"}, "retry_after": 3}, 3.0),
        ("Too many requests", None),
    ],
)
def test_a_message_may_say_how_long_to_wait(error: object, seconds: float | None) -> None:
    assert wait(error=error) == seconds


def _named(name: str, *bases: type[Exception], **attributes: Any) -> Exception:
    made: Exception = type(name, bases or (Exception,), {})("it went wrong")
    for key, value in attributes.items():
        setattr(made, key, value)
    return made


def _response(status: int, **headers: str) -> SimpleNamespace:
    return SimpleNamespace(status_code=status, headers={k.replace("_", "-"): v for k, v in headers.items()}, text="")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError("slow"), "unavailable"),
        (asyncio.CancelledError(), "error"),
        (ConnectionRefusedError(111, "Connection refused"), "unavailable"),
        (ConnectionResetError("reset"), "unavailable"),
        (BrokenPipeError("pipe"), "unavailable"),
        (socket.gaierror(-2, "Name or service not known"), "unavailable"),
        (subprocess.TimeoutExpired("cmd", 3), "error"),  # the command was slow; the tool that ran it is there
        (urllib.error.URLError("no route to host"), "unavailable"),
        (urllib.error.HTTPError("http://x", 429, "Too Many Requests", Message(), None), "rate_limited"),
        (urllib.error.HTTPError("http://x", 404, "Not Found", Message(), None), "no_results"),
        (PermissionError(13, "Permission denied"), "denied"),
        (FileNotFoundError(2, "No such file or directory", "/x"), "error"),
        (IsADirectoryError(21, "Is a directory"), "error"),
        (KeyError("user_id"), "error"),
        (ValueError("that is no number"), "error"),
        (ZeroDivisionError("division by zero"), "error"),
        (TypeError("f() missing 1 required positional argument: 'query'"), "invalid_arguments"),
        (TypeError("f() got an unexpected keyword argument 'q'"), "invalid_arguments"),
        (TypeError("unsupported operand type(s) for +: 'int' and 'str'"), "error"),
        (_named("RateLimitError"), "rate_limited"),  # openai, anthropic
        (_named("RatelimitException"), "rate_limited"),  # duckduckgo_search
        (_named("TooManyRequests"), "rate_limited"),
        (_named("ResourceExhausted"), "rate_limited"),  # google
        (_named("OverloadedError"), "unavailable"),
        (_named("APIConnectionError"), "unavailable"),
        (_named("APITimeoutError", _named("APIConnectionError").__class__), "unavailable"),
        (_named("InternalServerError"), "unavailable"),
        (_named("ConnectTimeout"), "unavailable"),  # requests, httpx
        (_named("ReadTimeout"), "unavailable"),
        (_named("RemoteProtocolError"), "unavailable"),
        (_named("ServerDisconnectedError"), "unavailable"),  # aiohttp
        (_named("EndpointConnectionError"), "unavailable"),  # botocore
        (_named("AuthenticationError"), "denied"),
        (_named("PermissionDeniedError"), "denied"),
        (_named("BadRequestError"), "invalid_arguments"),
        (_named("UnprocessableEntityError"), "invalid_arguments"),
        (_named("ValidationError"), "invalid_arguments"),
        (_named("PageError"), "no_results"),  # wikipedia
        (_named("DisambiguationError"), "partial"),
        (ValueError("No results found for 'x'"), "no_results"),  # its words say more than its class
        (_named("NotOurs", _named("RateLimitError").__class__), "rate_limited"),
        (_named("HTTPStatusError", response=_response(503)), "unavailable"),  # httpx
        (_named("HTTPError", response=_response(403)), "denied"),  # requests
        (_named("HTTPError", response=_response(403, x_ratelimit_remaining="0")), "rate_limited"),  # github
        (_named("ClientResponseError", status=429), "rate_limited"),  # aiohttp
        (_named("APIStatusError", status_code=529), "unavailable"),
        (_named("ClientError", response={"Error": {"Code": "ThrottlingException"}}), "rate_limited"),  # botocore
        (_named("ClientError", response={"Error": {"Code": "AccessDenied"}}), "denied"),
        (
            _named("ClientError", response={"Error": {"Code": "X"}, "ResponseMetadata": {"HTTPStatusCode": 503}}),
            "unavailable",
        ),
        (_named("RpcError", code=lambda: SimpleNamespace(name="RESOURCE_EXHAUSTED")), "rate_limited"),  # grpc
        (
            _named("AioRpcError", _named("RpcError").__class__, code=lambda: SimpleNamespace(name="UNAVAILABLE")),
            "unavailable",
        ),
        (_named("McpError", error=SimpleNamespace(code=-32602, message="bad")), "invalid_arguments"),
        (_named("McpError", error=SimpleNamespace(code=-32601, message="no")), "unknown_tool"),
    ],
)
def test_exceptions_by_the_names_of_their_classes(error: BaseException, expected: OutcomeCode) -> None:
    assert code(error=error) == expected


def test_the_cause_of_an_exception_counts_where_it_says_nothing_itself() -> None:
    outer = RuntimeError("tool failed")
    outer.__cause__ = _named("RateLimitError")
    assert code(error=outer) == "rate_limited"
    assert code(error=ExceptionGroup("several", [_named("APITimeoutError")])) == "unavailable"
    loop = RuntimeError("loop")
    loop.__cause__ = loop
    assert code(error=loop) == "error"


def test_an_exceptions_response_says_how_long_to_wait() -> None:
    assert wait(error=_named("HTTPStatusError", response=_response(429, retry_after="17"))) == 17.0
    assert wait(error=_named("RetryError", retry_after=4, status_code=429)) == 4.0


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"content": [{"type": "text", "text": "Rate limit exceeded"}], "isError": True}, "rate_limited"),
        ({"content": [{"type": "text", "text": "Unknown tool: wikipedia"}], "isError": True}, "unknown_tool"),
        ({"content": [{"type": "text", "text": "something broke"}], "isError": True}, "error"),
        ({"content": [{"type": "text", "text": "Ruby was made by Matz"}], "isError": False}, "ok"),
        ({"content": [], "isError": False}, "no_results"),
        ({"content": [], "isError": True}, "error"),
        (
            {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "Connection timed out"},
            "unavailable",
        ),
        (
            {"type": "tool_result", "is_error": True, "content": [{"type": "text", "text": "ValueError: no"}]},
            "error",
        ),
        ({"type": "tool_result", "tool_use_id": "t1", "content": "all is well here"}, "ok"),
        ({"role": "tool", "tool_call_id": "c", "content": "Error: user not found"}, "error"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "unavailable"),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "no"}}, "rate_limited"),
        ({"error": {"type": "invalid_request_error", "code": None, "message": "bad"}}, "invalid_arguments"),
        ({"error": {"type": "requests", "code": "rate_limit_exceeded", "message": "Rate limit"}}, "rate_limited"),
        ({"error": {"type": "server_error", "message": "oops"}}, "unavailable"),
        ({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}}, "rate_limited"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Invalid params"}}, "invalid_arguments"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}}, "unknown_tool"),
        ({"error": "user not found"}, "error"),
        ({"error": "Too many requests"}, "rate_limited"),
        ({"detail": "Not authenticated"}, "denied"),
        ({"detail": [{"loc": ["query"], "msg": "field required", "type": "missing"}]}, "invalid_arguments"),
        ({"success": False, "message": "no such order"}, "error"),
        ({"status": "error", "message": "database is down"}, "error"),
        ({"statusCode": 503, "message": "maintenance"}, "unavailable"),
        ({"title": "Forbidden", "status": 403, "detail": "no"}, "denied"),
        ({"errors": [{"message": "Cannot query field"}]}, "error"),
        ({"data": {"user": {"name": "x"}}, "errors": [{"message": "one field failed"}]}, "partial"),
    ],
)
def test_the_forms_of_protocols_and_providers(result: dict[str, Any], expected: OutcomeCode) -> None:
    assert code(result) == expected
    assert code(json.dumps(result)) == code(result)


def test_an_object_with_is_error_is_read_as_mcp_has_it() -> None:
    failed = SimpleNamespace(isError=True, content=[SimpleNamespace(type="text", text="503 Service Unavailable")])
    assert code(failed) == "unavailable"
    fine = SimpleNamespace(isError=False, content=[SimpleNamespace(type="text", text="Ruby was made by Matz")])
    seen = ToolObserver().observe("wiki", params={"query": "x"}, result=fine)
    assert "Ruby was made by Matz" in seen.to_observation()


def test_a_response_object_as_the_result() -> None:
    limited = SimpleNamespace(status_code=429, headers={"Retry-After": "9"}, text="slow down")
    assert code(limited) == "rate_limited"
    assert wait(limited) == 9.0
    fine = SimpleNamespace(status_code=200, headers={}, text='[{"title": "a", "text": "b"}]')
    assert code(fine) == "ok"


def test_an_error_without_words_is_none_and_a_flag_is_one() -> None:
    assert code("all is fine here", error="") == "ok"
    assert code("all is fine here", error=False) == "ok"
    assert code("it went wrong", error=True) == "error"
    assert code("rate limit exceeded", error=True) == "rate_limited"


def test_the_hosts_word_counts() -> None:
    assert code("all fine", status="error") == "error"
    assert code("all fine", status="denied") == "denied"
    assert code("some of it", status="partial") == "partial"
    assert code("all fine", status="success") == "ok"


def test_a_classifier_of_ones_own_comes_first_and_may_break() -> None:
    def mine(evidence: Evidence) -> Finding | None:
        return Finding("rate_limited", "busy", retry_after=5.0) if "BUSY" in evidence.text else None

    def broken(_evidence: Evidence) -> Finding | None:
        raise RuntimeError

    def nonsense(_evidence: Evidence) -> Any:
        return 3

    def by_code(evidence: Evidence) -> OutcomeCode | None:
        return "denied" if "NOPE" in evidence.text else None

    observer = ToolObserver(classifiers=[broken, nonsense, mine, by_code])
    for text, expected in (("BUSY", "rate_limited"), ("NOPE", "denied"), ("a good long text", "ok")):
        seen = observer.observe("t", result=text)
        assert seen.envelope is not None
        assert seen.envelope.code == expected


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (3, "int"),
        ("nonsense", "str"),
        (Finding(cast("Any", "nonsense")), "Finding"),
        (Finding(cast("Any", [])), "Finding"),
    ],
)
def test_an_answer_that_is_no_finding_is_logged(answer: Any, said: str, caplog: pytest.LogCaptureFixture) -> None:
    """The call counted as a success, and nobody learned that the classifier is wrong."""
    observer = ToolObserver(classifiers=[lambda _evidence: answer, lambda _evidence: None])
    with caplog.at_level(logging.WARNING, "tellback.guidance"):
        seen = observer.observe("t", result="a good long text")
    assert seen.envelope is not None
    assert seen.envelope.code == "ok"
    assert caplog.text.count("classifier.failed") == 1
    assert f"returned {said}; use one of the codes, a Finding of one, or None" in caplog.text


def test_the_text_of_a_classifiers_error_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It may quote what the classifier saw. That of an `InvalidInput` was taken for ours, and logged whole."""

    def failing(evidence: object) -> None:
        raise InvalidInput(f"no idea what {evidence} is, seen with hunter2-the-password")

    with caplog.at_level(logging.WARNING, "tellback.guidance"):
        ToolObserver(classifiers=[failing]).observe("t", result="x")
    assert "hunter2" not in caplog.text
    assert "reason='InvalidInput'" in caplog.text


def test_a_tool_that_was_not_declared_and_is_not_there_is_unknown() -> None:
    observer = ToolObserver(tools=["wikipedia"])
    seen = observer.observe("wikipedja", params={"query": "x"}, error="wikipedja does not exist")
    assert seen.envelope is not None
    assert seen.envelope.code == "unknown_tool"


def test_a_spent_quota_is_not_worth_waiting_for() -> None:
    error = {
        "error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your quota"}
    }
    seen = ToolObserver(tools=["chat"]).observe("chat", params={"query": "x"}, error=error)
    assert seen.envelope is not None
    assert (seen.envelope.code, seen.envelope.retryable) == ("rate_limited", False)
    assert "retry" not in seen.to_observation()
