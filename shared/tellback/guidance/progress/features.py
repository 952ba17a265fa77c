"""The features of one tool call that the measure of progress compares: what it does, to what, and what came of it."""

from __future__ import annotations

from typing import Final

import msgspec

from tellback.guidance.observations.testruns import TestCounts
from tellback.guidance.progress.effects import Effect

# The path of a change that files do not show: an installed package.
ENVIRONMENT: Final = "*environment"
# Reads without a range reach this far.
END: Final = 1 << 30
# The last parts of a path that tell files apart, whichever folder a command names it from.
PATH_PARTS: Final = 3
# Errors shorter than this don't identify a failure; "AssertionError" has 14 characters.
DISTINCT_CHARS: Final = 16
# Characters of a call in feedback.
SHOWN: Final = 90


class Edit(msgspec.Struct, frozen=True, gc=False):
    """A change of one text in a file; `old` and `new` are fingerprints, 0 where there is no text.

    Of a command line, `path` is a file name alone, since commands name a file in several ways; `whole` is the
    fingerprint of the instruction with its address, and of the file with its folders.
    """

    path: str
    old: int
    new: int
    whole: int = 0


class View(msgspec.Struct, frozen=True, gc=False):
    """Lines of a file that were read."""

    path: str
    start: int
    end: int


class CallFeatures(msgspec.Struct, gc=False):  # no dataclass: a worker makes one for each call
    """The features of one call that detectors compare."""

    tool: str
    effect: Effect
    target: str  # what a run or search asks for, without what is only cosmetic
    shown: str  # the call in a few words, for feedback
    folder: str = ""  # that a command line goes to before it runs or tests something
    purpose: str = ""  # of a command line: its program, without options; "" where that says too little
    writes: tuple[str, ...] = ()  # paths that it may have changed; "" means any
    keeps: bool = False  # it changes something, but the content of no file: `mkdir`, `git commit`
    views: tuple[View, ...] = ()
    unchanged: bool = False  # in place of these, it says that they are as they were
    edit: Edit | None = None
    swaps: tuple[Edit, ...] = ()  # replacements that a command line makes
    contents: tuple[tuple[str, int], ...] = ()  # files that it writes as a whole, with fingerprints of their texts
    change: str = ""  # the change in full, so that the same one is known when it is made again
    sought: str = ""  # the words of a search, wherever it looks
    restores: str = ""  # the path that it takes back to an earlier state, "*" for all
    unstashes: bool = False  # it brings back what was put aside
    aside: bool = False  # it puts the changes aside and runs without them
    moves: bool = False  # it goes to another revision, which has failures of its own
    copies: tuple[tuple[str, str], ...] = ()  # files that it copies, each with its copy
    waits: bool = False
    idles: bool = False  # it waits and asks for nothing, so that only other calls show what came of it
    failed: bool = False
    neutral: bool = False  # neither success nor failure, such as a call that the user refused
    retry_asked: bool = False  # by the result itself
    empty: bool = False  # a search or read that found nothing
    fallback: str = ""  # what a command line prints instead if it finds nothing: `|| echo none`
    dead: bool = False  # what it waits for has ended
    fetches: bool = False  # it asks a server for an address, or a service for one thing by its name
    absent: bool = False  # which is not there
    address: str = ""  # that a command line asks
    operates: bool = False  # a command line that works on a service, a cluster or another machine
    lists: bool = False  # a command line that works on a service or a cluster, or asks what it has
    sends: bool = False  # a call that sends something to a service, or may do so
    news: int = 0  # fingerprint of the result's substance
    misuse: str = ""  # the file in which a name, a call or a text did not fit what it was used on
    complaint: int = 0  # mark of the error without the words of the call itself, 0 if it has none
    cites: bool = False  # a tool's error quotes what this call asked for
    error: str = ""
    error_mark: int = 0  # fingerprint of the error and the names of failed tests
    named: bool = True  # `error` says more than a count or the result's first line
    tests: TestCounts | None = None
    findings: int | None = None  # of a compiler, a type checker or a linter that failed
    asks: int = 0  # mark of the plain words of a command line that reads or searches, 0 of any other
    programs: tuple[str, ...] = ()  # of a shell's command line
    acts: int = 0  # how many of these run or change something
    creates: bool = False  # it writes whole files
    wrong: str = ""  # what the editor finds wrong with the file after the edit
    prints: bool = False  # it adds statements that print or takes them out, and changes nothing else
    fixes: bool = False  # it changes files that existed, which may fix what failed
    scripts: tuple[tuple[str, tuple[str, ...]], ...] = ()  # written files, with the files that they write when run
    runs: tuple[str, ...] = ()  # files that it runs
    lines: tuple[int, ...] = ()  # marks of the result's lines
    known: float = 0.0  # share of `lines` that was seen before
    last: str = ""  # the result's last line
    scripted: bool = False  # it runs a script with an interpreter, not code that it has with it
    probes: bool = False  # it has code of its own to run
    logs: bool = False  # it looks at the end of a log, to which whatever runs may write
    answers: bool = False  # a page, a log or a service answers it, which may refuse what it was given
    state: str = ""  # the short result of a look at something other than a file
    fault: str = ""  # the line of the answer with a word for a fault
    faulty: bool = False  # that answer has words for a fault, or shows a whole page
    presses: bool = False  # it works a key, a wheel or a pointer, and its result does not show what came of it
    unseen: bool = False  # the result doesn't show what the call did: a picture, a key that was pressed
    bare: bool = False  # its arguments say nothing beside what they ask for
    form: str = ""  # of a tool's call: its name and those of its arguments

    @property
    def alters(self) -> bool:
        """True if the call changes files, or takes a change back."""
        return bool(self.writes or self.edit or self.restores or self.unstashes or self.copies)

    @property
    def rejected(self) -> bool:
        """True if the call failed and changed nothing; of several acts, those before the one that failed did."""
        return self.failed and self.tests is None and self.acts < 2

    @property
    def counted(self) -> TestCounts | None:
        """The counts of a run: of its tests, or else of what a compiler or linter found."""
        if self.tests is None and self.findings is not None:
            return TestCounts(passed=0, failed=self.findings)
        return self.tests

    @property
    def hides(self) -> bool:
        """True if the result does not show what the call did: only later calls do."""
        return self.unseen or (self.operates and self.effect in ("write", "run"))
