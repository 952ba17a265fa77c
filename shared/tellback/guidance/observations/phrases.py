"""The phrases by which messages report a failure, a limit or an empty search, and pages ask for a human.

English phrases are the patterns here; those of other languages are plain phrases in `lexicon.toml`, of which one must
occur. The patterns assume that the text is known to report a failure; `texts.code_for_report` decides that for other
texts. They were collected from what services, libraries and agent hosts say; tests/unit/observations has examples. A
pattern that you add needs an example there, and a good result that it must not match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.words import load_lexicon


def any_pattern(*parts: str) -> re.Pattern[str]:
    """Join patterns into one that ignores case."""
    return re.compile("|".join(parts), re.IGNORECASE)


RATE_LIMITED: Final = any_pattern(
    r"\brate[- _]?limit(?!ing (?:is|are)\b)",  # "Rate limiting is a technique ..." explains
    r"too many (?:requests|calls|queries|searches|attempts)",
    # Not any limit: "recursion limit exceeded" is a program's. "userRateLimitExceeded" is Google's.
    r"(?:\b(?:api|calls?|requests?|usage|search|query|daily|hourly|weekly|monthly|quota|plan|concurren\w+)"
    r"|userrate|dailyrate|rate|\bset usage)[- _]?limit ?(?:has been |was |is )?(?:reached|exceeded|hit)\b",
    r"(?:exceed(?:ed|s|ing)?|reached|hit|only make|limit(?:ed)?|max(?:imum)?) .{0,24}\d+ (?:requests|calls|queries) ?"
    r"(?:per|/|an?) ?(?:second|sec|minute|min|hour|day|month)\b",
    # Services' own words, such as Telegram's "flood control" and OpenWeather's "exceeding of requests limitation".
    r"\bmax(?:imum)? (?:number of )?(?:calls|requests|queries|searches) (?:per|an?)\b|\brate exceeded"
    r"|(?:call|request) (?:frequency|rate) (?:is|of) \d|exceeding of requests limitation|flood (?:control|wait)",
    r"\bcalled too (?:frequently|often|fast)|requests? (?:are |is )?(?:too frequent|too fast)|(?:please|and) slow down"
    r"|request rate is (?:too )?(?:large|high)",
    r"\bthrottl(?:ed|ing)",
    r"quota (?:has been |is |was )?(?:exceeded|exhausted|reached)",
    r"(?:exceed(?:ed|s)?|reached|hit) (?:your|the|our) .{0,40}(?:quota|request limit|usage limit|rate)",
    r"insufficient_quota|resource[ _]?(?:has been )?exhausted|unusual traffic|captcha|automated (?:queries|requests)",
)

UNKNOWN_TOOL: Final = any_pattern(
    # "Invalid tool input" is about arguments.
    r"(?:unknown|no such|unrecogni[sz]ed|undefined|non-?existent|invalid) tool\b"
    r"(?! (?:input|arg|param|call|use|schema))",
    r"\btool ['\"`]?[\w.:/-]{1,100}['\"`]? (?:was |is )?(?:not found|does not exist|doesn't exist|unknown|"
    r"not (?:available|registered|defined|(?:a )?(?:valid|known|registered|recogni[sz]ed) tool))",
    r"\bno tool (?:named|called|with|found)|(?:is not|isn't) (?:a |an )?(?:valid|known|registered|available) tool"
    r"|not recogni[sz]ed as an? (?:valid )?tool|tool not found|tool does not exist|\bunavailable tool\b"
    r"|not in the list of (?:available |known |allowed )?tools"
    # -32601 is JSON-RPC's "method not found", whose words count only alone.
    r"|is not available\W+(?:use one of|available tools|try one of)|-32601\b|^\W*method not found\W*$",
)

# So general that it counts only in a message that names a tool which was not declared (`reports_tool_missing`).
NOT_FOUND: Final = any_pattern(
    r"not found|unknown|does not exist|doesn't exist|not available|no such|invalid tool",
    r"not defined|unrecogni[sz]ed|not recogni[sz]ed|no (?:method|attribute|handler)\b",
)

DENIED: Final = any_pattern(
    r"permission (?:was |is )?denied|access (?:is |was |has been )?(?:denied|forbidden)|\bforbidden\b"
    r"|\bunauthori[sz]ed\b",
    r"not (?:authori[sz]ed|permitted)\b|(?:is|are|was) not allowed (?:to|by|in)\b",
    r"authentication (?:is |has )?(?:failed|required|error)|\bnot authenticated\b|login required",
    r"(?:invalid|incorrect|expired|missing) (?:api[ _-]?key|access token|token|credentials?|password|signature)",
    r"(?:token|api[ _-]?key|credentials|session) (?:is |are |has |have |was )?(?:expired|revoked|invalid|not valid)\b",
    r"\baccount (?:is |has been |was )?(?:suspended|disabled|locked)\b",
    r"(?:denied|rejected|blocked|declined) by (?:the |a |your )?(?:user|policy|hook|permission|administrator|sandbox)",
    r"\buser (?:has )?(?:denied|rejected|declined)|tool use was rejected|doesn't want to proceed",
    r"requires? (?:approval|permission|authentication|login)|insufficient (?:permissions?|privileges?|scopes?)",
    r"permission to use .{1,100} (?:has been|was) denied|do(?:es)? not have (?:permission|access)",
    # GitHub's and OAuth's words.
    r"(?:missing|no|invalid) authori[sz]ation header|\bbad credentials|invalid_(?:grant|token|client)\b"
    r"|insufficient_scope",
    # Django REST framework, Claude Code, guardrails of agent frameworks, Slack.
    r"credentials were not provided|haven't granted|\bdenied this tool|rejected by (?:an? |the )?(?:\w+ )?guardrail"
    r"|(?:invalid|missing)_(?:auth|scope)\b|not_authed",
    r"not accessible by (?:integration|personal access token)|payment required"
    r"|(?:must be|please|need to be|not) (?:logged|signed|log|sign)[ -]in\b",
    # Servers and sandboxes that confine paths.
    r"outside (?:of )?(?:the |your )?(?:allowed|permitted|workspace|working|sandbox)"
    r"|access to .{1,100} (?:is|was) (?:not allowed|denied|forbidden|restricted)"
    r"|api[_ -]?key .{0,40}(?:must be set|is not set)",
)

INVALID_ARGUMENTS: Final = any_pattern(
    r"missing \d+ required|missing (?:a |the )?(?:required|mandatory)\b|required (?:argument|parameter|field"
    r"|property|key)",
    r"field required|unexpected keyword|got an unexpected|takes \d+ positional|takes no arguments",
    r"(?:unexpected|unknown|unrecogni[sz]ed|extra|additional) (?:argument|parameter|field|property|properties|input)",
    r"invalid (?:arguments?|param(?:eter)?s?|input|value|type|format|json|date|characters?|url|query|option|enum)\b",
    # "SyntaxError: invalid syntax" is about code that the tool ran, as is "can't decode byte 0xff" below.
    r"^\W*(?!syntaxerror)(?:\w*error\W+)*invalid\b",
    r"(?:argument|parameter|field|property|value|input)s? .{0,60}\b(?:is|are|was) (?:required|missing|invalid"
    r"|not valid)",
    r"\bmust be (?:an? |one of|of type|between|greater|less|at (?:least|most)|positive|in |either|the |provided"
    r"|specified)",
    r"validation (?:error|failed)|(?:does|did) not match (?:the )?(?:\w+ )?(?:schema|pattern|format|regex)"
    r"|not a valid\b",
    r"(?:failed to|could not|cannot|can't|unable to) (?:parse|decode|validate) (?!bytes?\b)",
    r"(?:cannot|can't|must not|may not|should not) be (?:empty|blank|null|none|negative)\b|\bwrong (?:format|type)\b",
    # Python's "unsupported operand type(s)" is a fault within the tool.
    r"unsupported (?:\w+ )?(?:value|type|format|currency|language|locale|unit|option|argument|parameter)\b(?!\(s\))",
    r"malformed|bad request|unprocessable|is not (?:valid|one of|of type)\b|input should be"
    r"|\bexpected .{1,40},? (?:but )?(?:got|received|found)\b",
    r"\b(?:too few|too many|not enough|wrong number of) (?:arguments|parameters|values|inputs)"
    r"|(?:parameter|argument|field|value|input)s? .{0,60}out of range"
    r"|\bno value (?:was )?(?:provided|given|specified) for",
    r"(?:payload|request|query|input|string|text|content|body|url)(?: entity)?"
    r"[ _](?:is )?too[ _](?:large|long|short|big)\b",
    r"(?:must|may|can|should) not exceed \d|exceeds (?:the )?(?:maximum|max|allowed)\b|\bzoderror\b"
    r"|\binvalid (?:query |search )?syntax (?:in|near|for)\b",
    # Python's TypeError, and validators that name only the argument: "query is required".
    r"multiple values for argument|^\W*\w+:? (?:is )?required\W*$|should be (?:less|greater) than|\bmust match\b"
    r"|pars(?:e|ing) (?:the )?(?:tool )?arguments",
)

UNAVAILABLE: Final = any_pattern(
    r"(?:service|server|site|system|host|backend|model|api|endpoint) (?:is |are |was )?(?:currently |temporarily )?"
    r"(?:unavailable|not available|down|offline|busy|overloaded|unreachable)\b",
    r"temporar(?:il)?y (?:unavailable|failure|error|overloaded)|try again (?:later|in a (?:moment|few|while|minute))",
    # "timeout" alone only as the first or last word: it also names options and fields.
    r"\btimed[ -]?out\b|deadline exceeded|etimedout|\btimeout(?:error|exception)\b|^\W*timeout\b|timeout\W*$",
    r"\btime-?out (?:was |has |is )?(?:exceeded|expired|after|of \d|while|reached|waiting)",
    r"(?:request|connect(?:ion)?|read|gateway|operation|query|execution|socket|response) time-?out",
    r"connection (?:was |has been |is )?(?:refused|reset|aborted|closed|error|failed|lost|terminated|broken|dropped)",
    r"(?:could not|couldn't|cannot|can't|failed to|unable to) (?:connect|reach|resolve|establish)",
    r"unreachable|name or service not known|name resolution|no route to host|nodename nor servname",
    r"bad gateway|\boverloaded(?:_error)?\b|under maintenance|server error",
    r"\b(?:econnre(?:fused|set)|enotfound|eai_again|ehostunreach)\b|getaddrinfo|broken pipe|socket hang up"
    r"|network (?:error|is down)",
    r"fetch failed|remote end closed|(?:server|stream|client) disconnected|econnaborted|ssl(?:error|: )",
    # Envoy, Playwright, Chromium.
    r"\bupstream (?:connect|request|server|service)|no healthy upstream|timeout (?:of )?\d+ ?m?s (?:was )?exceeded"
    r"|net::err_(?:connection|name|internet|timed|address|network|proxy|socket|ssl|empty)",
    r"(?:server|service|backend|api) had an error|(?:is |are )not responding|(?:did|does)(?: not|n't) respond\b",
    r"\bdns (?:lookup|resolution|query|error).{0,20}(?:fail|error)|could not be satisfied|\beof occurred",
    r"(?:unable|failed|could not) to verify .{0,40}certificate|self[- ]signed certificate",
    r"certificate (?:verify failed|has expired|is not trusted)",
)

# Parts of "unavailable" for `classify._mark_doubtful`. The first list may be due to one call's own target or work, so a
# second session must meet it before the fleet avoids the tool; the second is what a service says of itself.
SINGLE_CALL_FAILED: Final = any_pattern(
    r"time[sd]?[ -]?out|deadline|time limit|connect|\breset\b|refused|resolv|resolution|\bdns\b|getaddrinfo|not known",
    r"unreachable|no route|network|socket|hang up|\bpipe\b|\bssl|\beof\b|econn|enotfound|eai_again|fetch failed|\berr_",
    r"closedresource|brokenresource|remoteprotocol|incompleteread|disconnected",
)

SERVICE_DOWN: Final = any_pattern(
    r"(?:service|server|site|system|backend|model|api) (?:is |are |was )?(?:currently |temporarily )?"
    r"(?:unavailable|down\b|offline|busy|overloaded)",
    r"overloaded|maintenance|no healthy upstream|bad gateway|internal server error|temporarily unavailable",
)

ANY_FAILURE: Final = (
    r"(?:results?|matches|matching \w+|records?|documents?|hits|articles?|pages?|entries|items|data|rows|files|flights"
    r"|answers?|information|content|output)"
)

NO_RESULTS: Final = any_pattern(
    rf"\b(?:no|0|zero) (?:\w+ ){{0,3}}?{ANY_FAILURE} (?:were |was |are |is |could be )?(?:found|returned|available"
    rf"|match|for)\b",
    rf"\b(?:found|returned|returns|yielded|got|there (?:are|were)) (?:no|0|zero) {ANY_FAILURE}\b|\b(?:0"
    rf"|no) results?\W*$",
    r"nothing (?:was |has )?(?:found|matche[ds])|(?:did|does|do) not match any"
    r"|(?:could not|couldn't|cannot|did not|didn't) find any",
    # LangChain's search tools, search sites, and the `wikipedia` package; "not found" counts only alone.
    r"no good \w* ?\w* ?results? (?:was |were )?found|your search .{0,120}did not match"
    r"|page id .{1,120} does not match"
    r"|^\W*(?:(?:requested |the )?(?:entity|resource|page|route) (?:was )?)?not found\W*$",
    r"\bempty (?:result|response)(?:s| set)?\W*$|\b(?:0|no) rows\b",
)


@cache
def _translated_patterns() -> dict[OutcomeCode, re.Pattern[str]]:
    return {code: _phrase_pattern(phrases) for code, phrases in load_lexicon().said.items()}


@cache
def _challenge_pattern() -> re.Pattern[str]:
    return _phrase_pattern(load_lexicon().challenges)


def _phrase_pattern(phrases: Iterable[str]) -> re.Pattern[str]:
    return any_pattern(*map(re.escape, phrases))


def code_in_other_language(text: str) -> OutcomeCode | None:
    """Return the code of the first phrase in a language other than English that a text contains."""
    return next((code for code, phrases in _translated_patterns().items() if phrases.search(text)), None)


# Visible characters of a challenge or error page at most; a long story may end with "please verify you are a human".
PAGE_START: Final = 1_500
# The same if only the page's markup, or a phrase of another language, says so: contact pages carry a captcha too.
_WIDGET_PAGE: Final = 600
# Bounded: a `<` without its `>` must not make each search scan the rest of the page.
_TAGS: Final = re.compile(r"<[^<>]{1,2000}>")
_HIDDEN: Final = re.compile(r"<(/?)(?:script|style|noscript)\b", re.IGNORECASE)
_TITLE: Final = re.compile(r"<title[^>]{0,200}>([^<]{0,300})</title", re.IGNORECASE)

# Said to the reader ("verify you are", "your network"), since an article defines CAPTCHA in the third person. The
# wordings are those of pages by Google, DuckDuckGo, Cloudflare, PerimeterX, Imperva and DataDome.
_CHALLENGE: Final = any_pattern(
    r"unusual traffic (?:from your|has been|coming)|detected unusual (?:traffic|activity)",
    r"(?:verify|confirm|prove|check(?:ing)?)(?: that| if| whether)? (?:you(?:'re| are)"
    r"|the site connection)(?: not)? ?(?:an? )?(?:human|robot|bot|real person|secure)",
    r"complete (?:the|this|a) (?:following )?(?:captcha|challenge|security check|verification)|solve (?:the"
    r"|this) captcha",
    r"(?:enter|type) the characters you see|are you (?:a )?(?:robot|human)\?|i'm not a robot"
    r"|select all (?:squares|images)",
    r"bots use duckduckgo too|automated (?:queries|requests|access).{0,60}your"
    r"|your (?:computer or )?network .{0,40}automated",
    r"enable javascript and cookies to continue|checking your browser before|performance & security by cloudflare",
    r"verifying (?:that )?you are (?:a )?human|press (?:&|and|&amp;) hold|pardon our interruption"
    r"|(?:think|thought|believe) (?:that )?you (?:were|are|might be) an? (?:ro)?bot",
    r"solve this (?:challenge|puzzle)|captcha (?:challenge|detected|encountered)",
    r"you have been blocked.{0,200}security service",
    r"captcha (?:is )?required|please (?:solve|complete|pass) .{0,30}captcha"
    r"|access .{0,40}(?:temporarily )?(?:limited|blocked) .{0,60}captcha",
)

# As the whole text only: "just a moment" occurs in any story.
_CHALLENGE_TEXT: Final = any_pattern(
    r"\W*just a moment\W*$", r"\W*(?:blocked by (?:an? )?|\w+ )captcha\W*(?:challenge|detected|found)?\W*$"
)

_CHALLENGE_TITLE: Final = any_pattern(
    r"just a moment|attention required|are you a robot|captcha|security check|robot check"
)

# Class names and paths that captcha widgets leave in the markup of a page.
_WIDGET: Final = any_pattern(
    r"g-recaptcha|h-captcha|cf-chl|challenge-platform|cf-turnstile|anomaly-modal|px-captcha|data-sitekey|/sorry/index"
)


def is_challenge_page(text: str) -> bool:
    """Check for a page that asks for a human in place of an answer: it is short, and addresses its reader."""
    head = text[:200_000] if "<" in text[:2_000] else text[: PAGE_START + 1]
    visible = visible_text(head)
    if len(visible) > PAGE_START:
        return False
    if (
        _CHALLENGE.search(visible)
        or _CHALLENGE_TEXT.match(visible)
        or (len(visible) <= _WIDGET_PAGE and _challenge_pattern().search(visible))
    ):
        return True
    if head == visible:
        return False
    title = _TITLE.search(head)
    if title is not None and _CHALLENGE_TITLE.search(title.group(1)):
        return True
    return len(visible) <= _WIDGET_PAGE and _WIDGET.search(head) is not None


def visible_text(text: str) -> str:
    """Return roughly what a browser would show of a page; other texts come back as they are."""
    return " ".join(_TAGS.sub(" ", _without_scripts(text)).split()) if re.search(r"<[a-zA-Z!]", text) else text


def _without_scripts(text: str) -> str:
    kept: list[str] = []
    place: int | None = 0  # None within an element that is not shown
    for match in _HIDDEN.finditer(text):
        if match.group(1):
            place = match.start()
        elif place is not None:
            kept.append(text[place : match.start()])
            place = None
    return "".join(kept) if place is None else "".join(kept) + text[place:]
