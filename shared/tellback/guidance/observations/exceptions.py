"""Classify exceptions by the names of their classes and bases.

No library is imported for it. The names are those of the standard library, requests, httpx, aiohttp, urllib3, openai,
anthropic, botocore, grpc, the Google clients, search libraries and MCP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.evidence import Evidence, Finding
from tellback.guidance.observations.http import headers_of, http_status_of, retry_after_of
from tellback.guidance.observations.phrases import NO_RESULTS, RATE_LIMITED
from tellback.guidance.observations.statuses import code_for_status, retry_after_from_headers
from tellback.guidance.observations.texts import code_for_error_text, retry_after_in
from tellback.guidance.observations.values import as_mapping, call_safely, error_message, is_sequence, safe_attribute
from tellback.guidance.observations.words import load_lexicon

# JSON-RPC 2.0, and two that MCP's SDKs use: -32000 for a closed connection, -32001 for a request that timed out.
_RPC_CODES: Final[Mapping[int, OutcomeCode]] = {
    -32601: "unknown_tool",
    -32602: "invalid_arguments",
    -32600: "invalid_arguments",
    -32700: "invalid_arguments",
    -32001: "unavailable",
    -32000: "unavailable",
}

# Only a class name with such an ending is searched for parts: other texts stand in the same fields of bodies.
_ERROR_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,80}(?:error|exception|exceeded|timeout|unavailable|limit)")

# Parts of names that `lexicon.toml` does not list, in lower case without underscores. The first match wins, so limits
# come before the general "timeout" and "server error".
_NAME_PARTS: Final[Mapping[OutcomeCode, re.Pattern[str]]] = {
    "rate_limited": re.compile(r"ratelimit|toomanyre|throttl|quotaex|usagelimit|floodwait|floodcontrol"),
    "unknown_tool": re.compile(r"(?:nosuch|unknown|invalid)tool(?:name)?(?:error|exc)|tool(?:does)?not(?:found|exist)"),
    "denied": re.compile(r"apikey|credential|unauthori|notauthori|forbidden|accessdenied|permissiondenied|authenticat"),
    "invalid_arguments": re.compile(
        r"validation(?:error|exc)|invalid(?:tool)?(?:arg|input|param)|(?:bad|invalid)request"
    ),
    "no_results": re.compile(r"noresult|nomatch(?:es)?(?:error|exc|found)"),
    "unavailable": re.compile(
        r"timeout(?:error|exc)|timeout$|unavailable|overload|servererror"
        r"|conn(?:ection)?(?:refused|reset|closed|lost|aborted|failed|error|timeout)"
    ),
}

# Exceptions of a chain or group that are examined; an exception may even be its own cause.
_CHAIN: Final = 5


def classify_exception(evidence: Evidence) -> Finding | None:
    """Classify the exception that the host passed, or else its causes and the members of its group."""
    if not isinstance(evidence.error, BaseException):
        return None
    for number, error in enumerate(_exception_chain(evidence.error)):
        code = _code_for_exception(error, evidence.error_text if number == 0 else error_message(error))
        if code is not None:
            wait = retry_after_from_headers(
                headers_of(error), evidence.now, retry_after_of(error) or retry_after_in(evidence.error_text)
            )
            return Finding(code, evidence.error_text, wait)
    return None


def code_for_exception_name(name: str) -> OutcomeCode | None:
    """Return the code of an exception's class name, from the lexicon or from the parts of the name."""
    plain = name.partition("(")[0].rpartition(".")[2].lower().replace("_", "")
    known = load_lexicon().exceptions.get(plain)
    if known is not None or not _ERROR_NAME.fullmatch(plain):
        return known
    return next((code for code, parts in _NAME_PARTS.items() if parts.search(plain)), None)


def code_for_error_name(name: str) -> OutcomeCode | None:
    """Return the code of what a service calls an error: a name of its own, or that of an exception."""
    plain = name.rstrip(".").replace(" ", "_")
    return code_for_exception_name(plain) or load_lexicon().error_codes.get(plain.lower().replace("_", ""))


def code_for_rpc_error(number: int) -> OutcomeCode | None:
    """Return the outcome code of a JSON-RPC error code, if known."""
    return _RPC_CODES.get(number)


def _exception_chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    waiting: list[BaseException] = [error]
    while waiting and len(seen) < _CHAIN:
        error = waiting.pop(0)
        if any(error is other for other in seen):
            continue
        seen.append(error)
        yield error
        inner = safe_attribute(error, "exceptions")
        waiting += [e for e in (inner if is_sequence(inner) else ()) if isinstance(e, BaseException)][:_CHAIN]
        if error.__cause__ is not None:
            waiting.append(error.__cause__)


def _code_for_exception(error: BaseException, text: str) -> OutcomeCode | None:
    status = http_status_of(error)
    coded = (
        (None if status is None else code_for_status(status))
        or _grpc_code(error)
        or _botocore_code(error)
        or _rpc_error_code(error, text)
    )
    if coded is not None:
        return coded
    said = text[:500]
    if type(error).__name__ == "DisambiguationError":  # the `wikipedia` package: an ambiguous page
        return "partial"
    if NO_RESULTS.search(said) and not RATE_LIMITED.search(said):
        return "no_results"
    # Bases too: libraries and hosts derive their own classes from known ones.
    for cls in type(error).__mro__:
        code = code_for_exception_name(cls.__name__)
        if code is not None:
            return code if code in ("unknown_tool", "error") or not RATE_LIMITED.search(said) else "rate_limited"
    return _code_by_words(error, text)


def _code_by_words(error: BaseException, text: str) -> OutcomeCode | None:
    found = code_for_error_text(text)
    # "No such file" and "Is a directory" are the file system's words, not those of a search or a schema.
    misled = isinstance(error, OSError) and found in ("no_results", "invalid_arguments")
    return None if found == "error" or misled else found


def _grpc_code(error: BaseException) -> OutcomeCode | None:
    if not any("RpcError" in cls.__name__ for cls in type(error).__mro__):
        return None
    code = safe_attribute(error, "code")
    status = call_safely(code, None) if callable(code) else code
    return code_for_error_name(str(safe_attribute(status, "name")))


def _botocore_code(error: BaseException) -> OutcomeCode | None:
    code = as_mapping(as_mapping(safe_attribute(error, "response")).get("Error")).get("Code")
    return code_for_exception_name(code) if isinstance(code, str) else None


def _rpc_error_code(error: BaseException, text: str) -> OutcomeCode | None:
    code = safe_attribute(safe_attribute(error, "error"), "code")
    if not isinstance(code, int):
        return None
    found = code_for_error_text(text)
    return found if found != "error" else code_for_rpc_error(code)
