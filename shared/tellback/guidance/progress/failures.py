"""Read the error of a failed call: its line, how it is known when it comes back, and what it complains of."""

from __future__ import annotations

import re
from typing import Final

from tellback.guidance.observations.bodies import error_message
from tellback.guidance.observations.diagnostics import command_line, failure_line
from tellback.guidance.observations.testruns import TestCounts
from tellback.guidance.observations.texts import timeout_in
from tellback.guidance.observations.values import decoded_json, is_dict
from tellback.guidance.progress import substance
from tellback.guidance.progress.diagnosed import count_findings, first_finding
from tellback.guidance.progress.failed_tests import failed_names, reason_of
from tellback.guidance.progress.features import DISTINCT_CHARS, CallFeatures
from tellback.guidance.progress.substance import ERROR_CHARS

_CLOSING_WORDS: Final = 2
_BODY_CHARS: Final = 4_000  # of an answer whose message is looked for
# A name, a call or a text that does not fit what it is used on; an assertion may be what a script is about.
_MISUSE: Final = re.compile(r"(?:AttributeError|KeyError|NameError|TypeError|SyntaxError|IndentationError)\b")


# A shell that cannot read the line that it was given.
_UNPARSED: Final = re.compile(r"\S{0,40}sh: (?:-c: )?line \d+: (?:syntax error|unexpected EOF)")
# What `go run` says below the reason.
_BARE: Final = re.compile(r"exit status \d{1,3}$")
# A rebase stops at one commit after another, whose conflicts may all be in one file.
_APPLIED: Final = re.compile(r"^(?:error: )?[Cc]ould not apply \w{4,40}\.\.\. (.{1,200})$", re.MULTILINE)
# Ansible counts the hosts that failed below what failed on them.
_RECAP: Final = re.compile(r"\S{1,100} {1,60}: ok=\d")
_ON_HOST: Final = re.compile(
    r'^fatal: \[[^\]\n]{1,100}\]: [A-Z]{6,12}! => [^\n]{0,2000}?"msg": "((?:[^"\\\n]|\\.){4,300})', re.MULTILINE
)
_PLACE: Final = re.compile(r":\d")
_NUMBER: Final = re.compile(r"\b\d{1,9}\b")
# A finding in a file that was named is about that file.
_FILE_PLACE: Final = re.compile(r"\w\.\w{1,5}(?::\d|\(\d)")
# A longer call is a script, whose words any error has; a longer result says more than what it complains of.
_ASKED_CHARS: Final = 400
_COMPLAINT_CHARS: Final = 1_000
# Questions are asked of each name of a list, and some answers are no, which no program calls its error.
_ATTEMPTS: Final = frozenset({"write", "run", "install", "test"})
# The number behind a host's name is its port, not a line.
_ADDRESS: Final = re.compile(
    r"\w{1,20}://\S{1,200}|\b(?:localhost|[\d.]{7,15}|[\w.-]{1,80}\.(?:com|org|net|io|dev|local|internal)):\d{1,5}"
)
# It says how much is wrong and not what, which the rest of the result does.
_TOTAL: Final = re.compile(
    r"^\W{0,3}(?:Executed |Found )?\d{1,9} (?:errors?|problems?|issues?|files?|out of)\b"
    r"|^g?make(?:\[\d+\])?: \*\*\* .* Error \d+$|^Node\.js v\d"  # the last line of each of Node's crashes
)
# It passes on that something failed, or how often, and what failed stands above it.
_PASSED_ON: Final = re.compile(
    r"(?!No test)(?:[^\w\n]{0,4}YN0000: |Hint: |\* What went wrong|[^\n]{0,200}(?:ld returned|linker command failed"
    r"|build stopped|test run failed|following build commands?\b|did not complete successfully|[Bb]uild failed"
    r"|BUILD FAIL|[Ee]xecution failed for task|could not compile|aborting due to|[Ff]ailed with errors|Command failed"
    r"|aborted due to compilation errors|(?:Run|Try) '[^'\n]{1,80}' for (?:more|usage)"
    r"|BEGIN failed--compilation aborted|[^\w\n]{2,40}Startup Error"
    r"|Error: (?:Could not create the Java Virtual Machine|A fatal exception has occurred)"
    r"|\d{1,4} \| |Dockerfile:\d"  # Docker shows where the step stands
    r"|(?:[\d.]{1,9} )?npm (?:ERR!|error) (?:code|errno|syscall|path|A complete log)"
    r"|Aborted with \d{1,9} warnings? in strict mode|Pass --verbose to "  # MkDocs; Nx
    r"|tests? (?:completed|failed)\b|ELIFECYCLE"
    r"|(?:exit (?:code|status)|status|code|(?<![A-Za-z])Error|returned):? \d{1,3}[.:)]?$))"  # no "IndexError: 3"
)
# npm says why in its first lines, and what to do in the last; docker puts the time in front.
_OF_NPM: Final = re.compile(r"(?:#\d{1,4} )?(?:[\d.]{1,9} )?(npm (?:ERR!|error) \S.*)")
# Laravel and others write what an exception says below its class.
_CLASS: Final = re.compile(r"(?:\w+[.\\:]{1,2})*\w*(?:Exception|Error)")
_SAYS: Final = re.compile(r"\w{3}")
# Below what was wrong with the arguments.
_USAGE: Final = re.compile(r"^usage(?: of \S{1,200})?:", re.MULTILINE | re.IGNORECASE)
# The value that a test got. A wrong theory gives another wrong one after each edit, and the expected one stays.
_GOT: Final = re.compile(
    r"(?:\bassert |AssertionError: |\b[Gg]ot:? |\bexpected (?=[-\d.]{1,40} to )|\bWhich is: "  # Chai; googletest
    r"|XCTAssert\w{1,40} failed: \(\")-?\d{1,20}(?:\.\d{1,20})?(?![\w.])"
)
# SWE-agent's editor says with the same words each time that it refused, and why in a list below.
_LISTED: Final = re.compile(r"^ERRORS:\n- (.{4,300})$", re.MULTILINE)
# What an error quotes. If the call has it too, the error is about that and not about one item of a list.
_QUOTED: Final = re.compile(r"[\"'`\u2018\u201c]([^\"'`\u2018\u2019\u201c\u201d\n]{3,80})[\"'`\u2019\u201d]")


def read_failure(features: CallFeatures, text: str, *, runs: bool, reported: bool) -> None:
    """Read the error of a failed call, how it is known again, and what a run counted of it."""
    if features.tests is None and features.effect == "test":
        features.findings = count_findings(text, whole=len(text) < substance.HEAD_CHARS + substance.TAIL_CHARS)
    acts = features.fetches or (features.effect == "write" and not substance.labelled_error(text))
    tried = runs or features.effect == "wait" or (acts and bool(features.programs))
    error = _said_by_run(text)[:ERROR_CHARS] if tried else ""
    raised = ""
    if features.tests is not None or error.startswith("ImportError while loading"):  # what is missing stands below
        raised = substance.last_exception(text)
        error = raised or error
    if _BARE.match(error):
        above = [line for line in text.partition(f"\n{error}")[0].splitlines() if line.strip()]
        error = above[-1].strip() if above and features.tests is None else error
    if _RECAP.match(error):
        error = (_ON_HOST.findall(text) or [error])[-1]
    if error.startswith("Traceback "):  # cut off before the exception
        error = ""
    error = (error or _message_in_body(text) or (timeout_in(text) if runs else ""))[:ERROR_CHARS]
    names = failed_names(text) if features.tests is not None else ()
    labelled = substance.labelled_error(text) if (runs or features.programs) and not error else ""
    # One that names a place is a finding of a compiler, and the rest of the result says which.
    if reported and features.tests is None and not _PLACE.search(_ADDRESS.sub("", labelled)):
        error = error or labelled
    unknown = not (error or labelled) and reported and features.effect == "run" and features.tests is None
    error = _closing_line(text) if unknown else error
    features.named = bool(names) or not runs or bool(error and _TOTAL.search(error) is None)
    shown = error if features.tests is None else _with_test(error, features.tests, names)
    features.error = shown or labelled or _first_said(features, text)
    if _UNPARSED.match(features.error):
        features.misuse = "<string>"
    else:
        of_key = _KEY.match(features.error) is not None  # pandas raises it in its own files, for a column of the caller
        misused = _MISUSE.match(features.error)
        features.misuse = substance.fails_in(text, without_libraries=of_key) if misused else ""
    missing = _missing_key(text, features.error) if features.misuse else ""
    # A last line with numbers says how much failed, and not what.
    if features.named and not (unknown and _NUMBER.search(substance.without_times(error))):
        said = _GOT.sub("got", error) if names and error else features.error
        said = _with_message(said, text) if said.endswith(":") else said  # two failures may have one heading
        said_why = raised or (error and not failed_names(error))
        reason = reason_of(text, names[-1]) if names and not said_why else ""
        reason = reason or " ".join(_APPLIED.findall(text)[-1:])
        features.error_mark = substance.error_fingerprint(f"{said} {' '.join(names)} {reason}{missing}".rstrip())
    else:
        features.error_mark = substance.fingerprint(_GOT.sub("got", substance.without_places(text)))
    features.error = _quoted(features, text)[:ERROR_CHARS]


_KEY: Final = re.compile(r"KeyError: ['\"](\w[^'\"\n]{0,80})['\"]$")
# The name in front of a row of attributes, calls and indexes, the last of which has a text in it.
_ASKED_FOR: Final = re.compile(
    r"([A-Za-z_]\w{0,40})(?:\.\w{1,40}|\([^()\n]{0,60}\)|\[[^\[\]\n]{0,60}\]){0,6}[\[(]{1,2}['\"]([^'\"\n]{1,80})['\"]"
)


def _missing_key(text: str, error: str) -> str:
    """Return what lacks the key that an error names: each of three tables may lack the same column."""
    key = _KEY.match(error)
    if key is None:
        return ""
    lines = (line[:_ASKED_CHARS] for line in text.splitlines() if key[1] in line)
    asked = [name for line in lines for name, word in _ASKED_FOR.findall(line) if word == key[1]]
    return f" {asked[-1]}" if asked else ""


def _quoted(features: CallFeatures, text: str) -> str:
    """Return the error, or the line that says more where it only names, counts or passes on what failed."""
    error = features.error
    if (_CLASS.fullmatch(error) or error.endswith(":")) and len(error) >= DISTINCT_CHARS:
        error = _with_message(error, text)
    if _PASSED_ON.match(error):
        return _passed_on(error, text)
    return (first_finding(text) if features.findings and _TOTAL.match(error) else "") or error


def _said_by_run(text: str) -> str:
    line = failure_line(text)
    return (command_line(text) if line.startswith("no tests ran") else "") or line


def _first_said(features: CallFeatures, text: str) -> str:
    listed = _LISTED.search(text) if features.effect == "write" else None
    return listed[1] if listed else substance.first_line(text)


def _with_message(name: str, text: str) -> str:
    """Return the name of an exception, or a heading, with the line below it."""
    below = (line.strip() for line in text.partition(name)[2].splitlines())
    said = next(filter(_SAYS.search, below), "")
    return f"{name.removesuffix(':')}: {said}" if said else name


def _passed_on(error: str, text: str) -> str:
    """Return the closest line above one that only passes a failure on, or that line if there is none."""
    place = text.find(error.partition("\n")[0])
    above = [line.strip() for line in reversed(text[: max(place, 0)].splitlines())]
    says = [line for line in above if _SAYS.search(line) and not _PASSED_ON.match(line)]
    of_npm = [found[1] for line in says if (found := _OF_NPM.match(line))] if says and _OF_NPM.match(says[0]) else []
    return (of_npm or says[:1] or [error])[-1]


def _closing_line(text: str) -> str:
    """Return the last line of a run that failed, where runtimes say why; "" if it says too little."""
    said = _USAGE.split(text, 1)[0]
    lines = (line.strip() for line in reversed((said if said.strip() else text).splitlines()))
    line = next((each for each in lines if _SAYS.search(each) and not _PASSED_ON.match(each)), "")[:ERROR_CHARS]
    return line if len(line) >= DISTINCT_CHARS and line.count(" ") >= _CLOSING_WORDS else ""


def _message_in_body(text: str) -> str:
    """Return the message of an error that a service answered with as JSON, "" of any other text."""
    if not text.lstrip().startswith("{") or len(text) > _BODY_CHARS:
        return ""
    body = decoded_json(text)
    return error_message(body) if is_dict(body) else ""


def _with_test(error: str, tests: TestCounts, names: tuple[str, ...]) -> str:
    """Return what says too little alone together with the first test that failed."""
    if not error or _BARE.match(error):
        passed = f", {tests.passed} passed" if tests.passed else ""  # Go and others do not count them
        return f"{tests.bad} failed{passed}{f': {names[0]}' if names else ''}"
    return f"{error} in {names[0]}" if names and len(error) < DISTINCT_CHARS else error


def read_complaint(features: CallFeatures, text: str, asked: str) -> None:
    """Read what an error has of its own call: words that it quotes, and what it says without them."""
    if features.form:
        features.cites = any(word in asked for word in _QUOTED.findall(features.error))
    short = len(text) <= _COMPLAINT_CHARS and len(asked) <= _ASKED_CHARS
    attempt = features.effect in _ATTEMPTS or bool(substance.labelled_error(text))
    if short and attempt and features.tests is None and not _FILE_PLACE.search(text):
        features.complaint = _complaint_of(text, asked)


_WORD: Final = re.compile(r"[\w$]+(?:-\w+)*")


def _complaint_of(text: str, asked: str) -> int:
    """Return the fingerprint of a failed result without the words of its own call, 0 if it has none of them.

    Names that are guessed one after another, such as columns or packages, fail by one complaint. Numbers stay: whoever
    tries a smaller one narrows something down.
    """
    words = {word for word in _WORD.findall(asked) if not word.isdigit()}
    plain = _WORD.sub(lambda word: "~" if word[0] in words else word[0], text)
    return substance.error_fingerprint(plain) if plain != text else 0
