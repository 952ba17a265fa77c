"""The output of test runners and compilers, with the failures of a drawn scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol


class Drawn(Protocol):
    """The source that a report draws from."""

    def number(self, low: int, high: int) -> int: ...

    def form(self, of: Sequence[str]) -> str: ...

    def draw(self, of: Sequence[str]) -> str: ...

    def seconds(self) -> str: ...

    def clock(self) -> str: ...


class Failure(NamedTuple):
    """A failing test: its name, its file, and what it says."""

    test: str
    path: str
    line: int
    said: str


Report = Callable[[Drawn, Sequence[Failure], int], tuple[str, str]]
"""The command line and the output of a run with these failures and so many passes."""


def _pytest(scene: Drawn, failures: Sequence[Failure], passed: int) -> tuple[str, str]:
    where = failures[0].path if failures else "tests"
    parts = [f"rootdir: /r\ncollected {passed + len(failures)} items\n"]
    parts += [
        f"____ {each.test} ____\n\n    def {each.test}():\n>       check()\n"
        f"E       AssertionError: {each.said}\n\n{each.path}:{each.line}: AssertionError"
        for each in failures
    ]
    parts += [f"FAILED {each.path}::{each.test} - AssertionError: {each.said}" for each in failures]
    counted = f"{len(failures)} failed, " if failures else ""
    parts.append(f"===== {counted}{passed} passed in {scene.seconds()}s =====")
    options = scene.draw(["-q", "-x", "-vv", "--tb=short", "--maxfail 9"])
    return f"python -m pytest {where} {options}", "\n".join(parts)


def _unittest(scene: Drawn, failures: Sequence[Failure], passed: int) -> tuple[str, str]:
    parts = ["Creating test database for alias 'default'...", "." * passed + "F" * len(failures)]
    parts += [
        f"======================\nFAIL: {each.test} (app.tests.CaseTests.{each.test})\n----------------------\n"
        f'Traceback (most recent call last):\n  File "/r/{each.path}", line {each.line}, in {each.test}\n'
        f"    self.check()\nAssertionError: {each.said}"
        for each in failures
    ]
    counted = f"FAILED (failures={len(failures)})" if failures else "OK"
    parts.append(f"----------------------\nRan {passed + len(failures)} tests in {scene.seconds()}s\n\n{counted}")
    return f"./tests/runtests.py app --parallel {scene.number(1, 8)}", "\n".join(parts)


def _jest(scene: Drawn, failures: Sequence[Failure], passed: int) -> tuple[str, str]:
    parts = ["FAIL src/app.test.ts" if failures else "PASS src/app.test.ts"]
    parts += [
        f"  ● App > {each.test}\n\n    {each.said}\n\n      at Object.<anonymous> (src/app.test.ts:{each.line}:9)"
        for each in failures
    ]
    counted = f"{len(failures)} failed, " if failures else ""
    parts.append(f"Tests:       {counted}{passed} passed, {passed + len(failures)} total\nTime:  {scene.seconds()} s")
    return scene.form(["npx jest src/app.test.ts", "npm test -- src/app.test.ts", "npx jest --no-cache"]), "\n".join(
        parts
    )


def _mocha(scene: Drawn, failures: Sequence[Failure], passed: int) -> tuple[str, str]:
    parts = [f"  {passed} passing ({scene.number(20, 900)}ms)"]
    if failures:
        parts.append(f"  {len(failures)} failing\n")
    for n, each in enumerate(failures, 1):
        parts.append(
            f"  {n}) App\n       {each.test}:\n\n      AssertionError: {each.said}\n"
            f"      at Context.<anonymous> (test/app.spec.js:{each.line}:14)"
        )
    return "npx mocha test/", "\n".join(parts)


def _go(scene: Drawn, failures: Sequence[Failure], passed: int) -> tuple[str, str]:
    parts = [
        f"--- FAIL: Test{each.test} ({scene.seconds()}s)\n    app_test.go:{each.line}: {each.said}" for each in failures
    ]
    parts += [f"--- PASS: TestOther{n} (0.00s)" for n in range(passed % 7)]
    parts.append(
        f"FAIL\nFAIL\texample.com/app\t{scene.seconds()}s\nFAIL" if failures else "ok  \texample.com/app\t0.2s"
    )
    return scene.form(["go test ./...", "go test -v ./pkg/app", "go test -count=1 ./..."]), "\n".join(parts)


def _cargo(scene: Drawn, failures: Sequence[Failure], passed: int) -> tuple[str, str]:
    parts = [f"running {passed + len(failures)} tests"]
    parts += [f"test tests::{each.test} ... FAILED" for each in failures]
    parts += [
        f"---- tests::{each.test} stdout ----\nthread 'tests::{each.test}' panicked at src/lib.rs:{each.line}:9:\n"
        f"{each.said}"
        for each in failures
    ]
    result = "FAILED" if failures else "ok"
    parts.append(
        f"test result: {result}. {passed} passed; {len(failures)} failed; 0 ignored; 0 measured; 0 filtered out; "
        f"finished in {scene.seconds()}s"
    )
    return "cargo test", "\n".join(parts)


def _rspec(scene: Drawn, failures: Sequence[Failure], passed: int) -> tuple[str, str]:
    parts = ["Failures:\n"] if failures else []
    for n, each in enumerate(failures, 1):
        parts.append(
            f"  {n}) App {each.test}\n     Failure/Error: check\n\n       {each.said}\n"
            f"     # ./spec/app_spec.rb:{each.line}:in 'block (2 levels) in <top (required)>'"
        )
    parts.append(f"Finished in {scene.seconds()} seconds\n{passed + len(failures)} examples, {len(failures)} failures")
    return "bundle exec rspec spec/app_spec.rb", "\n".join(parts)


def _maven(scene: Drawn, failures: Sequence[Failure], passed: int) -> tuple[str, str]:
    parts = [f"[INFO] Scanning for projects...\n[INFO] Running com.example.AppTest {scene.number(1, 99)}"]
    parts += [
        f"[ERROR] com.example.AppTest.{each.test} -- Time elapsed: {scene.seconds()} s <<< FAILURE!"
        for each in failures
    ]
    parts += [f"[ERROR]   AppTest.{each.test}:{each.line} {each.said}" for each in failures]
    level = "ERROR" if failures else "INFO"
    parts.append(f"[{level}] Tests run: {passed + len(failures)}, Failures: {len(failures)}, Errors: 0, Skipped: 0")
    parts.append(f"[INFO] BUILD {'FAILURE' if failures else 'SUCCESS'}\n[INFO] Total time:  {scene.seconds()} s")
    return scene.form(["mvn test", "mvn -q test -Dtest=AppTest", "./mvnw test"]), "\n".join(parts)


def _tsc(scene: Drawn, failures: Sequence[Failure], passed: int) -> tuple[str, str]:
    del passed
    parts = [f"src/{each.test}.ts({each.line},{scene.number(1, 40)}): error TS2345: {each.said}" for each in failures]
    parts.append(f"Found {len(failures)} errors." if failures else "")
    return scene.form(["npx tsc --noEmit", "npm run build", "npx tsc -p ."]), "\n".join(parts)


def _gcc(scene: Drawn, failures: Sequence[Failure], passed: int) -> tuple[str, str]:
    del passed
    parts = [f"gcc -c -O2 -o build/{each.test}.o src/{each.test}.c" for each in failures]
    parts += [
        f"src/{each.test}.c: In function '{each.test}':\nsrc/{each.test}.c:{each.line}:5: error: {each.said}"
        for each in failures
    ]
    parts.append(
        f"make: *** [Makefile:{scene.number(8, 20)}: build/{failures[0].test}.o] Error 1" if failures else "ok"
    )
    return scene.form(["make", "make -j4", "make -B all"]), "\n".join(parts)


def _script(scene: Drawn, failures: Sequence[Failure], passed: int) -> tuple[str, str]:
    """A script of the repository that fails with the exception of the first failure."""
    if not failures:
        return "python scripts/check.py", f"checked {passed} in {scene.seconds()} s"
    first = failures[0]
    return scene.form(["python scripts/check.py", "python3 scripts/check.py --verbose"]), (
        f"{scene.clock()} INFO start pid={scene.number(900, 99_000)}\nTraceback (most recent call last):\n"
        f'  File "/r/scripts/check.py", line 9, in <module>\n    main()\n'
        f'  File "/r/src/{first.test}.py", line {first.line}, in run\n    go()\nRuntimeError: {first.said}'
    )


def _own_words(scene: Drawn, failures: Sequence[Failure], passed: int) -> tuple[str, str]:
    """A runner that no rule knows."""
    parts = [f"[{scene.clock()}] suite app started"]
    parts += [f"[{scene.clock()}]   x {each.test}: {each.said} (app.zig:{each.line})" for each in failures]
    parts.append(f"[{scene.clock()}] {passed} good, {len(failures)} bad")
    return scene.form(["./run-checks", "./run-checks --all", "zig build check"]), "\n".join(parts)


RUNNERS: Final[dict[str, Report]] = {
    "pytest": _pytest, "unittest": _unittest, "jest": _jest, "mocha": _mocha, "go": _go, "cargo": _cargo,
    "rspec": _rspec, "maven": _maven, "tsc": _tsc, "gcc": _gcc, "script": _script, "own words": _own_words,
}  # fmt: skip
