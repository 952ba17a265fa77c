"""The substance of a result: the part that is new to an agent.

Times, durations, ids, addresses and temporary paths are taken out before two results are compared. Test runs
are compared by their counts: better, worse or the same.

The lines that results have shown tell a result that says nothing new, though it is not the same text. A line is known
by 16 bits of its text; the newest `SEEN_MAX` of an evaluation are remembered, in 2 bytes each.
"""

from __future__ import annotations

import re
import zlib
from array import array
from functools import lru_cache
from typing import Final, Literal

from tellback.guidance.observations.testruns import TestCounts
from tellback.redaction.substrings import searchable

# Characters of an error.
ERROR_CHARS: Final = 300
# Of longer texts the two ends count: errors and summaries stand at the end, and a worker reads every result.
HEAD_CHARS: Final = 2_000
TAIL_CHARS: Final = 4_000
_HEADING_CHARS: Final = 12

# Each pattern begins with one kind of character, which lets `re` skip ahead: one pattern of all took 20 times as long.
_TIMES: Final = re.compile(
    r"\d(?:\d{3}[-/]\d\d[-/]\d\d(?:[T ]\d\d[:_]\d\d(?:[:_]\d\d)?(?:[.,_]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d:\d\d:\d\d(?:[.,]\d+)?|[\d.]*+\s?(?:ms|milliseconds?|µs|us|ns|s|secs?|seconds?|mins?|minutes?|hours?|days?)\b|x[0-9a-fA-F]{4,})"
)
# Ages in a table of `kubectl`, such as 3m12s, and restarts, such as 4 (18s ago): a program that
# crashes again is no news. For every text these would cost 3 µs of each call.
_AGES: Final = re.compile(
    r"\b\d{1,6}[dhm](?:\d{1,3}[hms])?\b|\b\d{1,6} \(\d{1,6}[dhms](?:\d{1,3}[hms])? ago\)"
    r"|(?<=[a-z0-9])-[a-z0-9]{8,10}-[a-z0-9]{5}\b"  # a pod that is made again has another name
)
_AGE_HEADING: Final = "AGE"
# The names of the parts of a page, which a browser's server gives again in each snapshot.
_REFS: Final = re.compile(r"\[ref=\w{1,12}\]|\buid=\d{1,6}_\d{1,6}")
# Durations and times that a service puts beside its answer, as numbers without a unit.
_FIELD_WORDS: Final = ("took", "elapsed", "duration", "latency", "timestamp")
_FIELDS: Final = re.compile(rf"\"(?:{'|'.join(_FIELD_WORDS)})(?:_?[a-zA-Z]{{1,12}})?\": ?[\d.]{{1,20}}")
_TEMP: Final = re.compile(r"/(?:private/)?(?:tmp|var/folders|var/tmp)/[\w.+-]*(?:/[\w.+-]+)*/?")
# Words from their beginning, and `[1] 4711` at that of a line: looked at behind them, for the same reason. Each by
# itself, since every `import` has the last.
_PROCESSES: Final = [
    *((word, re.compile(rf"{word}(?<!\w{word})[ =:#]*\d+")) for word in ("pid", "PID", "process", "Process", "port")),
    ("[1]", re.compile(r"\[(?<![^\n]\[)\d+\] \d+")),
]
# Rust names the thread, sanitizers and Valgrind the process, Spring both; IPython counts the cells that it ran.
_IDS: Final = re.compile(r"' \(\d+\)(?= panicked)|==\d+==| \d+(?= --- \[)|(?<=Cell In\[)\d+")
_HEX: Final = re.compile(r"\b(?:[0-9a-f]{7,64}(?:-[0-9a-f]{4}){0,3}(?:-[0-9a-f]{12})?|[0-9A-F]{12,64})\b")
# Five texts of six have nowhere seven such characters in a row. To see where first saves two thirds of the time.
_HEX_DIGITS: Final = bytes(0x78 if byte in b"0123456789abcdefABCDEF" else 0x20 for byte in range(256))
_HEX_RUN: Final = b"x" * 7
# The results of about six searches or reads of 100 lines; with 400 a run that read in circles was not seen to.
SEEN_MAX: Final = 600
# Of one result; long ones differ early enough.
LINES_MAX: Final = 160
# A shorter line is a brace or a separator, which every file has.
LINE_CHARS: Final = 6
# `cat -n` and `grep -n` number lines. A regular expression for it took 17 times as long.
_DIGITS: Final = "0123456789"
_AFTER_NUMBER: Final = " \t:|-"


Change = Literal["better", "worse", "same"]


def compare_tests(before: tuple[int, int], now: TestCounts) -> Change:
    """Compare a run with the failures and passes before it: fewer failures are better, then more passes."""
    failed, passed = before
    if now.bad != failed:
        return "better" if now.bad < failed else "worse"
    return "better" if now.passed > passed else "same"


def ends_of(text: str) -> str:
    """Return the two ends of a long text."""
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    return f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"


@lru_cache(maxsize=2)  # the fingerprint of a result and the marks of its lines ask for the same
def without_times(text: str) -> str:
    """Return the text without times, durations, addresses, ids of threads, and the names of the parts of a page."""
    within = searchable(text)
    if "ref=" in within or "uid=" in within:
        text = _REFS.sub("~", text)
    if '":' in within and any(word in within for word in _FIELD_WORDS):
        text = _FIELDS.sub("~", text)
    if "panicked" in within or "==" in within or " --- [" in within or "Cell In[" in within:
        text = _IDS.sub("~", text)
    return _TIMES.sub("~", _AGES.sub("~", text) if _AGE_HEADING in within else text)


def without_volatile(text: str) -> str:
    """Return the text without times, durations, ids, addresses and temporary paths."""
    within = searchable(text)  # several times as fast as a search for each in the text itself
    if "tmp" in within or "/var/" in within:
        text = _TEMP.sub("~", text)
    for word, pattern in _PROCESSES:
        if word in within:
            text = pattern.sub("~", text)
    return " ".join(_without_ids(without_times(text)).split())


def _without_ids(text: str) -> str:
    digits = text.encode("latin-1", "replace").translate(_HEX_DIGITS)
    pieces: list[str] = []
    end, place = 0, digits.find(_HEX_RUN)
    while place >= 0:
        found = _HEX.match(text, place)
        if found and not (found[0].isdigit() or found[0].isalpha()):
            pieces += text[end:place], "~"
            end = found.end()
        behind = digits.find(b" ", place)
        place = digits.find(_HEX_RUN, max(behind, end)) if behind >= 0 else -1
    return "".join([*pieces, text[end:]])


def mark_of(text: str) -> int:
    """Return the fingerprint of a text as it is."""
    return zlib.crc32(text.encode("utf-8", "replace"))


def fingerprint(text: str) -> int:
    """Return the fingerprint of a text's substance, stable across processes.

    The middle of a long text counts as it is: what differs there is taken for news.
    """
    seed = 0
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        seed = mark_of(text[HEAD_CHARS:-TAIL_CHARS])
        text = ends_of(text)
    return zlib.crc32(without_volatile(text).encode("utf-8", "replace"), seed)


# The last line of a Python traceback, also behind the margin `E   ` of pytest.
_MARGIN: Final = 4
_EXCEPTION: Final = re.compile(
    r"^(?:E   \s{0,4}|( {0,12}))"
    r"((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failure|Invalid|NotFound)\b(?::\s?.*)?)$",
    re.MULTILINE,
)


# The reason behind a test's name in pytest's summary, and what it says of a fixture alone.
_REASON: Final = re.compile(r"^(?:(?:FAILED|ERROR) \S{1,400} - (?=.)|E {3,12}(?=fixture '))(.{1,300})$", re.MULTILINE)


def last_exception(text: str) -> str:
    """Return the last exception that the output of a test run names, "" without one."""
    found = ""
    for match in _EXCEPTION.finditer(text):
        if not found or len(match[1] or "") <= _MARGIN:  # Mocha's stand further in, as do those in code that is shown
            found = match[2]
    if not found and ("FAILED " in text or "fixture '" in text):
        reasons = _REASON.findall(text)
        found = reasons[-1] if reasons else ""
    return found[:ERROR_CHARS]


_FRAME: Final = re.compile(
    r'^ {2}File "([^"\n]{1,300})", line \d+|^File (\S{1,300}):\d+, in |^Cell In\[\d+\], line \d+', re.MULTILINE
)


_LIBRARY: Final = re.compile(r"/(?:site|dist)-packages/")


def fails_in(text: str, *, without_libraries: bool = False) -> str:
    """Return the name of the file of the last frame of a traceback, "" without one; a cell has that of a script."""
    frames = _FRAME.findall(text) if '  File "' in text or "Cell In[" in text else []
    files = [script or module for script, module in frames]
    if without_libraries:
        files = [file for file in files if not _LIBRARY.search(file)] or files
    return (files[-1].rpartition("/")[2] or "<stdin>") if files else ""


# Lines that stand above what failed, among them the warnings of any program.
_OPENER: Final = re.compile(r"#(?! \d+ SEARCH/)|On branch |(?:\S{1,60} )?(?:warning|warn|deprecated):? ", re.IGNORECASE)


def first_line(text: str) -> str:
    """Return the first line that says something; a heading alone, such as "ERROR:", does not."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = (line for line in lines if len(line) >= _HEADING_CHARS and not _OPENER.match(line))
    return next(said, lines[0] if lines else "")[:ERROR_CHARS]


# A line that a program itself labels as its error, also behind a margin, such as the box that Terraform draws.
_LABELLED: Final = re.compile(
    r"^[^\w\n]{0,6}((?:\S{1,60}: )?(?:FATAL |Fatal )?(?:Error|ERROR|error|Fatal|FATAL|fatal): .{12,300}"
    r"|CONFLICT \([^)\n]{1,40}\): .{4,300})$",
    re.MULTILINE,
)


# pip says that a package's own build failed, and shows above this line what that said.
_BUILD_SAID: Final = re.compile(r"\n {2,8}\[end of output\]")
_BUILD_CHARS: Final = 2_000


def labelled_error(text: str) -> str:
    """Return the first line that is labelled as an error, "" without one."""
    end = _BUILD_SAID.search(text) if "[end of output]" in text else None
    if end is not None:
        said = text[max(0, end.start() - _BUILD_CHARS) : end.start()].rpartition(" lines of output]\n")[2]
        return labelled_error(said) or last_line(said).strip()[:ERROR_CHARS]
    found = _LABELLED.search(text)
    return found[1] if found else ""


# A place follows a name without a gap, stands in front of a finding or of an excerpt, or says that it is a line. In
# "finish: 3 of 10" there is none.
_PLACES: Final = re.compile(
    r"(?<=[\w)\]\"'>])(?::\d+(?::\d+)?\b|\(\d+,\d+\))|\b(?:line|LINE) \d+(?:,? col(?:umn)? \d+)?:?|\bl\.\d+\b"
    r"|^[ \t]*\d+(?::\d+[ \t]| \|)| \d+:\d+(?:-\d+\b|$)",
    re.MULTILINE,
)


def without_places(text: str) -> str:
    """Return a result without times, and without the numbers of lines and columns that it names."""
    return _PLACES.sub("", without_times(text))  # in a time of the day, a line would be found


def error_fingerprint(error: str) -> int:
    """Return the fingerprint of an error: numbers of lines, paths and volatile parts do not matter."""
    if "undefined reference to " in error:
        error = _LINKED.sub("", error)
    return mark_of(without_volatile(without_places(error)).casefold())


# Where a linker misses something depends on what is linked and how.
_LINKED: Final = re.compile(r"^.*(?=undefined reference to )")

_ASKED_TO_RETRY: Final = re.compile(
    r"\b(?:try|run|retry|check) (?:it )?(?:again|back) (?:in|after|later)|retry[-_ ]?after|please (?:wait|retry)",
    re.IGNORECASE,
)


_FAULT_WORDS: Final = r"fail(?:s|ed|ure|ures)?|errors?|wrong|incorrect|mismatch"


def fault_pattern(further: str) -> re.Pattern[str]:
    """Compile a search for the words of any fault and `further` ones, but not in "no failures" or "error: none"."""
    words = rf"\b(?<!\b0 )(?<!\bno )(?:{_FAULT_WORDS}|{further})\b"
    return re.compile(rf"{words}(?!\W{{1,4}}(?:0|none|null|false)\b)", re.IGNORECASE)


# An answer that refuses what was sent: of a form, a service or a script.
_FAULT: Final = fault_pattern(
    r"invalid|alert|denied|rejected|forbidden|must (?:be|contain|have|match|not)|is required"
    r"|\w+backoff|\w+error|err\w+pull|oomkilled|evicted|unhealthy"
    r"|restarting|exited \([1-9]|not (?:allowed|valid|found|accepted|available)"
    r"|unable to|can(?:not|'t)|could(?: not|n't)"
)
# A page that says in a sentence, or as a message whose role may be `alert`, that it did what it was asked to.
_WORKED_WORDS: Final = ("saved", "added", "created", "updated", "sent", "submitted", "deleted", "removed", "success")
_WORKED: Final = re.compile(
    r"(?im)^(?![^\n]{0,120}(?:\bnot?\b|n't\b|\bfail|\berror))(\W{0,8}(?:alert|status)\b)?[^\n]{0,60}"
    rf"\b(?:{'|'.join(_WORKED_WORDS)}(?:fully)?)(?(1)\b|[.!])"
)
_PICTURE: Final = re.compile(
    r"[\W_]*(?:an? )?(?:image|screenshot|picture)(?: omitted| content)?[\W_]*|data:image/.*", re.IGNORECASE
)


def fault_line(text: str) -> str:
    """Return the first line of an answer that says that something is wrong, "" without one."""
    found = _FAULT.search(text)
    if found is None:
        return ""
    line = text[text.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0]
    return "" if _WORKED.match(line) else line.strip(" \t-")[:ERROR_CHARS]


def says_it_worked(text: str) -> bool:
    """Check whether a page says that it did what it was asked to."""
    plain = text.lower()  # the pattern alone took 1.4 ms of a page of 200 lines
    return any(word in plain for word in _WORKED_WORDS) and _WORKED.search(text) is not None


# What a database counts when a statement changed something; made again it changes other rows.
_ROWS_CHANGED: Final = re.compile(
    r"^(?:(?:UPDATE|DELETE|MERGE|COPY|INSERT(?: 0)?) [1-9]\d{0,11}$|Query OK, [1-9]\d{0,11} rows? affected"
    r"|\(?[1-9]\d{0,11} (?:rows?|records?|documents?) (?:were |was )?"
    r"(?:affected|updated|changed|deleted|inserted|modified))",
    re.MULTILINE | re.IGNORECASE,
)
_ROWS_CHARS: Final = 300


def changed_rows(text: str) -> bool:
    """Check whether a short result counts the rows that a statement changed."""
    return len(text) < _ROWS_CHARS and _ROWS_CHANGED.search(text) is not None


def is_picture(text: str) -> bool:
    """Check whether a result stands for a picture that no text shows."""
    return len(text) < 40 and _PICTURE.fullmatch(text.strip()) is not None


def asks_to_retry(text: str) -> bool:
    """Check whether a result itself asks to try again."""
    plain = text.lower()  # the pattern alone took 130 µs of each failed call
    return any(part in plain for part in ("aga", "back", "retry", "plea")) and _ASKED_TO_RETRY.search(text) is not None


_NOTHING: Final = re.compile(
    r"^(?:(?:Error: )?(?:No|Zero|0) (?:[\w -]{0,40}(?:found|match\w*)\b"
    r"|(?:files|results?|hits|occurrences|code|search results|output|rows|items|records)\b).*"
    r"|Nothing (?:was |has been )?found.*|.{0,80}(?:returned|found|yielded) (?:no|0|zero) \w+.*|\(?0 rows\)?.*"
    r"|[^\n]{0,200}\n[-+ ]{1,200}\n\(0 rows\)|Empty set.*"
    r"|(?:[^\n]{0,80}\n{1,3})?None of the [\w ]{0,40}(?:results|matches|hits)\b.*"
    r"|[^\n]{0,200}\n{1,2}No [\w -]{0,40}found\.?"
    r"|(?:We )?(?:could|did|can) ?n(?:o|')t find (?:any|a match).*|.{0,120}\bdid not match any\b.*"
    r"|\[\]|\{\}|null|None|Found 0 .*|Could ?n[o']t find any.*|Tool ran without output.*)?$",
    re.IGNORECASE | re.DOTALL,
)


def is_empty(text: str) -> bool:
    """Check whether a search found nothing."""
    if len(text) >= 400:
        return False
    return _NOTHING.match(text.strip()) is not None


# The status that `curl -w '%{http_code}'` or `curl -I` prints, the sentence of a tool that fetches, a server's page.
_ABSENT: Final = re.compile(
    r"^(?:HTTP|status)?[\s:/.\d]{0,12}\b(?:404|410)\b[^\n]{0,40}$"
    r"|\b(?:status(?: code)?|error|HTTP)[\s:=(\"']{0,4}(?:404|410)\b"
    r"|\b404:? (?:Client Error: )?Not Found\b|^Cannot (?:GET|POST|PUT|DELETE) /"
    r"|\"(?:error|detail|message|title)\": ?\"(?:(?:path|page|route|resource|endpoint) )?not found\""  # as FastAPI
    r"|(?:<title[^>]{0,80}>[^<]{0,60}|Page Title: [^\n]{0,60})(?:\b404\b|not found)"
    r"|<pre>Cannot (?:GET|POST|PUT|DELETE) /",
    re.IGNORECASE,
)
_ABSENT_CHARS: Final = 200  # of its first or last line; of a page, ten times as many


def is_absent(text: str) -> bool:
    """Check whether the answer of an address is that it does not exist."""
    head = text[: 10 * _ABSENT_CHARS].strip()
    if "404" not in head and "410" not in head and "annot" not in head and "ot found" not in head.lower():
        return False
    if head.startswith("<") or "Page Title: " in head:  # of Playwright's server
        return _ABSENT.search(head) is not None
    ends = (head.partition("\n")[0], last_line(text))
    return any(len(line) <= _ABSENT_CHARS and _ABSENT.search(line) is not None for line in ends)


def line_marks(text: str, asked: str) -> tuple[int, ...]:
    """Return the marks of the lines of a result, without those that the call's own text `asked` already has.

    What a script prints because the agent wrote it there is not news, nor is it known from before.
    """
    marks: dict[int, None] = {}
    for line in without_times(text).splitlines():
        said = line.strip()
        plain = said.lstrip(_DIGITS).lstrip(_AFTER_NUMBER)
        if len(plain) >= LINE_CHARS and said not in asked:
            marks[zlib.crc32(plain.encode("utf-8", "replace")) & 0xFFFF] = None
            if len(marks) >= LINES_MAX:
                break
    return tuple(marks)


def last_line(text: str) -> str:
    """Return the last line of a result that says something."""
    lines = text.rstrip().rsplit("\n", 1)
    return lines[-1].strip()


def add_lines(seen: bytes, marks: tuple[int, ...]) -> tuple[float, bytes]:
    """Return the share of a result's lines that was seen before, and the lines seen with them, the newest last.

    The share of a result without lines is 0.
    """
    if not marks:
        return 0.0, seen
    known = set(marks).intersection(array("H", seen))  # a set of all 600 lines costs a fifth more
    new = array("H", [each for each in marks if each not in known])
    share = (len(marks) - len(new)) / len(marks)
    return share, (seen + new.tobytes())[-2 * SEEN_MAX :] if new else seen
