"""What plain text says of a failure, a limit or an empty search.

Two questions are asked. Of a text that reports a failure: which one (`code_of_error`). Of a text that may be anything:
whether it is such a report at all (`report_in`). The second is strict, since a page about rate limits, a log that
mentions a captcha or an article that begins with "Error correction" are good results.
"""

from __future__ import annotations

import re
from typing import Final

from tellback.contracts.guidance import Code
from tellback.guidance.observations.pages import PAGE, visible_text
from tellback.guidance.observations.phrases import (
    ANYTHING,
    DENIED,
    INVALID,
    NOT_THERE,
    NOTHING,
    RATE,
    UNAVAILABLE,
    UNKNOWN,
    said_elsewhere,
)
from tellback.guidance.observations.statuses import code_of
from tellback.guidance.observations.values import TEXT_MAX

_SHORT: Final = 400  # characters of a text that may be nothing but a report
_SHORTEST: Final = 160  # the same of one that has but to contain what such a report says
_UNKNOWN_NAMED: Final = r"(?:unknown|no such|unrecogni[sz]ed|undefined|invalid) (?:action|function|method|command)\b"
_MISSING: Final = r"(?:was |is )?(?:not (?:found|available|registered|known)|does(?: not|n't) exist|unknown)\b"
_IS_NOTHING: Final = re.compile(
    rf"^\W*(?:(?:(?:i'?m |we'?re |i am |we are )?sorry|oops|unfortunately|result|results|exception|error|note"
    rf"|info)\W+)*"
    rf"(?:(?:i|we|there|it|the (?:search|query|tool)|your (?:search|query))\s.{{0,80}}?)?"
    rf"(?:no (?:\w+ ){{0,4}}?{ANYTHING}\b(?:\W*$| found| were| was| available| match| returned| for\b| in\b)"
    rf"|none found|"
    rf"nothing (?:was |has )?(?:found|matche[ds])|"
    rf"(?:the )?(?:page|article|entry|topic|document) .{{1,100}}(?:does not exist|doesn't exist|not (?:be )?found)\W*$|"
    rf"(?:found|returned) (?:no|0|zero) {ANYTHING}|0 (?:results|matches|hits)|not? found\W*$|"
    rf"(?:\w+ ){{1,5}}(?:was |were |is |could )?not (?:be )?found\W*$|page id .{{1,120}} does not match|"
    rf"empty (?:result|response)(?:s| set)?\W*$|(?:0|no|zero) rows\b|"
    rf"(?:the )?(?:search|query|lookup|it) (?:has )?(?:returned|yielded|found|gave) (?:no|0|zero) |"
    rf"no (?:such )?(?:\w+ ){{1,3}}?(?:were |was |could be )?(?:found|exists?)"
    rf"(?:\W*$| (?:with|for|matching|that match|named|containing|under|on|in)\b)|"
    rf"(?:could|can|did)(?: ?not|n't) find any|(?:did|does) not match any|no good \w* ?\w* ?results?)",
    re.IGNORECASE,
)
_SAYS_ERROR: Final = re.compile(
    r"\s*(?:<\w+>\s*)?(?:[\[(*`\u274c\u2716\u2717\u26a0\ufe0f\U0001f6ab]*\s?)(?:(?:tool|execution|internal|fatal|api|runtime|http|command|system|unexpected"
    r"|an?|the)\s+)*"
    r"(?:[A-Za-z_][\w.]{0,100})?(?:error|exception|failure|timeout|warning|exit|iterat\w+|interrupt|failed)\b"
    r"(?:\s+(?:code|message|occurred|executing|calling|running|fetching|in|while|during|when|with"
    r"|at)\b[^:\n]{0,120})?"
    r"[\])*`]*\s*(?:\([^)\n]{0,60}\))?\s*:(?!//)\s*\S",
    re.IGNORECASE,
)
_WARNS: Final = re.compile(r"\W*\w*(?:warning|exit)\b", re.IGNORECASE)
_MARKED: Final = re.compile(r"\s*<(?:tool_use_|tool_)?error>", re.IGNORECASE)
_TRACE: Final = re.compile(
    r"\s*(?:(?:Error\S*\s+)?Traceback \(most recent call last\)|panic: .{1,300}\s+goroutine \d"
    r"|uncaught \w*(?:error|exception)\b)",
    re.IGNORECASE,
)
_LAST: Final = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Warning|Timeout|Exit|\w+))(?::\s*(.*))?$", re.DOTALL)
# What is a title or the subject of a sentence goes on otherwise.
_ENDS: Final = (
    r"(?:\W*$|[.:;,!]|\s[-\u2013\u2014]|\s(?:to|for|by|on|from|at|when|while|because|due|please|you|your|error)\b)"
)
_SAYS_FAILED: Final = re.compile(
    r"\s*(?:the user (?:doesn't|does not|did not|has|denied|rejected|declined)\b.{0,40}(?:proceed|denied"
    r"|rejected|declined|tool)|"
    r"(?:g?make|ninja)(?:\[\d+\])?: \*\*\* .{1,200}\.?\s*$|"
    r"(?:connect )?e(?:connrefused|connreset|connaborted|timedout|notfound|ai_again|hostunreach|pipe)\b"
    r"(?! (?:is|are|was|means?|errors?|codes?)\b)|"
    r"[\[(](?:error|fatal|exception)[\])] [^\n]+\s*$|"
    r"permission to use .{1,80} (?:has been |was )?denied|your request (?:was|has been) (?:blocked|denied"
    r"|rejected)|fatal: |"
    r"[\w./-]{1,80}: .{1,200}\b(?:no such file or directory|permission denied|command not found)\s*$|"
    r"(?:[a-z_][\w.]{0,80})?(?:error|exception)\W*$|"
    r"an? (?:\w+ )?error (?:has )?occurred|(?:the )?(?:tool"
    r"|request|call|command|operation|search|query"
    r"|fetch|execution) "
    r"(?:has )?(?:failed|errored|timed out|was (?:denied|rejected|blocked))|(?:failed|unable) to \w+|cannot (?!be\b)\w+"
    r"|(?:could not|couldn't) "
    r"(?:connect|fetch|reach|load|open|execute|complete|process|resolve)"
    r"|connection (?:refused|reset|"
    r"timed out|error)|(?:the )?(?:service|server|site|system) (?:is )?(?:temporarily "
    r"|currently )*(?:overloaded|down|unavailable\W*$)|upstream connect error|no healthy upstream"
    r"|bad gateway|gateway time-?out|internal server error|(?:request )?timed out"
    r"|unknown (?:tool|action|function)|no such tool|(?:tool|function) \S{1,100} (?:not found|does not exist"
    r"|is not)|bad credentials|"
    rf"(?:permission denied|access denied|(?:service )?(?:temporarily )?unavailable|unauthori[sz]ed|forbidden){_ENDS})",
    re.IGNORECASE,
)
_SAYS_RATE: Final = re.compile(
    r"\W*(?:(?:error|warning|sorry|oops|request (?:failed|denied|blocked))\W+)*(?:(?:api|request|search|http|the"
    r"|github|your)\s+)*"
    r"(?:rate[ -]?limit(?:ed)?\b(?:\s+(?:was |is |has been )?(?:exceeded|reached|hit|error)|\W*$|[.:,;!]| (?:for"
    r"|please|try|retry|on) )"
    r"|too many (?:requests|calls|queries)\b|you(?:'re| are| have been) (?:being |temporarily "
    r"|currently )*(?:rate[ -]?limited|throttled)"
    r"|(?:you(?:'ve| have)? )?(?:exceeded|reached|hit) (?:your|the|our) .{0,40}(?:limit|quota)|(?:quota"
    r"|request limit) "
    r"(?:has been )?(?:exceeded|reached)|throttled\b|throttling\w*exception|slow down[.!]?\s*$|please slow down)",
    re.IGNORECASE,
)
_PHRASES: Final = (
    r"too many requests|service (?:temporarily )?unavailable|bad gateway|gateway time-?out|not found|forbidden"
    r"|unauthori[sz]ed|"
    r"bad request|internal server error|unprocessable|request time-?out|payment required|method not allowed"
    r"|conflict|gone|"
    r"client error|server error|backend fetch failed|origin|(?:temporarily )?unavailable|overloaded|time-?out"
)
_STATUS: Final = re.compile(
    rf"(?:\bhttp(?:/[\d.]+)?(?:[ _-]?(?:error|status))?(?:[ _-]?code)?|\bstatus(?:[ _-]?code)?|\berror[ _-]?code"
    rf"|\bresponse code|\bresponded with)"
    rf"\s*(?:is|of|was)?\s*[:=]?\s*[\[(]?([1-5]\d\d)\b(?![.,]?\d)|\b([45]\d\d)[:,]?\s+(?:{_PHRASES})\b"
    rf"|[\[(]([45]\d\d)[\])]"
    rf"|\b(?:got|received|returned) (?:an? )?([45]\d\d)(?=\W*$|\W+(?:from|for|response|status|errors?|on|when|by)\b)"
    rf"|^\W*(?:\w*error\W+)?([45]\d\d)\W*$|^\W*\w*error\W+([45]\d\d)\s*[-:(]",
    re.IGNORECASE,
)
_WAIT: Final = re.compile(
    r"(?:retry|try again|wait|available again|resets?|retry[- _]?after|retry[- _]?delay"
    r"|back)\b\D{0,24}?(\d{1,7}(?:\.\d{1,6})?)\s*"
    r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)?\b(?![-:/])",
    re.IGNORECASE,
)
_UNITS: Final = {"ms": 0.001, "mi": 60.0, "m": 60.0, "h": 3600.0}
_STOPPED: Final = re.compile(
    r"\W*(?:(?:subprocess\.)?TimeoutExpired\b|(?:\w*error\W+)?(?:the )?(?:shell )?(?:command|process|program|script)\b"
    r".{0,300}? timed[ -]?out\b)",
    re.IGNORECASE | re.DOTALL,
)
_EXITED: Final = re.compile(
    r"\s*(?:\w*error\W+)?[\[(]?(?:(?:the )?(?:process|command|program|script)\b.{0,200}? "
    r"(?:exited|failed|finished|ended|terminated|returned) (?:with )?(?:a )?(?:non-?zero )?(?:exit |return )?"
    r"(?:code|status)|exit(?:ed)?[ _-]?(?:with )?(?:code|status)|return[ _-]?code(?!\W{0,3}\d{4}))"
    r"\W{0,3}(?!0\b)-?\d{1,10}\b(?! (?:means?|is|was|indicates?|stands|for|of|tells?|says?)\b)",
    re.IGNORECASE,
)


def status_in(text: str) -> int | None:
    """The HTTP status that a message names; numbers that are something else are none."""
    match = _STATUS.search(text[:TEXT_MAX])
    number = None if match is None else next((int(group) for group in match.groups() if group), None)
    return number if number is not None and number >= 400 else None


def said_wait(text: str) -> float | None:
    """Seconds that a message asks to wait."""
    match = _WAIT.search(text[:TEXT_MAX])
    if match is None:
        return None
    unit = (match.group(2) or "s").lower()
    return float(match.group(1)) * _UNITS.get(unit[:2], _UNITS.get(unit[:1], 1.0))


def code_of_error(text: str, tool: str = "") -> Code:
    """What a message that reports a failure reports."""
    message = text[:TEXT_MAX]
    if _EXITED.match(message) or _STOPPED.match(message[:_SHORT]):
        return "error"  # what a program prints, or how long it takes, is not what became of the tool that ran it
    if RATE.search(message):
        return "rate_limited"
    if _unknown(message, tool):
        return "unknown_tool"
    status = status_in(message)
    code = None if status is None else code_of(status)
    if code is not None:
        return code
    for pattern, found in _IN_ORDER:
        if pattern.search(message):
            return found
    return said_elsewhere(message) or "error"


_IN_ORDER: Final[tuple[tuple[re.Pattern[str], Code], ...]] = (
    (DENIED, "denied"),
    (NOTHING, "no_results"),
    (INVALID, "invalid_arguments"),
    (UNAVAILABLE, "unavailable"),
)


def _unknown(message: str, tool: str) -> bool:
    if UNKNOWN.search(message):
        return True
    if not tool or tool not in message[:300]:
        return False
    name = re.escape(tool)
    said = rf"{_UNKNOWN_NAMED}.{{0,20}}{name}|(?:function|action|method|command) \W?{name}\W? {_MISSING}"
    return re.search(said, message[:400], re.IGNORECASE) is not None


def misses_tool(message: str, tool: str) -> bool:
    """Whether a message says of this very tool that it is not there."""
    if not tool or tool not in message[:300]:
        return False
    return only_names(message, tool) or NOT_THERE.search(message[:400]) is not None


def only_names(message: str, tool: str) -> bool:
    """Whether a message is but this tool's name, as that of the KeyError of `tools[name]` is."""
    error, colon, rest = message[:400].strip().rpartition(": ")
    return bool(colon) and error.endswith("KeyError") and rest.strip("'\"`") == tool


def report_in(text: str, tool: str = "") -> Code | None:
    """The failure or emptiness that a text reports, if it is nothing but such a report; None for any other text."""
    page = re.match(r"\s*<(?:!doctype|html|head|body|title|h1)\b", text[:200], re.IGNORECASE) is not None
    visible = visible_text(text[:20_000]) if page else text
    head = visible[:TEXT_MAX]
    if page and len(visible) > PAGE:
        return None
    if any(form.match(head) for form in (_TRACE, _MARKED, _EXITED)) or (
        _SAYS_ERROR.match(head[:600]) and not _WARNS.match(head[:60])
    ):
        return code_of_error(head, tool)
    return _of_short(head, tool) if len(visible.strip()) <= _SHORT else None


def _of_short(head: str, tool: str) -> Code | None:
    if _SAYS_RATE.match(head):
        return "rate_limited"
    if _IS_NOTHING.match(head):
        return "no_results"
    if _SAYS_FAILED.match(head) or _begins_with_status(head):
        return code_of_error(head, tool)
    return said_elsewhere(head) if len(head) <= _SHORTEST else None


def _begins_with_status(head: str) -> bool:
    """Whether it opens with a status, and is neither a bare number nor a sentence about one."""
    start = head[:120].lstrip(" \t\n\"'<*")
    match = _STATUS.match(start)
    if match is None or start.strip(" .").isdigit() or status_in(start) is None:
        return False
    return re.match(r"\s*(?:is|are|was|means?|status|response|errors?|codes?)\b", start[match.end() :]) is None


def last_error(text: str) -> tuple[str, str] | None:
    """The exception's name and message at the end of a traceback."""
    if "Traceback (most recent call last)" not in text:
        return None
    lines = [
        line for line in text.rstrip()[-TEXT_MAX:].splitlines() if line.strip() and not line.startswith((" ", "\t"))
    ]
    match = _LAST.match(lines[-1].strip()) if lines else None
    return None if match is None else (match.group(1).rpartition(".")[2], (match.group(2) or "").strip())
