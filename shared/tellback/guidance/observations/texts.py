"""What plain text says of a failure, a limit or an empty search.

Two questions are asked. Of a text that reports a failure: which one (`code_of_error`). Of a text that may be anything:
whether it is such a report at all (`report_in`). The second is strict, since a page about rate limits, a log that
mentions a captcha or an article that begins with "Error correction" are good results.
"""

from __future__ import annotations

import re
from typing import Final

from tellback.contracts.guidance import Code
from tellback.guidance.observations.statuses import code_of
from tellback.guidance.observations.values import TEXT_MAX

_SHORT: Final = 400  # characters of a text that may be nothing but a report
_PAGE: Final = 1_500  # characters that a challenge page shows at most
_WIDGET_PAGE: Final = 600


def _pattern(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


RATE: Final = _pattern(
    r"\brate[- _]?limit(?!ing (?:is|are)\b)",
    r"too many (?:requests|calls|queries|searches|attempts)",
    r"\b(?:api|calls?|requests?|usage|search|query) limit (?:has been |was |is )?(?:reached|exceeded|hit)\b",
    r"\bthrottl(?:ed|ing)",
    r"quota (?:has been |is |was )?(?:exceeded|exhausted|reached)",
    r"(?:exceed(?:ed|s)?|reached|hit) (?:your|the|our) .{0,40}(?:quota|request limit|usage limit|rate)",
    r"insufficient_quota|resource[ _]?(?:has been )?exhausted|request limit (?:exceeded|reached)",
    r"(?:detected )?unusual traffic|captcha|automated (?:queries|requests)|\bratelimit",
)
UNKNOWN: Final = _pattern(
    r"(?:unknown|no such|unrecogni[sz]ed|undefined|non-?existent|invalid) tool\b",
    r"\btool ['\"`]?[\w.:/-]{1,100}['\"`]? (?:was |is )?(?:not found|does not exist|doesn't exist|unknown|"
    r"not (?:available|registered|defined|a valid tool|a known tool))",
    r"\bno tool (?:named|called|with|found)|is not a valid tool|tool not found|tool does not exist",
)
_UNKNOWN_NAMED: Final = r"(?:unknown|no such|unrecogni[sz]ed|undefined|invalid) (?:action|function|method|command)\b"
_NOT_THERE: Final = _pattern(
    r"not found|unknown|does not exist|doesn't exist|not available|no such|invalid tool",
    r"not defined|unrecogni[sz]ed|not recogni[sz]ed|no (?:method|attribute|handler)\b",
)
DENIED: Final = _pattern(
    r"permission (?:was |is )?denied|access (?:is |was |has been )?(?:denied|forbidden)|\bforbidden\b"
    r"|\bunauthori[sz]ed\b",
    r"not (?:authori[sz]ed|permitted)\b|(?:is|are|was) not allowed (?:to|by|in)\b|operation not permitted",
    r"authentication (?:is |has )?(?:failed|required|error)|\bnot authenticated\b|login required",
    r"(?:invalid|incorrect|expired|missing) (?:api[ _-]?key|access token|token|credentials?|password|signature)",
    r"(?:token|api[ _-]?key|credentials|session) (?:is |are |has |have |was )?(?:expired|revoked|invalid|not valid)\b",
    r"\baccount (?:is |has been |was )?(?:suspended|disabled|locked)\b",
    r"(?:denied|rejected|blocked|declined) by (?:the |a |your )?(?:user|policy|hook|permission|administrator"
    r"|sandbox)",
    r"\buser (?:has )?(?:denied|rejected|declined)|tool use was rejected|doesn't want to proceed",
    r"requires? (?:approval|permission|authentication|login)|insufficient (?:permissions?|privileges?|scopes?)",
    r"permission to use .{1,100} (?:has been|was) denied|do(?:es)? not have (?:permission|access)",
)
INVALID: Final = _pattern(
    r"missing \d+ required|missing (?:a |the )?(?:required|mandatory)\b|required (?:argument|parameter|field"
    r"|property|key)",
    r"is a required property|field required|unexpected keyword|got an unexpected|takes \d+ positional"
    r"|takes no arguments",
    r"(?:unexpected|unknown|unrecogni[sz]ed|extra|additional) (?:argument|parameter|field|property|properties|input)",
    r"invalid (?:arguments?|param(?:eter)?s?|input|value|type|format|json|date|characters?|syntax|url|query"
    r"|option|enum)\b",
    r"^\W*(?:\w*error\W+)*invalid\b",
    r"(?:argument|parameter|field|property|value|input)s? .{0,60}\b(?:is|are|was) (?:required|missing|invalid"
    r"|not valid)",
    r"\bmust be (?:an? |one of|of type|between|greater|less|at (?:least|most)|positive|in |either|the |provided"
    r"|specified)",
    r"validation (?:error|failed)|(?:does|did) not match (?:the )?(?:\w+ )?(?:schema|pattern|format|regex)"
    r"|not a valid\b",
    r"(?:failed to|could not|cannot|can't|unable to) (?:parse|decode|validate) ",
    r"(?:cannot|can't|must not|may not|should not) be (?:empty|blank|null|none|negative)\b|\bwrong (?:format|type)\b",
    r"unsupported (?:\w+ )?(?:value|type|format|currency|language|locale|unit|option|argument|parameter)\b(?!\(s\))",
    r"malformed|bad request|unprocessable|is not (?:valid|one of|of type)\b|input should be"
    r"|\bexpected .{1,40} (?:but )?got\b",
)
UNAVAILABLE: Final = _pattern(
    r"(?:service|server|site|system|host|backend|model|api|endpoint) (?:is |are |was )?(?:currently |temporarily )?"
    r"(?:unavailable|not available|down|offline|busy|overloaded|unreachable)\b",
    r"temporar(?:il)?y (?:unavailable|failure|error|overloaded)|try again (?:later|in a (?:moment|few|while|minute))",
    r"\btimed[ -]?out\b|deadline exceeded|etimedout|\btimeout(?:error|exception)\b|^\W*timeout\b|timeout\W*$",
    r"\btime-?out (?:was |has |is )?(?:exceeded|expired|after|of \d|while|reached|waiting)",
    r"(?:request|connect(?:ion)?|read|gateway|operation|query|execution|socket|response) time-?out",
    r"connection (?:was |has been |is )?(?:refused|reset|aborted|closed|error|failed|lost|terminated|broken|dropped)",
    r"(?:could not|couldn't|cannot|can't|failed to|unable to) (?:connect|reach|resolve|establish)",
    r"unreachable|name or service not known|name resolution|no route to host|nodename nor servname",
    r"bad gateway|service unavailable|internal server error|\boverloaded(?:_error)?\b|under maintenance|server error",
    r"\b(?:econnre(?:fused|set)|enotfound|eai_again|ehostunreach)\b|getaddrinfo|broken pipe|socket hang up"
    r"|network (?:error|is down)",
    r"fetch failed|remote end closed|server disconnected|econnaborted|ssl(?:error|: )",
)
_ANYTHING: Final = (
    r"(?:results?|matches|matching \w+|records?|documents?|hits|articles?|pages?|entries|items|data|rows|files"
    r"|flights|"
    r"answers?|information|content|output)"
)
NOTHING: Final = _pattern(
    rf"\b(?:no|0|zero) (?:\w+ ){{0,3}}?{_ANYTHING} (?:were |was |are |is |could be )?(?:found|returned|available"
    rf"|match|for)\b",
    rf"\b(?:found|returned|returns|yielded|got|there (?:are|were)) (?:no|0|zero) {_ANYTHING}\b|\b(?:0"
    rf"|no) results?\W*$",
    r"nothing (?:was |has )?(?:found|matche[ds])|(?:did|does|do) not match any"
    r"|(?:could not|couldn't|cannot|did not|didn't) find any",
    r"no good \w* ?\w* ?results? (?:was |were )?found|your search .{0,120}did not match"
    r"|page id .{1,120} does not match",
)
_IS_NOTHING: Final = re.compile(
    rf"^\W*(?:(?:(?:i'?m |we'?re |i am |we are )?sorry|oops|unfortunately|result|results|exception|error|note"
    rf"|info)\W+)*"
    rf"(?:(?:i|we|there|it|the (?:search|query|tool)|your (?:search|query))\s.{{0,80}}?)?"
    rf"(?:no (?:\w+ ){{0,4}}?{_ANYTHING}\b(?:\W*$| found| were| was| available| match| returned| for\b| in\b)"
    rf"|none found|"
    rf"nothing (?:was |has )?(?:found|matche[ds])|"
    rf"(?:the )?(?:page|article|entry|topic|document) .{{1,100}}(?:does not exist|doesn't exist|not (?:be )?found)\W*$|"
    rf"(?:found|returned) (?:no|0|zero) {_ANYTHING}|0 (?:results|matches|hits)|not? found\W*$|"
    rf"(?:could|can|did)(?: ?not|n't) find any|(?:did|does) not match any|no good \w* ?\w* ?results?)",
    re.IGNORECASE,
)
_SAYS_ERROR: Final = re.compile(
    r"\s*(?:<\w+>\s*)?(?:[\[(*`]*)(?:(?:tool|execution|internal|fatal|api|runtime|http|command|system|unexpected"
    r"|an?|the)\s+)*"
    r"(?:[A-Za-z_][\w.]{0,100})?(?:error|exception|failure|timeout|warning|exit|iterat\w+|interrupt|failed)\b"
    r"(?:\s+(?:code|message|occurred|executing|calling|running|fetching|in|while|during|when|with"
    r"|at)\b[^:\n]{0,120})?"
    r"[\])*`]*\s*(?:\([^)\n]{0,60}\))?\s*:(?!//)\s*\S",
    re.IGNORECASE,
)
_WARNS: Final = re.compile(r"\W*\w*(?:warning|exit)\b", re.IGNORECASE)
_MARKED: Final = re.compile(r"\s*<(?:tool_use_|tool_)?error>", re.IGNORECASE)
_TRACE: Final = re.compile(r"\s*(?:Error\S*\s+)?Traceback \(most recent call last\)", re.IGNORECASE)
_LAST: Final = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Warning|Timeout|Exit|\w+))(?::\s*(.*))?$", re.DOTALL)
_SAYS_FAILED: Final = re.compile(
    r"\s*(?:the user (?:doesn't|does not|did not|has|denied|rejected|declined)\b.{0,40}(?:proceed|denied"
    r"|rejected|declined|tool)|"
    r"(?:g?make|ninja)(?:\[\d+\])?: \*\*\* .{1,200}\.?\s*$|"
    r"(?:connect )?e(?:connrefused|connreset|connaborted|timedout|notfound|ai_again|hostunreach|pipe)\b"
    r"(?! (?:is|are|was|means?|errors?|codes?)\b)|"
    r"permission to use .{1,80} (?:has been |was )?denied|your request (?:was|has been) (?:blocked|denied"
    r"|rejected)|fatal: |"
    r"[\w./-]{1,80}: .{1,200}\b(?:no such file or directory|permission denied|command not found)\s*$|"
    r"(?:[a-z_][\w.]{0,80})?(?:error|exception)\W*$|"
    r"an? (?:\w+ )?error (?:has )?occurred|(?:the )?(?:tool"
    r"|request|call|command|operation|search|query"
    r"|fetch|execution) "
    r"(?:has )?(?:failed|errored|timed out|was (?:denied|rejected|blocked))|(?:failed|unable) to \w+"
    r"|(?:could not|couldn't) "
    r"(?:connect|fetch|reach|load|open|execute|complete|process|resolve)|permission denied|access denied"
    r"|connection (?:refused|reset|"
    r"timed out|error)|(?:the )?(?:service|server|site|system) (?:is )?(?:temporarily "
    r"|currently )*(?:unavailable|overloaded|down)|service "
    r"(?:temporarily )?unavailable|bad gateway|gateway time-?out|internal server error|(?:request )?timed out"
    r"|temporarily unavailable|"
    r"unknown (?:tool|action|function)|no such tool|(?:tool|function) \S{1,100} (?:not found|does not exist"
    r"|is not)|unauthori[sz]ed|forbidden\b)",
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
_EXITED: Final = re.compile(
    r"\s*(?:\w*error\W+)?[\[(]?(?:(?:the )?(?:process|command|program|script)\b.{0,200}? "
    r"(?:exited|failed|finished|ended|terminated|returned) (?:with )?(?:a )?(?:non-?zero )?(?:exit |return )?"
    r"(?:code|status)|exit(?:ed)?[ _-]?(?:with )?(?:code|status)|return[ _-]?code(?!\W{0,3}\d{4}))"
    r"\W{0,3}(?!0\b)-?\d{1,10}\b(?! (?:means?|is|was|indicates?|stands|for|of|tells?|says?)\b)",
    re.IGNORECASE,
)
_TAGS: Final = re.compile(r"<[^<>]{1,2000}>")
_HIDDEN: Final = re.compile(r"<(/?)(?:script|style|noscript)\b", re.IGNORECASE)
_TITLE: Final = re.compile(r"<title[^>]{0,200}>([^<]{0,300})</title", re.IGNORECASE)
_CHALLENGE: Final = _pattern(
    r"unusual traffic (?:from your|has been|coming)|detected unusual (?:traffic|activity)",
    r"(?:verify|confirm|prove|check(?:ing)?)(?: that| if| whether)? (?:you(?:'re| are)"
    r"|the site connection)(?: not)? ?(?:an? )?"
    r"(?:human|robot|bot|real person|secure)",
    r"complete (?:the|this|a) (?:following )?(?:captcha|challenge|security check|verification)|solve (?:the"
    r"|this) captcha",
    r"(?:enter|type) the characters you see|are you (?:a )?(?:robot|human)\?|i'm not a robot"
    r"|select all (?:squares|images)",
    r"bots use duckduckgo too|automated (?:queries|requests|access).{0,60}your"
    r"|your (?:computer or )?network .{0,40}automated",
    r"enable javascript and cookies to continue|checking your browser before|performance & security by cloudflare",
    r"captcha (?:is )?required|please (?:solve|complete|pass) .{0,30}captcha"
    r"|access .{0,40}(?:temporarily )?(?:limited|blocked) .{0,60}captcha",
)
_CHALLENGE_TITLE: Final = _pattern(
    r"just a moment|attention required|are you a robot|captcha|security check|robot check"
)
_WIDGET: Final = _pattern(
    r"g-recaptcha|h-captcha|cf-chl|challenge-platform|cf-turnstile|anomaly-modal|px-captcha|data-sitekey|/sorry/index"
)


def is_challenge(text: str) -> bool:
    """Whether the text is a page that asks for a person: it is short, and says so to its reader."""
    head = text[:200_000] if "<" in text[:2_000] else text[: _PAGE + 1]
    visible = visible_text(head)
    if len(visible) > _PAGE:
        return False
    if _CHALLENGE.search(visible):
        return True
    if head == visible:
        return False
    title = _TITLE.search(head)
    if title is not None and _CHALLENGE_TITLE.search(title.group(1)):
        return True
    return len(visible) <= _WIDGET_PAGE and _WIDGET.search(head) is not None


def visible_text(text: str) -> str:
    """What a browser would show of a page, roughly; a text that is no page as it is."""
    return " ".join(_TAGS.sub(" ", _without_scripts(text)).split()) if re.search(r"<[a-zA-Z!]", text) else text


def _without_scripts(text: str) -> str:
    kept: list[str] = []
    place: int | None = 0  # None: within what is not shown
    for match in _HIDDEN.finditer(text):
        if match.group(1):
            place = match.start()
        elif place is not None:
            kept.append(text[place : match.start()])
            place = None
    return "".join(kept) if place is None else "".join(kept) + text[place:]


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
    if _EXITED.match(message):
        return "error"  # what a program prints is not what became of the tool that ran it
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
    return "error"


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
    return re.search(rf"{_UNKNOWN_NAMED}.{{0,20}}{re.escape(tool)}", message[:400], re.IGNORECASE) is not None


def misses_tool(message: str, tool: str) -> bool:
    """Whether a message says of this very tool that it is not there."""
    if not tool or tool not in message[:300]:
        return False
    bare = message.strip().rpartition(": ")[2].strip("'\"`") == tool  # what `tools[name]` raises says no more
    return bare or _NOT_THERE.search(message[:400]) is not None


def report_in(text: str, tool: str = "") -> Code | None:
    """The failure or emptiness that a text reports, if it is nothing but such a report; None for any other text."""
    page = re.match(r"\s*<(?:!doctype|html|head|body|title|h1)\b", text[:200], re.IGNORECASE) is not None
    visible = visible_text(text[:20_000]) if page else text
    head = visible[:TEXT_MAX]
    if page and len(visible) > _PAGE:
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
    return code_of_error(head, tool) if _SAYS_FAILED.match(head) or _begins_with_status(head) else None


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
