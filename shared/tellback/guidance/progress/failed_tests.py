"""The tests that a run lists as failed, and why each of them did."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Final

from tellback.guidance.progress.substance import labelled_error, without_volatile

_NAMES_MAX: Final = 40
# Of pytest, go test, unittest and cargo, of Jest, Vitest, minitest, RSpec, Maven, Gradle and dotnet, then of PHPUnit,
# ExUnit and Mocha, which number them, of TAP, CTest, Bazel, googletest and Deno: which tests failed is part of a
# failure, how long they took is not.
_FAILED_NAMES: Final = re.compile(
    r"^(?:FAILED|ERROR) ([^\s|(]\S*)|^[ \t]*--- FAIL: (\S+)|^(?:FAIL|ERROR): (\S+ \S*)|^test (\S+) \.\.\. FAILED"
    r"|^ {1,4}\u25cf ([^\n]{3,200})$|^ {1,4}FAIL {1,4}([^\n]{3,200} > [^\n]{1,200})$"
    r"|^(?: {1,4}\d{1,4}\) )?(?:Failure|Error):\n(\S{1,200}#\S{1,200})"
    r"|^rspec (\S{1,200}:\d+)|^\[ERROR\] {1,4}(\w{1,100}\.\w{1,100})\b"
    r"|^(\S{1,200} > [^\n]{1,200}) FAILED$"
    r"|^ {1,4}Failed (\S{1,200}) \[|^ {0,4}\d{1,4}\) ([^\n]{3,200})$"
    r"|^[ \t]*not ok \d{1,6} (?:- )?([^\n#]{3,200}+)"
    r"(?![^\n]{0,40}\{$|\n *---\n *duration_ms: [^\n]{1,20}\n *type: 'suite')"  # of Vitest and node
    r"|^[ \t]*\d{1,6} - (\S{1,200}) \((?:Failed|Timeout)\)$"
    r"|^(//\S{1,200}) +FAILED\b|^\[ {2}FAILED {2}\] (\w{1,100}\.\w{1,100})"
    r"|^ {0,8}(\S[^\n]{0,200}?) (?:\.\.\. FAILED \(|=> \./\S{1,200}:\d{1,6}:\d{1,6}$)"
    r"|^test at [^\n]{1,400}:\d{1,6}\n\u2716 ([^\n]{1,200}?) \(\d[\d.]{0,20}ms\)$"
    r"|^ {0,4}\u2718 (?:\[fail\]: )?([^\s\d][^\n]{2,300})$"  # AVA, which adds the reason, and PHPUnit's testdox
    r"|^[^\s:]{1,300}:\d{1,7}: error: -\[([^\]\n]{3,200})\] : "  # XCTest
    r"|^\(fail\) ([^\n]{3,200}?)(?: \[[\d.]{1,9}m?s\])?$",
    re.MULTILINE,
)
# Above what a test prints, which go test -v and googletest show before they say that it failed, or above its error,
# which Deno shows before it lists what failed.
_BEGUN: Final = re.compile(
    r"^(?:=== (?:RUN|CONT|NAME)|\[ RUN {6}\]) {1,4}(\S{1,200})$"
    r"|^(\S[^\n]{0,200}?) => \./\S{1,200}:\d{1,6}:\d{1,6}$(?=\nerror: )",
    re.MULTILINE,
)
# The lines below a failed test, of runners that name no exception; those of TAP that are no reason come first.
_ASIDE: Final = re.compile(r"\s*(?:---$|(?:duration_ms|type|location|failureType): )")
_REASON_LINES: Final = 4
_REASON_CHARS: Final = 1_200
# What is below belongs to another test, or to the run.
_NEXT: Final = re.compile(
    r"===|--- |\[ |FAIL|Failed\b|PASS|Tests\b|\(pass|\(fail|ok\b|not ok\b|# "
    r"| {0,4}\d{1,4}(?:\) | \| | (?:tests?|examples?|pass|FAILED)\b)"
)
# The value that it got, how long it took, and words with a digit, such as ids.
_RESULT: Final = re.compile(
    r"\b(?:received|actual|got|but:? was|which is)\b[ :=<].*|\bleft: .*|= .{1,200}?(?=[,;] want\b)"
    r"|(?<=asserting that ).{1,200}?(?= (?:matches|is) )| ?[\[(][<~][^\])]{0,20}[\])]|(?:~|\b\w*?\d\w*)+",
    re.IGNORECASE,
)


def failed_names(text: str) -> tuple[str, ...]:
    """Return the names of the failed tests that the text lists, sorted."""
    names = {found[found.lastindex or 0] for found in _FAILED_NAMES.finditer(text)}
    return tuple(sorted(names)[:_NAMES_MAX])


def _end_of_heading(text: str, name: str) -> int:
    """Return where the last heading of one of the failed tests ends, below which its failure stands."""
    for headings in (_BEGUN, _FAILED_NAMES):
        ends = [found.end(found.lastindex or 0) for found in headings.finditer(text) if name in found.groups()]
        if ends:
            return ends[-1]
    return len(text)


def reason_of(text: str, name: str) -> str:
    """Return why a test failed, without what changes in each run: the lines below its name, or the first error.

    Bun writes the error above the name.
    """
    start = _end_of_heading(text, name)
    rest, _, below = text[start : start + _REASON_CHARS].partition("\n")
    own = takewhile(lambda line: not _NEXT.match(line), below.splitlines())
    said = (_masked(line) for line in (rest, *own) if not _ASIDE.match(line))
    return " ".join([line for line in said if line][:_REASON_LINES]) or _masked(labelled_error(text))


def _masked(line: str) -> str:
    return _RESULT.sub("~", without_volatile(line)).strip(" ~^")
