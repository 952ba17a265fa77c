"""Classify plain text that reports a failure, a limit or an empty search.

There are two questions. `code_for_error_text` asks of a text known to report a failure: which one? `code_for_report`
asks of any text: is it such a report at all? The second is strict, because a page about rate limits, a log that
mentions a captcha, and an article that begins with "Error correction" are good results. The exclusions below have
examples in tests/unit/observations (test_classified_texts, test_reports, test_programs). Gaps in the patterns are
bounded, so a hostile text cannot make a search slow.
"""

from __future__ import annotations

import re
from typing import Final

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.phrases import (
    ANY_FAILURE,
    DENIED,
    INVALID_ARGUMENTS,
    NO_RESULTS,
    NOT_FOUND,
    PAGE_START,
    RATE_LIMITED,
    UNAVAILABLE,
    UNKNOWN_TOOL,
    code_in_other_language,
    visible_text,
)
from tellback.guidance.observations.statuses import code_for_status
from tellback.guidance.observations.values import TEXT_MAX

# Characters of a text that may be nothing but a report; articles are longer.
_SHORT: Final = 400
# The same for other languages, whose phrases need not begin the text: an article about a film named "Zugriff
# verweigert" is longer.
_SHORTEST: Final = 160
# "function", "action" and "command" are everyday words, so they count only beside the called tool's own name.
_UNKNOWN_NAMED: Final = r"(?:unknown|no such|unrecogni[sz]ed|undefined|invalid) (?:action|function|method|command)\b"
_MISSING: Final = r"(?:was |is )?(?:not (?:found|available|registered|known)|does(?: not|n't) exist|unknown)\b"
# From the text's beginning: a subject, then "not found" or a similar phrase, which ends the sentence or says what was
# sought. "No Results is an album by ..." and "The lost city was not found until 1911" continue differently.
_IS_NOTHING: Final = re.compile(
    rf"^\W*(?:web search results for query: \"[^\"\n]{{1,200}}\"\W+)?"
    rf"(?:(?:(?:i'?m |we'?re |i am |we are )?sorry|oops|unfortunately|result|results|exception|error|note"
    rf"|info)\W+)*(?:(?:i|we|there|it|the (?:search|query|tool)"
    rf"|your (?:search|query))\s.{{0,80}}?)?(?:no (?:\w+ ){{0,4}}?{ANY_FAILURE}\b(?:\W*$| found| were| was| available"
    rf"| match| returned| for\b| in\b)|none found|nothing (?:was |has )?(?:found|matche[ds])|(?:the )?(?:page|article"
    rf"|entry|topic|document) .{{1,100}}(?:does not exist|doesn't exist|not (?:be )?found)\W*$"
    rf"|(?:found|returned) (?:no|0|zero) {ANY_FAILURE}|0 (?:results|matches|hits)|not? found\W*$"
    rf"|(?:\w+ ){{1,5}}(?:was |were |is |could )?not (?:be )?found\W*$|page id .{{1,120}} does not match"
    rf"|empty (?:result|response)(?:s| set)?\W*$|(?:0|no|zero) rows\b"
    rf"|(?:the )?(?:search|query|lookup|it) (?:has )?(?:returned|yielded|found|gave) (?:no|0|zero) "
    rf"|no (?:such )?(?:\w+ ){{1,3}}?(?:were |was |could be )?(?:found|exists?)(?:\W*$"
    rf"| (?:with|for|matching|that match|named|containing|under|on|in)\b)|(?:could|can|did)(?: ?not|n't) find any"
    rf"|(?:did|does) not match any|no good \w* ?\w* ?results?)",
    re.IGNORECASE,
)
# "Error:", "ValueError:", "[ERROR]:", "Error executing tool x:", with a cross or a warning sign before it. The colon is
# required, as "Error correction codes are ..." begins an article; `(?!//)` keeps out URLs.
_SAYS_ERROR: Final = re.compile(
    # "error: none" reports that there is none; "KeyError: 0" is one.
    r"(?!an error occurred \(DryRun)"  # AWS, of a call that would have succeeded
    r"(?!\s*(?:error|exception|failure)\s*:\s*(?:none|null|nil|false|0|n/a)(?:,|[^\w\n]*(?:\n|\Z)))\s*(?:<\w+>\s*"
    r"|#{1,3} (?:Result|\w{1,40} response)\s+)?(?:[\[(*`\u274c\u2716\u2717\u26a0\ufe0f\U0001f6ab]*\s?)(?:(?:tool"
    r"|execution|internal|fatal|api|runtime|http|command|system|unexpected|database|sql|query|parse|server|validation"
    r"|an?|the|mcp)\s+)*(?:[A-Za-z_][\w.]{0,100})?(?:error|exception|failure|timeout|warning|exit|iterat\w+|interrupt"
    r"|failed)\b(?:\s+(?:code|message|occurred|executing|calling|running|fetching|invoking|clicking|typing|navigating"
    r"|capturing|selecting|filling|creating|updating|deleting|sending|from|in|while|during|when|with"
    r"|at)\b[^:\n]{0,120})?(?:\s-\d{5})?[\])*`]*\s*(?:\([^)\n]{0,60}\))?\s*:(?!//)\s*\S",
    re.IGNORECASE,
)
# A warning comes beside a good result ("Warning: 3 tests were skipped"), and `_EXITED` judges exit codes.
_WARNS: Final = re.compile(r"\W*\w*(?:warning|exit)\b", re.IGNORECASE)
# The tags in which Claude Code wraps errors of its tools, and the heading of Playwright's MCP server.
_MARKED: Final = re.compile(r"\s*(?:<(?:tool_use_|tool_)?error>|### Error\s*\n)", re.IGNORECASE)
# Python, Go and JavaScript.
_TRACE: Final = re.compile(
    r"\s*(?:(?:Error\S*\s+|-{20,200}\s+\w{1,80}\s+)?Traceback \(most recent call last\)|panic: .{1,300}\s+goroutine \d"
    r"|uncaught \w*(?:error|exception)\b)",
    re.IGNORECASE,
)
# The last line of a Python traceback. Any class name counts, because not all end in "Error".
_LAST: Final = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Warning|Timeout|Exit|\w+))(?::\s*(.*))?$", re.DOTALL)
# How a report continues after "Forbidden" or "Access denied". Titles and subjects continue differently: "Forbidden City
# is a palace", "Permission denied errors on Linux", "Service Unavailable (album)".
_ENDS: Final = (
    r"(?:\W*$|[.:;,!]|\s[-\u2013\u2014]|\s(?:to|for|by|on|from|at|when|while|because|due|please|you|your|error)\b)"
)
_SAYS_FAILED: Final = re.compile(
    r"\s*(?:[45]\d\d \S[^\n]{1,300}; reason: \w|"  # Google's clients
    # Node's error codes, unless a page explains them: "ECONNRESET is an error code of Node".
    r"(?:connect )?e(?:connrefused|connreset|connaborted|timedout|notfound|ai_again|hostunreach"
    r"|pipe)\b(?! (?:is|are|was|means?|errors?|codes?)\b)"
    r"|(?-i:E(?:NOENT|ACCES|PERM|EXIST|ISDIR|NOTDIR|NOTEMPTY|NOSPC|MFILE): )|"
    # One line only: several are a log.
    r"[\[(](?:error|fatal|exception)[\])] [^\n]+\s*$|"
    # MCP's SDKs, SQLAlchemy, MySQL's connector, Selenium, and Python's `repr` of an exception.
    r"getaddrinfo e\w{4,12}\b|(?:[\w.]{1,40}: )?net::err_\w|mcp error -?\d{3,6}:"
    r"|\([\w.]{2,80}(?:error|exception|errors\.\w{2,60})\) \S|\d{4} \(\w{5}\): \S"
    r"|message: (?:no such|stale element|element (?:not|click)|invalid|timeout|unknown error)\b"
    r"|[a-z_][\w.]{0,80}(?:error|exception)\([^\n]{0,300}\)\W*$|permission to use .{1,80} (?:has been |was )?denied"
    r"|your request (?:was|has been) (?:blocked|denied|rejected)|fatal: |"
    # What an act led to, in one line.
    r"(?:\w{2,30} )?(?:\w{2,30}(?:ion|ment|ing)|build|upload|download|import|export|login|backup|restore|sync|update"
    r"|upgrade|install|merge|push|pull|release|transfer) failed: [^\n]+\s*$|"
    # What shells say, and an exception's bare class name.
    r"[\w./-]{1,80}: .{1,200}\b(?:no such file or directory|permission denied|command not found)\s*$"
    r"|(?:[a-z_][\w.]{0,80})?(?:error|exception)\W*$|an? (?:\w+ )?error (?:has )?occurred(?! \(DryRun)"
    r"|there(?:'s| is| was) an? (?:error|issue|problem) (?:with|while|when)\b|(?:[\w-]{1,40} )?(?:tool|request|call"
    r"|command|operation|search|query|execution|fetch|navigation|action) (?:has )?(?:failed|errored|timed out"
    r"|was (?:denied|rejected|blocked))"
    # Browsers' tools, Postgres and its kin, OpenCode, JavaScript, and agents' frameworks that refuse a call.
    r"|(?:\w+ ){1,3}error: cannot read propert|i tried reusing the same input|agent stopped due to"
    r"|(?:tool[ -]call|iteration|step|recursion) limit (?:was |has been )?(?:reached|exceeded)\b"
    r"|(?:the )?element (?:\S.{0,80}? )?(?:not clickable|does(?: not|n't) exist"
    r"|(?:is |was )?not (?:found|visible|interactable|attached|enabled))\b|(?:column|relation|table|function|schema"
    r"|database|role) \"?[\w.]{1,80}\"?(?: of relation \S{1,80})? does not exist\b(?! \w)|statuscode: non 2xx"
    r"|invalid (?:or \w+ )?(?:\w+ )?(?:format|arguments?|input|parameters?|request|response|credentials|token"
    rf"|selector|url|json|action|command|email|password){_ENDS}"
    r"|(?:ref|uid|element|node|handle) \S{1,40} not found\b|no [\w ]{0,30}server is running (?:for|in)\b"
    r"|unrecogni[sz]ed (?:\w+ ){0,2}\w+: \S|(?:claude code is )?(?:failed|unable) to \w+"
    r"|timeout of \d{1,9} ?ms exceeded|the server returned http [45]\d\d\b|cannot (?!be\b)\w+"
    r"|(?:could not|couldn't) (?:connect|fetch|reach|load|open|execute|complete|process|resolve)"
    r"|connection (?:refused|reset|timed out|error)"
    r"|(?:the )?(?:service|server|site|system) (?:is )?(?:temporarily |currently )*(?:overloaded|down|unavailable\W*$)"
    r"|upstream connect error|no healthy upstream|bad gateway|gateway time-?out|internal server error"
    r"|(?:request )?timed out|unknown (?:tool|action|function)|no such tool"
    r"|(?:tool|function) \S{1,100} (?:not found|does not exist|is not)|bad credentials|"
    rf"(?:permission denied|access denied|(?:service )?(?:temporarily )?unavailable|unauthori[sz]ed|forbidden){_ENDS})",
    re.IGNORECASE,
)
# What must follow "rate limit" is listed, because "Rate limiting is a technique ..." begins an article.
_SAYS_RATE: Final = re.compile(
    r"\W*(?:(?:error|warning|sorry|oops|request (?:failed|denied|blocked))\W+)*(?:(?:api|request|search|http|the"
    r"|github|your)\s+)*(?:rate[ -]?limit(?:ed)?\b(?:\s+(?:was |is |has been )?(?:exceeded|reached|hit|error)|\W*$"
    r"|[.:,;!]| (?:for|please|try|retry|on) )|too many (?:requests|calls|queries)\b"
    r"|you(?:'re| are| have been) (?:being |temporarily |currently )*(?:rate[ -]?limited|throttled)"
    r"|(?:you(?:'ve| have)? )?(?:exceeded|reached|hit) (?:your|the|our) .{0,40}(?:limit|quota)"
    r"|(?:quota|request limit) (?:has been )?(?:exceeded|reached)|throttled\b|throttling\w*exception"
    r"|slow down[.!]?\s*$|please slow down)",
    re.IGNORECASE,
)
# A number from 400 to 599 is a status only beside one of these, or after a word such as "HTTP" or "status code": prices
# and numbers of rows look the same ("total price is 429, but paid 503", "returned 503 rows").
_PHRASES: Final = (
    r"too many requests|service (?:temporarily )?unavailable|bad gateway|gateway time-?out|not found|forbidden"
    r"|unauthori[sz]ed|bad request|internal server error|unprocessable|request time-?out|payment required"
    r"|method not allowed|conflict|gone|client error|server error|backend fetch failed|origin"
    r"|(?:temporarily )?unavailable|overloaded|time-?out"
)
# `(?![.,]?\d)` keeps out longer numbers, such as 429.50. A bare number counts only as the whole text, and "got 429"
# only at its end or before a word such as "from".
_STATUS: Final = re.compile(
    rf"(?:\bhttp(?:/[\d.]+)?(?:[ _-]?(?:error|status))?(?:[ _-]?code)?|\bstatus(?:[ _-]?code)?|\berror[ _-]?code"
    rf"|\bresponse code|\bresponded with)\s*(?:is|of|was)?\s*[:=]?\s*[\[(]?([1-5]\d\d)\b(?![.,]?\d)"
    rf"|\b([45]\d\d)[:,]?\s+(?:{_PHRASES})\b|[\[(]([45]\d\d)(?:[\])]| (?:GET|HEAD|POST|PUT|PATCH|DELETE) )"
    rf"|\b(?:got|received|returned) (?:an? )?([45]\d\d)(?=\W*$|\W+(?:from|for|response|status|errors?|on|when|by)\b)"
    rf"|^\W*(?:\w*error\W+)?([45]\d\d)\W*$|^\W*\w*error\W+([45]\d\d)\s*[-:(]",
    re.IGNORECASE,
)
# Up to 24 characters may stand between the word and the number ("try again in about"). `(?![-:/])` keeps out dates and
# times of day.
_WAIT: Final = re.compile(
    r"(?:retry|try again|wait|available again|resets?|retry[- _]?after|retry[- _]?delay"
    r"|back)\b\D{0,24}?(\d{1,7}(?:\.\d{1,6})?)\s*"
    r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)?\b(?![-:/])",
    re.IGNORECASE,
)
# The first that the unit begins with; anything else is seconds. "250 milliseconds" was once read as 250 minutes.
_UNITS: Final = {"ms": 0.001, "milli": 0.001, "m": 60.0, "h": 3600.0}
# A command that ran too long: its own fault, and no sign that the tool that ran it is unavailable.
_STOPPED: Final = re.compile(
    r"\W*(?:(?:subprocess\.)?TimeoutExpired\b"
    r"|(?:\w*error\W+)?(?:the )?(?:shell |last )?(?:command|process|program|script)\b.{0,300}? timed[ -]?out\b)",
    re.IGNORECASE | re.DOTALL,
)
# Exit codes other than 0. The exclusions keep out "Return code 20417 was made for your parcel" and "Exit code 137 means
# that ...".
_EXITED: Final = re.compile(
    r"\s*(?:\w*error\W+)?[\[(]?(?:(?:the )?(?:process|command|program|script)\b.{0,200}? "
    r"(?:exited|failed|finished|ended|terminated|returned) (?:with )?(?:a )?(?:non-?zero )?(?:exit |return )?"
    r"(?:code|status)|exit(?:ed)?[ _-]?(?:with )?(?:code|status)|return[ _-]?code(?!\W{0,3}\d{4}))"
    r"\W{0,3}(?!0\b)-?\d{1,10}\b(?! (?:means?|is|was|indicates?|stands|for|of|tells?|says?)\b)",
    re.IGNORECASE,
)


def http_status_in(text: str) -> int | None:
    """Return the HTTP status of a failure that a message names; other numbers do not count."""
    match = _STATUS.search(text[:TEXT_MAX])
    number = None if match is None else next((int(group) for group in match.groups() if group), None)
    return number if number is not None and number >= 400 else None


def retry_after_in(text: str) -> float | None:
    """Return the seconds that a message asks to wait."""
    match = _WAIT.search(text[:TEXT_MAX])
    if match is None:
        return None
    unit = (match.group(2) or "s").lower()
    factor = next((seconds for prefix, seconds in _UNITS.items() if unit.startswith(prefix)), 1.0)
    return float(match.group(1)) * factor


# A named thing, such as an issue, that is not there is an error. A page that is not there answers a search.
_FAILED_TO: Final = re.compile(
    r"\W*(?:\w*error\W+)?failed to (?!(?:find|search|look|fetch|load|crawl|scrape|browse|navigate|open|visit)\b)\w",
    re.IGNORECASE,
)


def code_for_error_text(text: str, tool: str = "") -> OutcomeCode:
    """Return the outcome code of a message that is known to report a failure."""
    message = text[:TEXT_MAX]
    if _EXITED.match(message) or _STOPPED.match(message[:_SHORT]):
        return "error"  # a program's output and duration say nothing about the tool that ran it
    # First: a limit that is named says more than a 403 or 503 beside it.
    if RATE_LIMITED.search(message):
        return "rate_limited"
    if _is_unknown_tool(message, tool):
        return "unknown_tool"
    status = http_status_in(message)
    code = None if status is None else code_for_status(status)
    if code is not None:
        return "error" if code == "no_results" and _FAILED_TO.match(message) else code
    for pattern, found in _IN_ORDER:
        if pattern.search(message):
            return found
    return code_in_other_language(message) or "error"


# A message may match several; the list for "unavailable" is the broadest, so it comes last.
_IN_ORDER: Final[tuple[tuple[re.Pattern[str], OutcomeCode], ...]] = (
    (DENIED, "denied"),
    (NO_RESULTS, "no_results"),
    (INVALID_ARGUMENTS, "invalid_arguments"),
    (UNAVAILABLE, "unavailable"),
)


def _is_unknown_tool(message: str, tool: str) -> bool:
    if UNKNOWN_TOOL.search(message):
        return True
    if not tool or tool not in message[:300]:
        return False
    name = re.escape(tool)
    said = rf"{_UNKNOWN_NAMED}.{{0,20}}{name}|(?:function|action|method|command) \W?{name}\W? {_MISSING}"
    return re.search(said, message[:400], re.IGNORECASE) is not None


def reports_tool_missing(message: str, tool: str) -> bool:
    """Check whether a message says of this very tool that it does not exist."""
    if not tool or tool not in message[:300]:
        return False
    return is_tool_name_only(message, tool) or NOT_FOUND.search(message[:400]) is not None


def is_tool_name_only(message: str, tool: str) -> bool:
    """Check for a `KeyError` whose message is only the tool's name, as `tools[name]` raises it."""
    error, colon, rest = message[:400].strip().rpartition(": ")
    return bool(colon) and error.endswith("KeyError") and rest.strip("'\"`") == tool


def code_for_report(text: str, tool: str) -> OutcomeCode | None:
    """Return the code of a text that is nothing but a report of failure or emptiness, or None for any other text."""
    # Gateways answer with a short HTML page, whose tags must neither hide the report nor count toward its length.
    page = re.match(r"\s*<(?:!doctype|html|head|body|title|h1)\b", text[:200], re.IGNORECASE) is not None
    visible = visible_text(text[:20_000]) if page else text
    head = visible[:TEXT_MAX]
    if page and len(visible) > PAGE_START:
        return None
    if any(form.match(head) for form in (_TRACE, _MARKED, _EXITED)) or (
        _SAYS_ERROR.match(head[:600]) and not _WARNS.match(head[:60])
    ):
        return code_for_error_text(head, tool)
    return _code_for_short_report(head, tool) if len(visible.strip()) <= _SHORT else None


def _code_for_short_report(head: str, tool: str) -> OutcomeCode | None:
    if _SAYS_RATE.match(head):
        return "rate_limited"
    if _IS_NOTHING.match(head):
        return "no_results"
    if _SAYS_FAILED.match(head) or _begins_with_status(head):
        return code_for_error_text(head, tool)
    return code_in_other_language(head) if len(head) <= _SHORTEST else None


def _begins_with_status(head: str) -> bool:
    """Check whether a text opens with a status, and is neither a bare number nor a sentence about one."""
    start = head[:120].lstrip(" \t\n\"'<*")
    match = _STATUS.match(start)
    if match is None or start.strip(" .").isdigit() or http_status_in(start) is None:
        return False
    return re.match(r"\s*(?:is|are|was|means?|status|response|errors?|codes?)\b", start[match.end() :]) is None


# The tool, not the program, ended it: Claude Code, OpenHands, Codex, mini-swe-agent, SWE-agent, OpenCode.
_RAN_OUT: Final = re.compile(
    r"\s*(?:\[?(?:the )?command (?:timed out|has no new output|did not (?:finish|complete) (?:in|within))"
    r"|EXECUTION TIMED OUT|(?:the )?command .{0,300}? was cancelled because it took more than|killed by timeout"
    r"|\w{4,8} tool terminated command after exceeding timeout)",
    re.IGNORECASE | re.DOTALL,
)
# OpenCode says it behind what the command printed until then.
_RAN_OUT_AT_END: Final = re.compile(
    r"\b(\w{4,8} tool terminated command after exceeding timeout[^\n.<]{0,40})[^<]{0,300}</\w{4,8}_metadata>\s*\Z"
)


# mini-swe-agent, behind the whole command.
_RAN_OUT_BEHIND: Final = re.compile(r"'\]?'? (timed out after [\d.]{1,9} seconds)</exception>")
_EXCEPTION: Final = "<exception>"
_COMMAND_CHARS: Final = 10_000


def timeout_in(text: str) -> str:
    """Return the line that says that a command or call ran out of time, "" if none does."""
    head = text[:_SHORT]
    if _STOPPED.match(head) or _RAN_OUT.match(head):
        return head.strip().partition("\n")[0]
    if head.startswith(_EXCEPTION) and (behind := _RAN_OUT_BEHIND.search(text[:_COMMAND_CHARS])):
        return f"The command {behind[1]}"
    last = _RAN_OUT_AT_END.search(text[-_SHORT:])
    return last[1] if last else ""


# Not of a connection: waiting a moment is enough, and no other call is needed.
_CALL_RAN_OUT: Final = re.compile(
    r"\btimed[ -]?out\b|time-?out(?:error|exception|expired)?\b|\bdeadline exceeded\b", re.IGNORECASE
)
_CONNECTING: Final = re.compile(r"connect", re.IGNORECASE)


def call_ran_out(text: str) -> bool:
    """Check for a failed call that took too long, and would again: not one that found no connection."""
    head = text[:_SHORT]
    return _CALL_RAN_OUT.search(head) is not None and _CONNECTING.search(head) is None


def last_error(text: str) -> tuple[str, str] | None:
    """Return the exception's name and message at the end of a traceback, or None."""
    if "Traceback (most recent call last)" not in text:
        return None
    lines = [
        line for line in text.rstrip()[-TEXT_MAX:].splitlines() if line.strip() and not line.startswith((" ", "\t"))
    ]
    match = _LAST.match(lines[-1].strip()) if lines else None
    return None if match is None else (match.group(1).rpartition(".")[2], (match.group(2) or "").strip())
