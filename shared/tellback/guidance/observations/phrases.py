"""The phrases by which messages report a failure, a limit or an empty search.

Those of English are patterns, here. Those of other languages are plain phrases in `lexicon.toml`: what counts is that
one occurs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from tellback.contracts.guidance import Code
from tellback.guidance.observations.lexicon import lexicon


def pattern(*parts: str) -> re.Pattern[str]:
    """One pattern of several, whatever the case of letters."""
    return re.compile("|".join(parts), re.IGNORECASE)


RATE: Final = pattern(
    r"\brate[- _]?limit(?!ing (?:is|are)\b)",
    r"too many (?:requests|calls|queries|searches|attempts)",
    r"(?:\b(?:api|calls?|requests?|usage|search|query|daily|hourly|weekly|monthly|quota|plan|concurren\w+)"
    r"|userrate|dailyrate|rate|\bset usage)[- _]?limit ?(?:has been |was |is )?(?:reached|exceeded|hit)\b",
    r"(?:exceed(?:ed|s|ing)?|reached|hit|only make|limit(?:ed)?|max(?:imum)?) .{0,24}\d+ (?:requests|calls|queries) ?"
    r"(?:per|/|an?) ?(?:second|sec|minute|min|hour|day|month)\b",
    r"\bmax(?:imum)? (?:number of )?(?:calls|requests|queries|searches) (?:per|an?)\b|\brate exceeded"
    r"|(?:call|request) (?:frequency|rate) (?:is|of) \d|exceeding of requests limitation"
    r"|flood (?:control|wait)",
    r"\bcalled too (?:frequently|often|fast)|requests? (?:are |is )?(?:too frequent|too fast)|(?:please|and) slow down"
    r"|request rate is (?:too )?(?:large|high)",
    r"\bthrottl(?:ed|ing)",
    r"quota (?:has been |is |was )?(?:exceeded|exhausted|reached)",
    r"(?:exceed(?:ed|s)?|reached|hit) (?:your|the|our) .{0,40}(?:quota|request limit|usage limit|rate)",
    r"insufficient_quota|resource[ _]?(?:has been )?exhausted|request limit (?:exceeded|reached)",
    r"(?:detected )?unusual traffic|captcha|automated (?:queries|requests)|\bratelimit",
)
UNKNOWN: Final = pattern(
    r"(?:unknown|no such|unrecogni[sz]ed|undefined|non-?existent|invalid) tool\b"
    r"(?! (?:input|arg|param|call|use|schema))",
    r"\btool ['\"`]?[\w.:/-]{1,100}['\"`]? (?:was |is )?(?:not found|does not exist|doesn't exist|unknown|"
    r"not (?:available|registered|defined|(?:a )?(?:valid|known|registered|recogni[sz]ed) tool))",
    r"\bno tool (?:named|called|with|found)|(?:is not|isn't) (?:a |an )?(?:valid|known|registered|available) tool"
    r"|not recogni[sz]ed as an? (?:valid )?tool|tool not found|tool does not exist|\bunavailable tool\b"
    r"|not in the list of (?:available |known |allowed )?tools"
    r"|is not available\W+(?:use one of|available tools|try one of)|-32601\b"
    r"|^\W*method not found\W*$",
)
NOT_THERE: Final = pattern(
    r"not found|unknown|does not exist|doesn't exist|not available|no such|invalid tool",
    r"not defined|unrecogni[sz]ed|not recogni[sz]ed|no (?:method|attribute|handler)\b",
)
DENIED: Final = pattern(
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
    r"(?:missing|no|invalid) authori[sz]ation header|\bbad credentials|invalid_(?:grant|token|client)\b"
    r"|insufficient_scope",
    r"credentials were not provided|haven't granted|\bdenied this tool|rejected by (?:an? |the )?(?:\w+ )?guardrail"
    r"|(?:invalid|missing)_(?:auth|scope)\b|not_authed",
    r"not accessible by (?:integration|personal access token)|payment required"
    r"|(?:must be|please|need to be|not) (?:logged|signed|log|sign)[ -]in\b",
    r"outside (?:of )?(?:the |your )?(?:allowed|permitted|workspace|working|sandbox)"
    r"|access to .{1,100} (?:is|was) (?:not allowed|denied|forbidden|restricted)"
    r"|api[_ -]?key .{0,40}(?:must be set|is not set)",
)
INVALID: Final = pattern(
    r"missing \d+ required|missing (?:a |the )?(?:required|mandatory)\b|required (?:argument|parameter|field"
    r"|property|key)",
    r"is a required property|field required|unexpected keyword|got an unexpected|takes \d+ positional"
    r"|takes no arguments",
    r"(?:unexpected|unknown|unrecogni[sz]ed|extra|additional) (?:argument|parameter|field|property|properties|input)",
    r"invalid (?:arguments?|param(?:eter)?s?|input|value|type|format|json|date|characters?|url|query"
    r"|option|enum)\b",
    r"^\W*(?!syntaxerror)(?:\w*error\W+)*invalid\b",
    r"(?:argument|parameter|field|property|value|input)s? .{0,60}\b(?:is|are|was) (?:required|missing|invalid"
    r"|not valid)",
    r"\bmust be (?:an? |one of|of type|between|greater|less|at (?:least|most)|positive|in |either|the |provided"
    r"|specified)",
    r"validation (?:error|failed)|(?:does|did) not match (?:the )?(?:\w+ )?(?:schema|pattern|format|regex)"
    r"|not a valid\b",
    r"(?:failed to|could not|cannot|can't|unable to) (?:parse|decode|validate) (?!bytes?\b)",
    r"(?:cannot|can't|must not|may not|should not) be (?:empty|blank|null|none|negative)\b|\bwrong (?:format|type)\b",
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
    r"multiple values for argument|^\W*\w+:? (?:is )?required\W*$|should be (?:less|greater) than|\bmust match\b"
    r"|pars(?:e|ing) (?:the )?(?:tool )?arguments|arguments are not valid",
)
UNAVAILABLE: Final = pattern(
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
    r"fetch failed|remote end closed|(?:server|stream|client) disconnected|econnaborted|ssl(?:error|: )",
    r"\bupstream (?:connect|request|server|service)|no healthy upstream|timeout (?:of )?\d+ ?m?s (?:was )?exceeded"
    r"|net::err_(?:connection|name|internet|timed|address|network|proxy|socket|ssl|empty)",
    r"(?:server|service|backend|api) had an error|(?:is |are )not responding|(?:did|does)(?: not|n't) respond\b",
    r"\bdns (?:lookup|resolution|query|error).{0,20}(?:fail|error)|could not be satisfied|\beof occurred",
    r"(?:unable|failed|could not) to verify .{0,40}certificate|self[- ]signed certificate",
    r"certificate (?:verify failed|has expired|is not trusted)",
)
# Of what is unavailable: what may be due to one call's own target or work, and what a service says of itself.
ONE_CALLS: Final = pattern(
    r"time[sd]?[ -]?out|deadline|time limit|connect|\breset\b|refused|resolv|resolution|\bdns\b|getaddrinfo|not known",
    r"unreachable|no route|network|socket|hang up|\bpipe\b|\bssl|\beof\b|econn|enotfound|eai_again|fetch failed|\berr_",
    r"closedresource|brokenresource|remoteprotocol|incompleteread|disconnected",
)
AWAY: Final = pattern(
    r"(?:service|server|site|system|backend|model|api) (?:is |are |was )?(?:currently |temporarily )?"
    r"(?:unavailable|down\b|offline|busy|overloaded)",
    r"overloaded|maintenance|no healthy upstream|bad gateway|internal server error|temporarily unavailable",
)
ANYTHING: Final = (
    r"(?:results?|matches|matching \w+|records?|documents?|hits|articles?|pages?|entries|items|data|rows|files"
    r"|flights|"
    r"answers?|information|content|output)"
)
NOTHING: Final = pattern(
    rf"\b(?:no|0|zero) (?:\w+ ){{0,3}}?{ANYTHING} (?:were |was |are |is |could be )?(?:found|returned|available"
    rf"|match|for)\b",
    rf"\b(?:found|returned|returns|yielded|got|there (?:are|were)) (?:no|0|zero) {ANYTHING}\b|\b(?:0"
    rf"|no) results?\W*$",
    r"nothing (?:was |has )?(?:found|matche[ds])|(?:did|does|do) not match any"
    r"|(?:could not|couldn't|cannot|did not|didn't) find any",
    r"no good \w* ?\w* ?results? (?:was |were )?found|your search .{0,120}did not match"
    r"|page id .{1,120} does not match"
    r"|^\W*(?:(?:requested |the )?(?:entity|resource|page|route) (?:was )?)?not found\W*$",
    r"\bempty (?:result|response)(?:s| set)?\W*$|\b(?:0|no) rows\b"
    r"|(?:returned|yielded) (?:no|0|zero) (?:results?|rows)",
)


@cache
def _elsewhere() -> dict[Code, re.Pattern[str]]:
    return {code: _any_of(phrases) for code, phrases in lexicon().said.items()}


@cache
def _challenges() -> re.Pattern[str]:
    return _any_of(lexicon().challenges)


def _any_of(phrases: Iterable[str]) -> re.Pattern[str]:
    return pattern(*map(re.escape, phrases))


def said_elsewhere(text: str) -> Code | None:
    """What a text in another language than English reports."""
    return next((code for code, phrases in _elsewhere().items() if phrases.search(text)), None)


def challenge_elsewhere(text: str) -> bool:
    """Whether a text in another language than English asks for a person."""
    return _challenges().search(text) is not None
