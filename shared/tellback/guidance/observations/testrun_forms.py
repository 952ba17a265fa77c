"""The forms of test runners whose summary is one line, or two that follow each other. Requirement G-81."""

from __future__ import annotations

import re
from typing import Final

_N: Final = r"\d{1,9}"


def _form(pattern: str) -> re.Pattern[str]:
    """Compile a form; `passed`, `failed`, `errors`, `total` and `of`, all that ran, name its numbers."""
    numbers = re.sub(r"<(passed|failed|errors|total|of)>", lambda word: f"(?P<{word[1]}>{_N})", pattern)
    return re.compile(numbers.replace("<n>", _N), re.MULTILINE)


# In the order in which they are tried: forms that contain another's words come first. In front of each form is a part
# of it that all its texts have: to look for that first saves nine tenths of the time, for a pattern tries every place.
FORMS: Final = tuple(
    (words, _form(pattern))
    for words, pattern in (
        (" completed, ", r"^<total> tests? completed, <failed> failed"),  # Gradle
        (
            ", Assertions: ",
            r"^Tests: <total>, Assertions: <n>(?:, Errors: <errors>)?(?:, Failures: <failed>)?",
        ),  # PHPUnit
        (
            " example",
            r"^<total> examples?, <failed> failures?(?:, <n> pending)?(?:, <errors> errors? occurred)?",
        ),  # RSpec, Hspec
        ("Executed ", r"^[ \t]*Executed <total> tests?, with <failed> failures?"),  # XCTest
        ("- Failed: ", r"^(?:Failed|Passed)! {1,9}- Failed: {1,20}<failed>, Passed: {1,20}<passed>"),  # dotnet
        (" assertions, ", r"^<total> (?:runs|tests), <n> assertions, <failed> failures, <errors> errors"),  # minitest
        (
            " failure",
            r"^(?:<n> doctests?, )?(?:<n> propert(?:y|ies), )?<total> tests?, <failed> failures?\b",
        ),  # ExUnit, bats
        (" failed", r"^<total> tests?, <failed> failed$"),  # harnesses that were written by hand
        ("% tests passed, ", r"^\d{1,3}% tests passed, <failed> tests failed out of <total>"),  # ctest
        ("Failed ", r"^Failed <failed>/<total> (?:subtests|tests?\b)"),  # prove
        # googletest
        (
            "[  PASSED  ]",
            r"^\[ {2}PASSED {2}\] <passed> tests?\.$(?:\n\[ {2}SKIP[^\n]{0,200}){0,9}(?:\n\[ {2}FAILED.{3} <failed> )?",
        ),
        (" | ", r"^(?:ok|FAILED) \| <passed> passed(?: \([^)\n]{1,40}\))? \| <failed> failed"),  # Deno
        (
            " pass\n",
            r"^ {0,4}<passed> pass\n(?: {0,4}<n> (?:skip|todo|filtered out)\n){0,3} {0,4}<failed> fail$",
        ),  # Bun
        (
            "Summary [",
            r"^ {1,8}Summary \[[^\]\n]{1,20}\] <n> tests? run: <passed> passed(?: \([^)\n]{1,60}\))?, <failed> failed",
        ),
        ("Summary [", r"^ {1,8}Summary \[[^\]\n]{1,20}\] <n> tests? run: <passed> passed"),  # cargo nextest
        # Catch2, doctest
        (
            "test cases: ",
            r"^(?:\[doctest\] )?test cases: {1,9}<total> \| {1,9}<passed> passed(?: \| {1,9}<failed> failed)?",
        ),
        ("Tests: succeeded ", r"^(?:\[\w{1,9}\] )?Tests: succeeded <passed>, failed <failed>"),  # ScalaTest
        (": Total ", r"^\[\w{1,9}\] (?:Passed|Failed|Error): Total <total>, Failed <failed>, Errors <errors>"),  # sbt
        (
            " tests ",
            r"^\d\d:\d\d \+<passed>(?: ~<n>)?(?: -<failed>)?: (?:All tests passed|Some tests failed)",
        ),  # Dart, Flutter
        ("***Test Failed***", r"^\*{3}Test Failed\*{3} <failed> failures?"),  # doctest of Python
        (
            " tests containing ",
            r"^Ran <total> tests containing <n> assertions\.\n<failed> failures, <errors> errors",
        ),  # clojure.test
        ("[ FAIL ", r"^\[ FAIL <failed> \| WARN <n> \| SKIP <n> \| PASS <passed> \]"),  # testthat
        (" success", r"^<passed> success(?:es)? / <failed> failures? / <errors> errors?"),  # busted
        (" scenario", r"^<passed> scenarios? passed, <failed> failed"),  # behave
        (
            " scenario",
            r"^<total> scenarios? \((?:<failed> failed)?(?:, )?(?:<n> \w+, )?(?:<passed> passed)?\)",
        ),  # Cucumber
        (" passed, ", r"^<total> tests?, <passed> passed, <failed> failed$"),  # Robot Framework
        ("Executed ", r"Executed <total> of <n> (?:\(<failed> FAILED\)|SUCCESS)"),  # Karma
        ("\u2716", r"^ {1,8}\u2716 {1,9}<failed> of <total> failed"),  # Cypress
        (" skipped; ", r"^<passed> passed; <n> skipped; <failed> failed"),  # Zig
        (" failure", r"^<failed> failures?! in [\d.]{1,12}s\. <total> tests? run"),  # Alcotest
        (
            "Some tests did not pass: ",
            r"^(?:ERROR: )?Some tests did not pass: <passed> passed, <failed> failed, <errors> errored",
        ),  # Julia
        ("Passed: ", r"Failed: <failed>\. {1,4}Skipped: <n>\. {1,4}Passed: <passed>\."),  # EUnit
        # Playwright: the failed tests are listed between the two numbers.
        (
            " failed\n",
            r"^ {2}<failed> failed$(?=\n {4}\S)(?:(?:\n[^\n]{0,300}){1,60}?\n {2}<passed> passed \([\d.]{1,9}m?s\)$)?",
        ),
        (" passed (", r"^ {2}<passed> passed \([\d.]{1,9}(?:ms|s|m)\)$"),
        (" failed", r"^ {2}<failed> tests? failed$"),  # AVA
        (" pass", r"^\W{0,4}<passed> ?(?:/|(?:out )?of) ?<of> (?:\w{1,20} )?tests? pass(?:ed|ing)\b"),  # graders
    )
)
