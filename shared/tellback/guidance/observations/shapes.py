"""Find the line of a failure by the shape of an output, whatever words it uses and in whatever language.

Compilers mark a place with carets or put it in front of the message, runtimes name the class of what was raised, tools
put a cross or a code in front of the line that matters, and count what failed in the last one. Asked only where no
exit code tells; what a script of the agent's own shows in the same shape may be what it was to show. Requirement G-276.
"""

from __future__ import annotations

import re
from typing import Final

_END: Final = 4_000  # characters
_WARNINGS: Final = (
    r"warn(?:ing)?|deprecated|note|info|hint|help|remark|style|Warnung|Hinweis|avertissement|remarque|attention|advertencia|nota"
    r"|avviso|attenzione|aviso|\u8b66\u544a|\u63d0\u793a|\u6ce8\u610f|\uacbd\uace0"
)
_WARNS: Final = re.compile(rf"\b(?:{_WARNINGS})\b", re.IGNORECASE)
# A line of nothing but carets below an excerpt, and a place in a file.
_CARET: Final = re.compile(r"^[ \t|\u2502\d:]{0,200}\^[\^~ ]{0,200}$", re.MULTILINE)
_SPOT: Final = re.compile(r"[\w./\\<>-]{1,300}(?:\.\w{1,8}|>)[:(@]\d{1,7}\b|^ {0,6}\d{1,7} ?[|\u2502]", re.MULTILINE)
# "src/cart.erl:14:3: function total/1 undefined", "<stdin>:1:InvalidRequest: ...".
_PLACED: Final = re.compile(
    r"^(?:[\w./\\+-]{1,300}\.\w{1,8}|<\w{1,20}>)"
    r"(?:(?::\d{1,7}){1,2}(?:[.,]\d{1,7})?(?:-[\d.]{1,12})?:?\s{1,3}|(?::\d{1,7}){1,2}:)(?=[(\[]?\w)(?P<said>[^\n]{4,300})$",
    re.MULTILINE,
)
# "a.gp" line 4: ..., (file "a.tcl" line 4), Syntax error on line 12 of a.conf
_LINED: Final = re.compile(r"(?:\.\w{1,8}[\"']?,? (?:at )?|\bon |\()line:? \d{1,7}(?:$|[:,.)]| of )")
# The class of what was raised, with the modules or namespaces in front of it: `torch.OutOfMemoryError: ...`.
_RAISED: Final = re.compile(
    r"^\s{0,4}(?:\w{1,60}(?:\.|\\|::)){1,8}[A-Z]\w{0,80}(?:Error|Exception|Failure)\b(?:: [^\n]{0,400}|\s*)$"
    r"|^(?:[A-Z]\w{1,60})?(?:Error|Exception): [^\n]{1,300}(?=\n {0,4}--> )"
    r"|^(?!InputValidationError)[A-Z]\w{2,60}(?:Error|Exception)(?::| in| at) [^\n]{1,300}$",  # Claude Code's own
    re.MULTILINE,
)
# In front of a line: a cross, an exclamation mark in brackets, `E:`.
_MARKED: Final = re.compile(
    r"^[^\w\n]{0,8}(?:[\u2716\u2717\u2718\u274c\u2a2f\u00d7\U0001f4a3\U0001f4a5\u26d4]\ufe0f? {0,3}|\[!\] |E: "
    r"|\(error\) |!! )(?=\w)[^\n]{4,300}$|^\s{0,4}[^\n]{1,80}, treated as error[:.]?$",
    re.MULTILINE,
)
# One of these is in what the two patterns find.
_CLASSES: Final = ("Error", "Exception", "Failure")
_MARKS: Final = (
    *"\u2716\u2717\u2718\u274c\u2a2f\u00d7\U0001f4a3\U0001f4a5\u26d4",
    *("[!] ", "E: ", "(error) ", "!! ", "treated as"),
)
# The code of a database ("ORA-00942: ..."), which its client prints in place of rows.
_CODED: Final = re.compile(
    r"\s{0,4}(?:(?:[A-Z]{2,8}-|[A-Z]{2,4})\d{5}:|SQLSTATE\[\w{1,10}\]|Msg \d{1,6}, Level \d{2},|ERROR at line \d{1,6}:)"
)
# Perl's `die`.
_DIED: Final = re.compile(r"[^\n]{1,300} at \S{1,200} line \d{1,7}\.$")
# How a log, a framed line or a runner calls it, and an exit code or a signal in a program's own words.
_CALLED: Final = re.compile(
    r"\s{0,4}(?:(?:[\d:/.,TZ +-]{5,40}(?:[\w.-]{1,40}\[\d{1,9}\]:?)?|\[\w{1,20}\]) {1,3}"
    r"\[?(?:ERROR|error|FATAL|fatal|CRITICAL|PANIC|E(?= \w))\b|[EF]\d{4} [\d:.]{8,20} +\d{1,9} \S{1,80}\] "  # glog
    r"|time=\"?[\dT:.Z+ -]{5,40}\"? level=(?:error|fatal|panic) "  # logrus
    r"|\([A-Z][a-z]{1,20}[A-Z]\w{4,60}\) [A-Z]|\S{1,60}: (?:ERROR|FATAL|FAILED)\b"
    r"|\[(?:ALERT|EMERG|CRIT|FATAL|ERROR|error|fatal)\] "
    r"|\W{0,4}(?:ERROR|FATAL|FAILURES?|ABORTED)\b(?=\W{1,4}\w|\W*$)(?!(?: \w{1,20})?\W{1,3}(?:0|none|no)\b)"
    r"|[^\n]{1,200}[|\[] ?(?:[1-9]\d{0,5} )?FAIL(?:ED)? ?[|\]]\W{0,80}$|[^\n]{0,200}\b(?:non-?zero exit (?:code|status)"
    r"|exit(?:ed)?(?: with)? ?(?:code|status)[ =:'\"]{1,4}[1-9]\d{0,2}\b|SIG(?:SEGV|ABRT|ILL|BUS|FPE)\b))"
)
# "Done. PASS=0 WARN=0 ERROR=1", "3 passed; 1 failed": at least two counts, one of them of what failed.
_COUNT: Final = re.compile(r"\b(?:(\w{2,20})[=:] {0,9}(\d{1,7})|(\d{1,7}) (\w{2,20}))\b(?![/-]|\.\w)")
_BAD: Final = re.compile(
    r"fail|err|fehl|\u00e9che?c|fall[aio]|\u043e\u0448\u0438\u0431|\u5931\u8d25|\u5931\u6557|\u9519\u8bef|\u30a8\u30e9"
    r"|\uc2e4\ud328|broken|unreachable|crash",
    re.IGNORECASE,
)
# "deploy aborted: health check failed": who says so at the end goes on with nothing.
_ABORTED: Final = re.compile(r"[^\w\n]{0,6}(?:\w{2,20} ){0,2}abort(?:ed|ing): \S[^\n]{1,200}$", re.IGNORECASE)
# A document of YAML or a list of settings. Possessive, as a dash may be of the list or of the key.
# "a.js: SyntaxError: ..." is no setting.
_KEYED: Final = re.compile(
    r"(?!(?i:error|fatal)\b)"
    r"(?:(?!\S{1,80}\.\w{1,4}: \w{0,40}[Ee]rror:)[ -]{0,40}+[\w./-]{1,80}+:(?: [^\n]*+)?(?:\n|\Z)){3,}+\Z"
)
_LAST_LINES: Final = 4
_LINE_CHARS: Final = 300


def shape_line(output: str, *, own: bool) -> str | None:
    """Return the line that an output reports a failure by; `own` says that a program of the agent's own printed it."""
    text = output[-_END:]
    ends = _ends(text, of=1 if own else _LAST_LINES)
    # Perl's `warn` ends its line as `die` does, but not the program: only the last line tells.
    died = own and ends and (_DIED.match(ends[-1]) or _ABORTED.match(ends[-1]))
    if died and not _WARNS.search(ends[-1]):
        return ends[-1].strip()
    forms = (_CODED, _RAISED) if own else (_CODED, _CALLED, _LINED)
    for line in ends:
        if any(form.search(line) if form is _LINED else form.match(line) for form in forms) and not _WARNS.search(line):
            return line.strip()
    if own:
        return None
    for pattern, signs in ((_RAISED, _CLASSES), (_MARKED, _MARKS)):
        for found in pattern.finditer(text) if any(map(text.__contains__, signs)) else ():
            line = found.group().strip()
            if not _WARNS.match(line) and _counts_failures(line, least=1) is not False:
                return line
    return _placed_line(text) or _counted_line(text)


def _ends(text: str, *, of: int) -> list[str]:
    """Return the first line and the last ones, in which a program says how it ended."""
    lines = [line.rstrip()[:_LINE_CHARS] for line in text.splitlines() if line.strip()]
    return lines[:1] + lines[1:][-of:]


def _placed_line(text: str) -> str | None:
    for found in _PLACED.finditer(text):
        if not _WARNS.match(found["said"].lstrip("[( ")):
            return found.group().strip()
    if "^" in text and _CARET.search(text) is not None and _WARNS.search(text) is None:
        spot = _SPOT.search(text)
        if spot is not None:
            start, end = text.rfind("\n", 0, spot.start()) + 1, text.find("\n", spot.end())
            if start and text.startswith("-->", start + 1):  # of Ruff and rustc, which first say what is wrong there
                start, end = text.rfind("\n", 0, start - 1) + 1, start - 1
            return text[start : end if end >= 0 else len(text)].strip()
    return None


def _counted_line(text: str) -> str | None:
    """Return one of the last lines if it counts several things, and some of them failed."""
    for line in text.rstrip().splitlines()[-_LAST_LINES:]:
        if _counts_failures(line, least=2):
            return line.strip()
    return None


def is_document(output: str) -> bool:
    """Check for an output of which each line is a key with its value, such as YAML: `name: failed` is data."""
    return _KEYED.match(output.strip()[:_END]) is not None


def counts_none(line: str) -> bool:
    """Check for a line that counts what failed, and that none did: `ok=3 failed=0`."""
    counted = any(_BAD.match(name or after) for name, _, _, after in _COUNT.findall(line[:_LINE_CHARS]))
    return counted and _counts_failures(line, least=1) is False


def _counts_failures(line: str, *, least: int) -> bool | None:
    """Return if some of what a line counts failed; None of a line that counts fewer than `least` things."""
    counts = {
        (name or after).casefold(): int(number or before)
        for name, number, before, after in _COUNT.findall(line[:_LINE_CHARS])
    }
    if len(counts) < least:
        return None
    return counts.get("remaining") != 0 and any(_BAD.match(name) and count for name, count in counts.items())


# awk repeats its place before the source, and before the mark and what is wrong there.
_POINTED: Final = re.compile(r"(?P<place>[^\n]{1,80}: )[^\n]{0,300}\n(?P=place)[ \t]{0,300}\^ (?P<said>\w[^\n]{1,200})")


def pointed_line(text: str) -> str | None:
    """Return what a program says of the place in the source that it quotes in its first line."""
    match = _POINTED.match(text)
    return match and match["place"] + match["said"]
