"""The one next step of a finding, which depends on the error where the finding has one."""

from __future__ import annotations

from typing import Final

from tellback.contracts.guidance import ToolCall
from tellback.guidance.observations.texts import timeout_in
from tellback.guidance.progress.detectors import NOTHING_SHOWN
from tellback.guidance.progress.effects import SHELLS, plain_name, works_on_code
from tellback.guidance.progress.faults import CUT_OFF
from tellback.guidance.progress.fruitless import MISSING
from tellback.guidance.progress.programs import effect_of
from tellback.guidance.progress.reading import command_line
from tellback.guidance.progress.shell_calls import asks_service
from tellback.guidance.progress.states import is_dead
from tellback.guidance.progress.substance import is_absent
from tellback.guidance.progress.trail import StuckFinding
from tellback.guidance.shell import simple_commands
from tellback.lazy_pattern import lazy_pattern

_ASKED: Final = 2_000  # characters of a call in which an address is looked for
REFUSED_STEP: Final = "Check {what}, and which right or key it asks for; ask for that, or do without."
REFUSED_EDIT_STEP: Final = "Read that part of the file as it is now, then send an edit that fits what stands there."
SERVER_STEP: Final = (
    "The server fails, whatever it is asked: look at its log. If it is yours, restart it, so that it runs your changes."
)
LACKING_STEP: Final = (
    "It will end the same until something is installed, started, set or permitted: do that, or find a way without."
)
# The same error where there is no code to read: of a tool that is none of a coding agent's, of git, of an installer.
SERVICE_STEP: Final = "Act on what the error says: send what it asks for, look up what it lacks, or ask the user."
RAN_OUT_STEP: Final = (
    "Start what has no end in the background, with its input closed and its output in a file, or give it less to do."
)
MISCALLED_STEP: Final = (
    "Compare the arguments that you send with those that the tool asks for, and change the one that the error is about."
)
LIMITED_STEP: Final = "Wait as long as it asks before you call it again, ask for less, or go on with what you have."
ROOM_STEP: Final = "There is no room for all of it: give it less at a time, or free what it lacks (memory, disk)."
MISSING_PAGES_STEP: Final = (
    "Guess no further address or name: open what lists them, such as an index, or search for it."
)
FAILING_CALL_STEP: Final = (
    "It will fail again until something changes: act on the error, or find a way without this call."
)
PAST_END_STEP: Final = "Count its lines, or read it from the beginning, before you ask for others."
TAKEN_STEP: Final = "Find out what holds it (a port, a lock): wait for that, stop it if it is yours, or use another."
GIT_STEP: Final = (
    "Do first what the message asks for: commit or stash, pull, resolve the conflict, correct what the hook found, "
    "or use a branch."
)
UNREADABLE_STEP: Final = (
    "It could not read what you wrote: look at the place that it names, and write that part in another way."
)
COUNTED_STEP: Final = (
    "Find out which tests fail and whether they failed before your first edit; then fix these, or leave them."
)
CHECKED_STEP: Final = "Look up the rule or the declaration that it names before you change anything or run it again."
GUESSED_STEP: Final = (
    "List what there is (the files, options, columns, packages, elements or lines), or search for the name, before you "
    "try another."
)

ENDED_STEP: Final = (
    "It has ended or failed, and no wait changes that: find out why (its log, its exit code), then start it again."
)
ASKED_STEP: Final = "Somebody has to decide this: tell them what is waiting, and go on with what does not depend on it."

# What the code itself got wrong: words such as `Forbidden` or `RateLimiter` in it are the code's, and nobody's refusal.
_OF_CODE: Final = lazy_pattern(
    r"\bAssertion(?:Failed)?Error\b|^(?:E +)?assert |^assertion |\b(?:Attribute|Name|Type|Reference)Error: "
    r"|\bNoMethodError\b|cannot import name|\b[Ee]xpected\b.{0,100}?\b(?:got|but was|to (?:be|equal|include|have))\b"
    r"|\bgot\b.{0,100}?\bwant(?:ed)?\b"
)
# Somebody does not let the agent in: neither other code nor another try changes that.
_REFUSED: Final = lazy_pattern(
    r"[Pp]ermission ?[Dd]enied|[Aa]ccess ?[Dd]enied|[Uu]nauthori[sz]ed|not authorized|[Oo]peration not permitted|EACCES"
    r"|[Ff]orbidden|not allowed to|(?:password|terminal) is required|[Ii]nsufficient permissions|read-only transaction"
    r"|(?:status(?: code)?|error|HTTP\S{0,20})[ :=]{1,2}40[13]\b|\b40[13] (?:[A-Z][a-z]+)|\bE40[13]\b"
    r"|[Aa]uthentication (?:[Ff]ailed|[Rr]equired)|[Mm]ust be (?:root|privileged)|missing_scope"
    r"|(?:[Bb]ad|[Ii]nvalid|[Ll]ocate) [Cc]redentials|\b(?:NEEDAUTH|ENEEDAUTH)\b|auth login"
    r"|[Cc]ould not read (?:Username|Password|from remote repository)|ExpiredToken|\btoken\b.{0,60}\bexpired"
    # Windows and shells in German, French, Spanish, Portuguese and Italian.
    r"|\bZugriff\b.{0,200}\bverweigert|[Kk]eine Berechtigung|[Aa]ccès\b.{0,200}\b(?:refusé|non autorisé)"
    r"|[Pp]ermission (?:non accordée|refusée)|\b[Aa]cc?ess?o\b.{0,200}\b(?:de)?nega[dt]o"
    r"|[Pp]erm(?:iso denegado|issão negada|esso negato)"
)
# A tool could not use the arguments of its call. Of a shell's, a program that it ran says this of its own.
_MISCALLED: Final = lazy_pattern(
    r"\bE(?:ISDIR|NOTDIR)\b|InputValidationError|called with invalid arguments|\b[Rr]equired (?:parameter|property)\b"
    r"|\bparameter `?\w{1,60}`? (?:is missing|type is expected)|[Ii]nvalid arguments for tool"
)
_WHAT: Final = lazy_pattern(
    r"\w{2,10}://[\w.:/@?&=%~#+-]{1,120}|\b[A-Za-z]:(?:\\[\w.@+-]{1,60}){1,8}"
    r"|(?<![\w.<])(?:~|\.{1,2})?(?:/[\w.@+-]{1,60}){1,8}|(?<![\w.-])\w[\w.-]{0,60}@[\w.-]+"
)
_LIMITED: Final = lazy_pattern(
    r"[Rr]ate ?[Ll]imit|[Tt]oo ?[Mm]any ?[Rr]equests|[Tt]hrottl|[Oo]verloaded"
    # A quota that is only named may be a value that something refuses.
    r"|[Qq]uota.{0,40}(?:[Ee]xceed|[Ee]xhaust|[Rr]each|[Ll]imit)"
    r"|(?:[Ee]xceed|[Ee]xhaust|[Oo]ver )\w{0,4}.{0,40}[Qq]uota"
    r"|(?:status(?: code)?|error|HTTP\S{0,20})[ :=]{1,2}429\b"
)
_ROOM: Final = lazy_pattern(
    r"No space left|ENOSPC|[Dd]isk quota|[Oo]ut ?[Oo]f ?[Mm]emory|OOMKilled|\bheap (?:space|limit|out)\b|MemoryError"
    r"|[Cc]annot allocate memory|ENOMEM|^Killed$|exceeds maximum allowed|(?:prompt|file|content) is too (?:long|large)"
    r"|statement timeout"
)
_TAKEN: Final = lazy_pattern(
    r"already in use|EADDRINUSE|port is already allocated|\.lock'?: File exists|[Cc]ould not get lock"
    r"|\b(?:state|is) lock"
)
_GIT: Final = lazy_pattern(
    r"would be overwritten by|[Pp]rotected branch|\[(?:remote )?rejected\]|hook declined|failed to push|hook id"
    r"|CONFLICT \(|[Mm]erge conflict|unmerged files|unresolved conflict|(?:unstaged|uncommitted) changes"
    r"|Author identity unknown"
)
_REFUSED_EDIT: Final = lazy_pattern(
    r"\bold_?[sS]tr(?:ing)?\b|String to replace|No replacement|replace_all|SEARCH(?:/REPLACE)? block"
    r"|Failed to find expected lines"
    r"|could not find the string|proposed edit|File already exists|^New string .*already exists|has not been read"
    r"|patch does not apply|does not match anything|corrupt patch|^String '|\b[Hh]unks? (?:#\d+ )?(?:failed|FAILED)"
    r"|NoMatch|patch failed|[Mm]ultiple occurrences|[Mm]odified since read"
)
_SERVER: Final = lazy_pattern(
    r"\bHTTP/[\d.]+ 50[0-4]\b|\b(?:HTTP|status(?: code)?|error)[ :=]{1,2}50[0-4]\b|\b50[0-4] [A-Z]\w+"
    r"|Internal Server Error"
)
_LACKING: Final = lazy_pattern(
    r"No module named|command not found|^make(?:\[\d+\])?: [\w.+-]+: No such file"
    r"|not recognized as|Cannot find (?:module|package) '[^./]"
    r"|[Cc]ould(?: not|n't) connect|[Cc]annot connect|[Cc]onnection refused"
    r"|(?:[Oo]peration|[Cc]onnection|[Rr]equest|[Rr]ead) timed out|[Dd]eadline exceeded|[Cc]onnection closed"
    r"|\bE(?:TIMEDOUT|CONNREFUSED|NOTFOUND|AI_AGAIN|NETUNREACH|HOSTUNREACH)\b|\bERR_(?:CONNECTION|NAME|INTERNET)_"
    r"|was refused - did you|[Cc]ertificate (?:problem|verify)|verify certificate|environment variable|\$DISPLAY"
    r"|\b[A-Z]\w{2,40} is not set\b|linker `\w{1,40}` not found|No virtual environment|cannot load such file -- [^./]"
    r"|[Cc]onnection to \S.{0,120} failed|API key|sh: (?:line )?(?:\d+: )?\S+: not found$|no such host"
    r"|canceled due to missing packages|Executable doesn't exist|[Kk]ernel died|externally-managed"
)
_UNREADABLE: Final = lazy_pattern(
    r"[Ss]yntax ?[Ee]rror|unexpected EOF|unexpected end of (?:file|input)|parse error|error parsing|converting YAML"
    r"|\bunterminated\b|missing separator"
)
# A file, a target or an option that is named and is not there; of code that opens a file, the code is to be read.
_NAMELESS: Final = lazy_pattern(
    r"could not open port"
    r"|(?<!Errno 2\] )No such file or|can't open file|[Cc]annot find the (?:path|file)|[Ff]ile does not exist"
    r"|[Nn]o rule to make|[Nn]o makefile|[Mm]issing script|pathspec '|\(NotFound\)|[Nn]ot a git repository"
    r"|[Nn]o matching distribution|[Nn]o matching version|[Uu]nable to locate package|file or directory not found"
    r"|[Uu]nknown (?:flag|option|command)\b|[Uu]nexpected argument|[Uu]nrecogni[sz]ed (?:option|argument)"
    r"|(?:[Ii]nvalid|[Ii]llegal) option|ENOENT$|unknown revision"
    # What a build is made from: it is another folder's.
    r"|[Cc]ould(?: not|n't) (?:find|locate|read) (?:an? )?[`'\"]?(?:\w+\.\w|Gemfile)|[Nn]o package\.json"
    r"|[Cc]annot find main module|root manifest not found|does not (?:appear to )?contain (?:a project|CMakeLists)"
)
# Of a compiler or a linter, which names a place and often a rule.
_CHECKED: Final = lazy_pattern(r"\w[:(]\d+(?:[:,]\d+)?\)?: |\berror(?:\[E\d+\]| TS\d+| CS\d+)|too many arguments")
_COUNTED: Final = lazy_pattern(r"^\d+ failed(?:, \d+ passed)?$")
# It is where a command runs, not what it asks for.
_FOLDER: Final = lazy_pattern(r"^\s{0,4}cd \S{1,300}\s{0,4}(?:&&|;)")
# Names that are guessed, of which the error says that there is none.
_GUESSED: Final = lazy_pattern(
    r"does not exist|[Nn]o such|[Nn]ot found|No matching|[Uu]nrecogni[sz]ed name|[Uu]nable to locate"
    r"|[Cc]ould not (?:be )?f(?:i|ou)nd|not in (?:this|the) |out of range|beyond the end|within the range"
)
# The first that fits counts.
_FITTING: Final = (
    (_TAKEN, TAKEN_STEP),
    (_GIT, GIT_STEP),
    (_REFUSED_EDIT, REFUSED_EDIT_STEP),
    (_SERVER, SERVER_STEP),
    (CUT_OFF, LACKING_STEP),
    (_LACKING, LACKING_STEP),
    (_UNREADABLE, UNREADABLE_STEP),
    (_NAMELESS, GUESSED_STEP),
)
_FITTING_KIND: Final = {
    "failing_tool": ((_GUESSED, GUESSED_STEP),),
    "same_failure": ((_CHECKED, CHECKED_STEP), (_COUNTED, COUNTED_STEP)),
}


def next_step(found: StuckFinding, call: ToolCall | None, general: str) -> str:
    """Return the one next step of a finding on a call; `general` is that of its kind."""
    if found.detail == NOTHING_SHOWN:
        return PAST_END_STEP
    if found.kind == "dead_wait":
        return _step_of_wait(found, general)
    if found.subject == MISSING or (found.kind in ("same_failure", "failing_tool") and is_absent(found.detail)):
        return MISSING_PAGES_STEP
    if found.kind not in ("same_failure", "same_call", "failing_tool") or not found.detail:
        return general
    if found.kind == "same_call":
        general = FAILING_CALL_STEP
    elif found.kind == "same_failure" and call is not None and not _has_code(call):
        general = SERVICE_STEP
    if (call is None or _has_code(call)) and _is_of_code(found.detail):
        return general
    own = _about_the_call(found, call)
    fitting = (*_FITTING, *_FITTING_KIND.get(found.kind, ()))
    return own or next((step for pattern, step in fitting if pattern.search(found.detail)), general)


# What a person does, as the tool or the state of what is waited for says; a service or an app may be named `reviews`.
_DECIDED: Final = lazy_pattern(
    r"approv|sign[-_ ]?off|consent|reviewdecision|review[_ -](?:required|requested|pending)"
    r"|(?:await|wait|pend|need|requir)\w{0,5}[\W_]{1,3}(?:(?:for|your|a|an|the|on)[\W_]){0,2}(?:review|confirmation|manual)"
    r"|manual[_ -](?:step|gate|action|intervention|judge?ment|confirmation|review)|\bin[_ -]review\b"
)


def _step_of_wait(found: StuckFinding, general: str) -> str:
    if is_dead(found.detail):  # also what is about approvals: `approval-service exited with code 1`
        return ENDED_STEP
    return ASKED_STEP if _DECIDED.search(f"{found.subject} {found.detail}".lower()) else general


def _about_the_call(found: StuckFinding, call: ToolCall | None) -> str:
    """Return the step for a call that was refused, took too long or was made wrongly, "" for any other."""
    for pattern, step in ((_ROOM, ROOM_STEP), (_LIMITED, LIMITED_STEP)):
        if pattern.search(found.detail):
            return step
    if _REFUSED.search(found.detail):
        return REFUSED_STEP.format(what=_refused_what(found, call))
    if timeout_in(found.detail):
        return RAN_OUT_STEP
    miscalled = call is not None and plain_name(call.tool) not in SHELLS and _MISCALLED.search(found.detail)
    return MISCALLED_STEP if miscalled else ""


def _is_of_code(error: str) -> bool:
    """Check whether an error is what the code itself got wrong, and not how it was called or written."""
    return _OF_CODE.search(error) is not None and not (_MISCALLED.search(error) or _UNREADABLE.search(error))


def _has_code(call: ToolCall) -> bool:
    """Check whether there is code to read for the error of a call: git, an installer and a service have none."""
    line = command_line(call.params)[:_ASKED]
    if not works_on_code(call.tool) or asks_service(line):
        return False
    commands = simple_commands(line)
    return not commands or not (commands[-1].program == "git" or effect_of(commands[-1]) == "install")


def _refused_what(found: StuckFinding, call: ToolCall | None) -> str:
    """Return what was refused as the error or the call names it: an address, a path or an account."""
    asked = ""
    if call is not None:
        asked = _FOLDER.sub("", command_line(call.params)) or " ".join(
            value for value in call.params.values() if isinstance(value, str)
        )
    named = _WHAT.search(found.detail) or _WHAT.search(asked[:_ASKED])
    return f"`{named.group().rstrip('.:')}`" if named else "the address and the account"
