"""The forms of test runners whose summary is one line, or two that follow each other. Requirement G-81."""

from __future__ import annotations

import re
from typing import Final

_N: Final = r"\d{1,9}"


def _form(pattern: str) -> re.Pattern[str]:
    """Compile a form; `passed`, `failed`, `errors` and `total` name its numbers."""
    numbers = re.sub(r"<(passed|failed|errors|total)>", lambda word: f"(?P<{word[1]}>{_N})", pattern)
    return re.compile(numbers.replace("<n>", _N), re.MULTILINE)


# In the order in which they are tried: forms that contain another's words come first.
FORMS: Final = tuple(
    map(
        _form,
        (
            r"^<total> tests? completed, <failed> failed",  # Gradle
            r"^Tests: <total>, Assertions: <n>(?:, Errors: <errors>)?(?:, Failures: <failed>)?",  # PHPUnit
            r"^<total> examples?, <failed> failures?",  # RSpec, Hspec
            r"^[ \t]*Executed <total> tests?, with <failed> failures?",  # XCTest
            r"^(?:Failed|Passed)! {1,9}- Failed: {1,20}<failed>, Passed: {1,20}<passed>",  # dotnet
            r"^<total> (?:runs|tests), <n> assertions, <failed> failures, <errors> errors",  # minitest
            r"^(?:<n> doctests?, )?(?:<n> propert(?:y|ies), )?<total> tests?, <failed> failures?\b",  # ExUnit, bats
            r"^\d{1,3}% tests passed, <failed> tests failed out of <total>",  # ctest
            r"^Failed <failed>/<total> (?:subtests|tests?\b)",  # prove
            # googletest
            r"^\[ {2}PASSED {2}\] <passed> tests?\.$(?:\n\[ {2}SKIP[^\n]{0,200}){0,9}(?:\n\[ {2}FAILED.{3} <failed> )?",
            r"^(?:ok|FAILED) \| <passed> passed(?: \([^)\n]{1,40}\))? \| <failed> failed",  # Deno
            r"^ {0,4}<passed> pass\n(?: {0,4}<n> (?:skip|todo|filtered out)\n){0,3} {0,4}<failed> fail$",  # Bun
            r"^ {1,8}Summary \[[^\]\n]{1,20}\] <n> tests? run: <passed> passed(?: \([^)\n]{1,60}\))?, <failed> failed",
            r"^ {1,8}Summary \[[^\]\n]{1,20}\] <n> tests? run: <passed> passed",  # cargo nextest
            # Catch2, doctest
            r"^(?:\[doctest\] )?test cases: {1,9}<total> \| {1,9}<passed> passed(?: \| {1,9}<failed> failed)?",
            r"^(?:\[\w{1,9}\] )?Tests: succeeded <passed>, failed <failed>",  # ScalaTest
            r"^\[\w{1,9}\] (?:Passed|Failed|Error): Total <total>, Failed <failed>, Errors <errors>",  # sbt
            r"^\d\d:\d\d \+<passed>(?: ~<n>)?(?: -<failed>)?: (?:All tests passed|Some tests failed)",  # Dart, Flutter
            r"^Ran <total> tests containing <n> assertions\.\n<failed> failures, <errors> errors",  # clojure.test
            r"^\[ FAIL <failed> \| WARN <n> \| SKIP <n> \| PASS <passed> \]",  # testthat
            r"^<passed> success(?:es)? / <failed> failures? / <errors> errors?",  # busted
            r"^<passed> scenarios? passed, <failed> failed",  # behave
            r"^<total> scenarios? \((?:<failed> failed)?(?:, )?(?:<n> \w+, )?(?:<passed> passed)?\)",  # Cucumber
            r"^<total> tests?, <passed> passed, <failed> failed$",  # Robot Framework
            r"Executed <total> of <n> (?:\(<failed> FAILED\)|SUCCESS)",  # Karma
            r"^ {1,8}\u2716 {1,9}<failed> of <total> failed",  # Cypress
            r"^<passed> passed; <n> skipped; <failed> failed",  # Zig
            r"^<failed> failures?! in [\d.]{1,12}s\. <total> tests? run",  # Alcotest
            r"^(?:ERROR: )?Some tests did not pass: <passed> passed, <failed> failed, <errors> errored",  # Julia
            r"Failed: <failed>\. {1,4}Skipped: <n>\. {1,4}Passed: <passed>\.",  # EUnit
            # Playwright: the failed tests are listed between the two numbers.
            r"^ {2}<failed> failed$(?=\n {4}\S)(?:(?:\n[^\n]{0,300}){1,60}?\n {2}<passed> passed \([\d.]{1,9}m?s\)$)?",
            r"^ {2}<passed> passed \([\d.]{1,9}(?:ms|s|m)\)$",
            r"^ {2}<failed> tests? failed$",  # AVA
        ),
    )
)
