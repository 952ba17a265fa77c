"""Exceptions by the names of their classes, those of their bases included; no library is imported for it.

The names are those of the standard library, requests, httpx, aiohttp, urllib3, openai, anthropic, botocore, grpc, the
Google clients, the search libraries and MCP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tellback.contracts.guidance import Code
from tellback.guidance.observations.evidence import Evidence, Finding
from tellback.guidance.observations.http import headers_of, seconds_of, status_of
from tellback.guidance.observations.lexicon import lexicon
from tellback.guidance.observations.phrases import NOTHING, RATE
from tellback.guidance.observations.statuses import code_of, wait_of
from tellback.guidance.observations.texts import code_of_error, said_wait
from tellback.guidance.observations.values import attribute, fields_of, is_row, safely, words_of_error

_GRPC: Final[Mapping[str, Code]] = {
    "RESOURCE_EXHAUSTED": "rate_limited",
    "UNAVAILABLE": "unavailable",
    "DEADLINE_EXCEEDED": "unavailable",
    "ABORTED": "unavailable",
    "INTERNAL": "unavailable",
    "INVALID_ARGUMENT": "invalid_arguments",
    "OUT_OF_RANGE": "invalid_arguments",
    "PERMISSION_DENIED": "denied",
    "UNAUTHENTICATED": "denied",
    "NOT_FOUND": "no_results",
}
_RPC_CODES: Final[Mapping[int, Code]] = {
    -32601: "unknown_tool",
    -32602: "invalid_arguments",
    -32600: "invalid_arguments",
    -32700: "invalid_arguments",
    -32001: "unavailable",
    -32000: "unavailable",
}
_ERROR_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,80}(?:error|exception|exceeded|timeout|unavailable|limit)")
_NAME_PARTS: Final[Mapping[Code, re.Pattern[str]]] = {
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
_CHAIN: Final = 5


def by_exception(evidence: Evidence) -> Finding | None:
    """The exception that the host passed, or the one that caused it."""
    if not isinstance(evidence.error, BaseException):
        return None
    for number, error in enumerate(_chain(evidence.error)):
        code = _code(error, evidence.error_text if number == 0 else words_of_error(error))
        if code is not None:
            wait = wait_of(headers_of(error), evidence.now, seconds_of(error) or said_wait(evidence.error_text))
            return Finding(code, evidence.error_text, wait)
    return None


def named(name: str) -> Code | None:
    """What an exception of this class name means, whatever its message: a known name, else what it is made of."""
    plain = name.partition("(")[0].rpartition(".")[2].lower().replace("_", "")
    known = lexicon().exceptions.get(plain)
    if known is not None or not _ERROR_NAME.fullmatch(plain):
        return known
    return next((code for code, parts in _NAME_PARTS.items() if parts.search(plain)), None)


def rpc_code(number: int) -> Code | None:
    """What a JSON-RPC error code means."""
    return _RPC_CODES.get(number)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    waiting: list[BaseException] = [error]
    while waiting and len(seen) < _CHAIN:
        error = waiting.pop(0)
        if any(error is other for other in seen):
            continue
        seen.append(error)
        yield error
        inner = attribute(error, "exceptions")
        waiting += [e for e in (inner if is_row(inner) else ()) if isinstance(e, BaseException)][:_CHAIN]
        if error.__cause__ is not None:
            waiting.append(error.__cause__)


def _code(error: BaseException, text: str) -> Code | None:
    status = status_of(error)
    coded = (None if status is None else code_of(status)) or _grpc(error) or _botocore(error) or _rpc(error, text)
    if coded is not None:
        return coded
    said = text[:500]
    if type(error).__name__ == "DisambiguationError":
        return "partial"
    if NOTHING.search(said) and not RATE.search(said):
        return "no_results"
    for cls in type(error).__mro__:
        code = named(cls.__name__)
        if code is not None:
            return code if code in ("unknown_tool", "error") or not RATE.search(said) else "rate_limited"
    return _by_words(error, text)


def _by_words(error: BaseException, text: str) -> Code | None:
    found = code_of_error(text)
    misled = isinstance(error, OSError) and found in ("no_results", "invalid_arguments")  # the file system's own words
    return None if found == "error" or misled else found


def _grpc(error: BaseException) -> Code | None:
    if not any("RpcError" in cls.__name__ for cls in type(error).__mro__):
        return None
    code = attribute(error, "code")
    status = safely(code, None) if callable(code) else code
    return _GRPC.get(str(attribute(status, "name")))


def _botocore(error: BaseException) -> Code | None:
    code = fields_of(fields_of(attribute(error, "response")).get("Error")).get("Code")
    return named(code) if isinstance(code, str) else None


def _rpc(error: BaseException, text: str) -> Code | None:
    code = attribute(attribute(error, "error"), "code")
    if not isinstance(code, int):
        return None
    found = code_of_error(text)
    return found if found != "error" else rpc_code(code)
