"""The faults that a call shows: how an error is named, whether it must come again, and what a run counts of it.

Functions of the features of one call, for the detectors.
"""

from __future__ import annotations

import re
from typing import Final

from tellback.guidance.observations.texts import timeout_in
from tellback.guidance.progress.effects import INTERPRETERS, plain_name, words_in
from tellback.guidance.progress.features import DISTINCT_CHARS, CallFeatures
from tellback.guidance.progress.substance import fault_pattern
from tellback.guidance.progress.trail import ProgressTrail, file_mark, mark

# A path for which a right is missing: another program, or an attempt to get that right, does not get around it.
_NO_RIGHT: Final = re.compile(
    r"permission denied|operation not permitted|(?:password|terminal) is required", re.IGNORECASE
)
_OWNED: Final = re.compile(r"(?<![\w.-])[\w.-]++@[\w.-]+|(?<![\w.])/[\w.@+-]+(?:/[\w.@+-]+)*")
# Who is refused, or finds nobody there, is so whatever is asked for: names, paths and addresses say nothing about it.
_REFUSED: Final = re.compile(
    r"access ?denied|authentication failed|unauthori[sz]ed|not authorized|forbidden|connection (?:refused|closed)"
    r"|(?:can(?:no|')t|could(?:n't| not)|(?:failed|unable) to) connect\b"
    r"|\b(?:invalid|bad|wrong|missing) (?:(?:(?:access|auth\w{0,9}|bearer) )?(?:token|credentials)|api[ -]key)\b"
    r"(?!\W{0,3}(?:at|in|near|line)\b|:? ?[\"'`<])"  # of a parser
    r"|\bunreachable\b|not connected|\bhas been closed"
    r"|failed to verify certificate|certificate verify failed|\b(?:has|is) expired",
    re.IGNORECASE,
)
# A file that is not there is so for every program that is given its name.
_NO_FILE: Final = re.compile(
    r"(?<![\w@+~/-])(?!\w{0,40}Error: )(?:\./)?([\w@+~/-][\w@+~./-]{0,200}+)['\"\u2019]?(?: for reading)?: "
    r"(?:\[Errno 2\] )?No such file or directory"
    r"|No such file or directory: ['\"]([^'\"\n]{1,200})['\"]"  # Python's
)
# A name below a folder of temporary files that a program drew or counted, so that it is another one each time: those of
# `tempfile`, `mktemp` and pytest, process ids, times, and words in which letters and digits alternate.
_TEMPORARY: Final = re.compile(r"/(?:private/)?(?:var/folders/\w+/\w+/\w/|(?:tmp|var)/)")
_DRAWN: Final = re.compile(
    r"(?<![a-zA-Z0-9])(?:tmp(?:\.|(?=[a-z_]{0,9}\d))\w{6,12}|tmp(?!_)[a-z0-9_]{8}(?![a-z0-9_])|pytest-\d|\d{4}"
    r"|(?![a-zA-Z]+\d{1,3}(?![a-zA-Z0-9]))(?=[a-zA-Z]{0,40}\d)(?=\d{0,40}[a-zA-Z])[a-zA-Z0-9]{6})"
)
# Nor is a program there for any shell; each has its own words for it.
_NO_PROGRAM: Final = re.compile(
    r"(?:'|The term ')([\w.+-]{1,80})' is not recognized as|(?:^|: )([\w.+-]{1,80}): command not found$"
    r"|sh: (?:line )?(?:\d+: )?([\w.+-]{1,80}): not found$|command not found: ([\w.+-]{1,80})$"
)
# The machine itself lets nothing through, whichever program asks.
CUT_OFF: Final = re.compile(
    r"Could not resolve host|name resolution|server misbehaving|network (?:is unreachable|access)|sandbox policy"
    r"|no space left|read-only file system",
    re.IGNORECASE,
)
# Errors of the surroundings rather than of the code that is worked on: as long as they stand, nothing can be tried.
BLOCKS: Final = re.compile(
    r"Import ?Error|Module ?Not ?Found|No module named|command not found|cannot import name|can't resolve"
    r"|No such file or directory|not found in|No replacement|not unique|multiple occurrences"
    r"|(?:permission|access) ?denied|unauthori[sz]ed|not (?:authorized|permitted)|\b(?:has|is) expired"
    r"|connection refused|address already in use|EADDRINUSE|port is already allocated"
    rf"|{CUT_OFF.pattern}|{_NO_RIGHT.pattern}|{_NO_PROGRAM.pattern}",
    re.IGNORECASE,
)


def fails_for_certain(features: CallFeatures) -> bool:
    """Check whether a failed call must fail again; a shell's does if its surroundings are missing something."""
    if not features.failed or features.edit or features.views:
        return False
    return not features.programs or BLOCKS.search(features.error) is not None


# They show folders, modes or revisions, which may change while the content of every file stays.
_OF_FOLDERS: Final = words_in("git gh pre-commit ls dir find fd tree stat test [ [[ get-childitem gci which")


def asks_of_contents(features: CallFeatures) -> bool:
    """Check whether a call shows what stands in files, or how tests or a script of the agent's fail on them.

    A test that passes is rightly run again after each commit, a server may read what a mode hid, and a folder or a
    right may be what a script lacks.
    """
    if features.answers or not (features.programs or features.views) or not _OF_FOLDERS.isdisjoint(features.programs):
        return False
    runs = features.effect == "test" or features.scripted or features.probes
    if runs:
        return shows_fault(features) and BLOCKS.search(features.error) is None
    return features.effect in ("read", "search")


def is_refused_edit(features: CallFeatures) -> bool:
    """Check whether an editor refused an edit."""
    return features.failed and features.edit is not None and features.effect == "write" and features.tests is None


# Words of a script that shows a fault. A check that finds nothing prints the same after each edit too.
_SHOWS_FAULT: Final = fault_pattern(r"expected|bug|does(?: not|n't)|did(?: not|n't)|not equal|false")


def shows_fault(features: CallFeatures) -> bool:
    """Check whether a call failed, or its last line has a word for a fault."""
    return features.failed or _SHOWS_FAULT.search(features.last) is not None


def is_refused(features: CallFeatures) -> bool:
    """Check whether the other side refused a call as such, or was not there."""
    return features.tests is None and any(each.search(features.error) for each in (CUT_OFF, _REFUSED, _NO_RIGHT))


def ran_out_of_time(features: CallFeatures) -> bool:
    """Check whether the tool ended a command that took too long, as it will the next one that is started likewise."""
    return features.tests is None and bool(features.programs) and bool(timeout_in(features.error))


def shows_progress(features: CallFeatures) -> bool:
    """Check whether a wait that failed shows a new line: what it waits for moves, though it is not there yet.

    A command line that changes something and then waits for it is another attempt, whatever it shows.
    """
    return features.failed and features.waits and not features.writes and bool(features.lines) and features.known < 1


OWN_SCRIPT: Final = mark("own script")  # the key under which the last script that worked is remembered


def is_own_misuse(trail: ProgressTrail, features: CallFeatures) -> bool:
    """Check whether code that the agent wrote itself fails, by what it takes for granted and not by what it calls."""
    if not features.misuse:
        return False
    written = features.misuse in ("<stdin>", "<string>") or file_mark(features.misuse) in trail.contents
    return written or any(file_mark(path) == file_mark(features.misuse) for path, _ in features.contents)


# A total, an exit code or the end of a crash is the same of any file and any option; what a program says is not.
_COUNTED: Final = re.compile(r"\W{0,3}(?:Executed |Found )?\d|exit code \d|Node\.js v\d")


def error_key(features: CallFeatures) -> str:
    """Return the key of an error, with what was asked where the error alone says too little."""
    if features.tests is None and (key := _key_of_surroundings(features)):
        return mark(f"! {key}")
    if not features.named and features.tests is not None:
        return mark(f"{features.tests.bad} {features.tests.passed} {features.target}")
    if not features.named:
        words = features.target.split() if _COUNTED.match(features.error) else ()
        named = " ".join(word for word in words if not word.startswith("-") or "=" in word)  # `-v` asks for no other
        return mark(f"{features.error_mark} {named or features.purpose or features.target}")
    if len(features.error) < DISTINCT_CHARS and not _names_value_in_cell(features):
        return mark(f"{features.error_mark} {features.news} {features.address or features.target}")
    return f"{features.error_mark:x}"


def _names_value_in_cell(features: CallFeatures) -> bool:
    """Check for an error such as "KeyError: 'rev'" of a cell; a script that fails so elsewhere got further."""
    return bool(features.misuse) and ": " in features.error and plain_name(features.tool) in INTERPRETERS


def _key_of_surroundings(features: CallFeatures) -> str:
    """Return what the surroundings refuse, which is the same whichever call meets it; "" for any other error."""
    key = ""
    if found := CUT_OFF.search(features.error):
        key = found.group().casefold()
    elif found := _REFUSED.search(features.error):
        key = f"{found.group().casefold()} {features.error.partition(' ')[0]}"  # a program, or another word
    elif _NO_RIGHT.search(features.error):
        where = _OWNED.search(features.error) or _OWNED.search(features.shown)
        key = f"right {where.group() if where else features.purpose or features.tool}"
    elif found := _NO_FILE.search(features.error) or _NO_PROGRAM.search(features.error):
        name = found[found.lastindex or 0]
        key = "" if _is_drawn(name) else f"no {name}"
    elif ran_out_of_time(features):
        key = "time"
    return key


def _is_drawn(name: str) -> bool:
    """Check whether a program drew the name of a temporary file."""
    folder = _TEMPORARY.match(name)
    return folder is not None and _DRAWN.search(name, folder.end()) is not None
