"""A test that fails for another reason after each edit is one that an agent gets on with, whichever runner says so."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.dialects import MadeCall, claude_code, spoken

# Of runners that name no exception: "{}" is why the test failed.
RUNS: Final = {
    "go test ./...": "--- FAIL: TestElects (0.01s)\n    raft_test.go:88: {}\nFAIL\nFAIL\tkv/raft\t2.1s\nFAIL",
    "go test ./kv": "--- FAIL: TestElects (0.01s)\npanic: {} [recovered]\n\ngoroutine 7 [running]:\nFAIL\tkv\t0.01s",
    "npx jest": "FAIL a.test.ts\n  \u25cf raft \u203a elects\n\n    {}\n\nTests:  1 failed, 3 passed, 4 total",
    "npx mocha": "  3 passing (12ms)\n  1 failing\n\n  1) raft\n       elects:\n     Error: {}\n      at raft.js:88:5",
    "node --test": "    not ok 1 - elects\n      ---\n      duration_ms: 1.6\n      location: '/r/a.js:2:24'\n"
    "      failureType: 'testCodeFailure'\n      error: '{}'\n      ...\nnot ok 1 - raft\n  ---\n"
    "  duration_ms: 4.3\n  type: 'suite'\n  location: '/r/a.js:2:1'\n  error: '1 failed'\n  ...\n# pass 3\n# fail 1",
    "npm test": "\u2716 raft (1.9ms)\n\u2139 pass 3\n\u2139 fail 1\n\n\u2716 failing tests:\n\ntest at a.js:2:24\n"
    "\u2716 elects (1.997209ms)\n  AssertionError [ERR_ASSERTION]: {}\n\n  1 !== 2\n\n      at a.js:2:50",
    "deno test": "elects ... FAILED (16ms)\n\n ERRORS \n\nelects => ./a_test.ts:1:6\nerror: Error: {}\n  f();\n  ^\n"
    "    at file:///r/a_test.ts:1:35\n\n FAILURES \n\nelects => ./a_test.ts:1:6\n\nFAILED | 1 passed | 1 failed (23ms)",
    "bun test": "8 |   f();\n      ^\nerror: {}\n      at <anonymous> (/r/a.ts:8:7)\n(fail) raft > votes [0.1ms]\n"
    "9 |   g();\nerror: it timed out\n(fail) raft > elects [0.2ms]\n\n 1 pass\n 2 fail\nRan 3 tests. [8.00ms]",
    "npx vitest run --reporter=tap": "TAP version 13\n1..1\nnot ok 1 - v.mjs # time=5ms {{\n"
    "    1..1\n    not ok 1 - raft # time=4ms {{\n"
    "        1..2\n        not ok 1 - elects # time=3.99ms\n            ---\n            error:\n"
    '                message: "{}"\n        ok 2 - votes # time=1s\n    }}\n}}',
    "mvn test": "[ERROR] RaftTest.elects:88 {}\n[ERROR] Tests run: 4, Failures: 1, Errors: 0, Skipped: 0",
    "vendor/bin/phpunit": "1) RaftTest::testElects\n{}\n\n/r/RaftTest.php:88\n\nTests: 4, Assertions: 9, Failures: 1.",
    "phpunit --testdox": "Raft\n \u2718 Elects\n   \u2502\n   \u2502 {}\n   \u2502\n   \u2502 /r/RaftTest.php:88\n\n"
    "Tests: 4, Assertions: 9, Failures: 1.",
    "bundle exec rspec": "  1) Raft elects\n     Failure/Error: expect(raft)\n\n       {}\n\n4 examples, 1 failure\n\n"
    "Failed examples:\n\nrspec ./spec/raft_spec.rb:88 # Raft elects",
    "dotnet test": "  Failed Raft.Elects [12 ms]\n  Error Message:\n   {}\n\nFailed!  - Failed: 1, Passed: 3, Total: 4",
    "mix test": "  1) test elects (RaftTest)\n     test/raft_test.exs:88\n     {}\n\n4 tests, 1 failure",
    "./raft_test": "[ RUN      ] Raft.Elects\na.cc:88: Failure\n{}\n[  FAILED  ] Raft.Elects (0 ms)\n\n 1 FAILED TEST",
}
REASONS: Final = ("no leader was elected", "follower is nil", "log index differs", "vote was refused", "term is stale")
# What changes in each run, in lines that say why a test failed.
VOLATILE: Final = (
    ("open /tmp/raft-{}/log: no such file", ("kqvb", "xzwm", "qjhd", "pwrt")),
    ("node {} is unknown", ("9f3ac1d", "b07c2e4", "1d9e8fa", "c44b0a7")),
    ("node 3c{}-77ab-4b1f-9c3d-5fe8a0b4c9d1 is unknown", ("aaf1b2", "bce9d0", "d1f7a3", "e0b6c4")),
    ("timed out after {}", ("1.2s", "900ms", "1m2s", "850µs")),
    ('Leader() = "{}", want "a"', ("b", "c", "node", "none")),
)
# Where a test ran beside others, which end in another order each time.
ELECTS: Final = (
    "thread 'kv::elects' panicked at src/kv.rs:88:5:\nno leader was elected\n\ntest result: FAILED. 2 passed;"
)
IN_ANY_ORDER: Final = {
    "cargo test": (
        ("test kv::elects ... FAILED", "test kv::votes ... ok", "test kv::ends ... ok"),
        f"{ELECTS} 1 failed",
    ),
    "ctest -j4": (
        ("1/3 Test #2: elects ...***Failed 0.01 sec", "2/3 Test #1: votes ... Passed", "3/3 Test #3: ends ... Passed"),
        "67% tests passed, 1 tests failed out of 3\n\nThe following tests FAILED:\n\t  2 - elects (Failed)",
    ),
    "mix test": (
        (
            "  1) test votes (RaftTest)\n     test/raft_test.exs:8\n     no vote",
            "  2) test elects (RaftTest)\n     test/raft_test.exs:9\n     no leader",
        ),
        "4 tests, 2 failures",
    ),
    "go test ./...": (
        ("ok  \tkv/log\t(cached)", "ok  \tkv/log\t0.2s", "ok  \tkv/log\t(cached)"),
        "--- FAIL: TestElects (0.01s)\n    raft_test.go:88: no leader\nFAIL\nFAIL\tkv/raft\t2.1s\n{}\nFAIL",
    ),
}
EACH_RUN: Final = pytest.mark.parametrize("command", RUNS)


def reported(command: str, *reasons: str) -> list[int]:
    return reported_of(command, *map(RUNS[command].format, reasons))


def reported_of(command: str, *results: str) -> list[int]:
    calls: list[MadeCall] = []
    for n, result in enumerate(results):
        params: dict[str, object] = {"file_path": "/r/raft.x", "old_string": f"a{n}", "new_string": f"b{n}"}
        calls.append(("Edit", params, "The file /r/raft.x has been updated."))
        calls.append(claude_code(command, result, 1))
    return spoken(calls)


@EACH_RUN
def test_a_test_that_fails_for_another_reason_after_each_edit_is_no_repeated_failure(command: str) -> None:
    """G-322."""
    assert not reported(command, *REASONS)


@EACH_RUN
def test_a_test_that_fails_for_the_same_reason_after_each_edit_is_reported_at_the_third(command: str) -> None:
    """G-322: whatever line it is on, and whatever wrong value it gets."""
    assert reported(command, *REASONS[:1] * 5) == [6]
    assert reported(command, *(f"want a leader, got {n}" for n in (3, 5, 8, 13))) == [6]


@pytest.mark.parametrize("command", ["go test ./...", "npx jest", "npx mocha", "mvn test", "mix test", "dotnet test"])
@pytest.mark.parametrize(("reason", "given"), VOLATILE)
def test_a_reason_is_known_again_whatever_changes_in_each_run(
    command: str, reason: str, given: tuple[str, ...]
) -> None:
    """G-350."""
    assert reported(command, *map(reason.format, given)) == [6]


@pytest.mark.parametrize("command", IN_ANY_ORDER)
def test_a_failure_is_known_again_though_other_tests_end_in_another_order(command: str) -> None:
    """G-350."""
    lines, below = IN_ANY_ORDER[command]
    if "{}" in below:
        runs = [below.format(line) for line in lines]
    else:
        runs = ["\n\n".join((*lines[n:], *lines[:n], below)) for n in range(len(lines))]
    assert reported_of(command, *runs, *runs[:1])[:1] == [6]


@pytest.mark.parametrize("took", [("12 ms", "1 s", "< 1 ms", "2 m 3 s")])
def test_how_long_a_test_took_is_no_reason(took: tuple[str, ...]) -> None:
    """G-350."""
    run = RUNS["dotnet test"].format("no leader").replace("12 ms", "{}")
    assert reported_of("dotnet test", *map(run.format, took)) == [6]
    tree = "  raft\n    \u2714 votes{}\n    1) elects\n\n" + RUNS["npx mocha"].format("no leader")
    assert reported_of("npx mocha", *map(tree.format, ("", " (82ms)", "", " (91ms)"))) == [6]


LOGS: Final = {
    "go test -v ./...": "=== RUN   TestElectsAll\n--- PASS: TestElectsAll (0.00s)\n=== RUN   TestElects\n"
    "    raft_test.go:88: {}\n--- FAIL: TestElects (0.01s)\nFAIL\nFAIL\tkv/raft\t2.1s\nFAIL",
    "npx mocha": "  raft\n    \u2714 votes\n    1) elects\n    \u2714 ends\n\n" + RUNS["npx mocha"],
    "bun test": "8 |   f();\nerror: {}\n(fail) raft > elects [0.2ms]\n\n 1 pass\n 1 fail\nRan 2 tests.",
    "bun test a.ts": "error: {}\n(fail) raft > elects [0.2ms]\n(pass) raft > votes\n\n 1 pass\n 1 fail\nRan 2 tests.",
    "npx ava": "  \u2718 [fail]: elects {}\n  \u2714 votes\n  \u2500\n\n  elects\n\n  a.mjs:8\n\n  1 test failed",
}


@pytest.mark.parametrize("command", LOGS)
def test_the_reason_stands_below_the_heading_of_the_failed_test(command: str) -> None:
    """G-322: not below another mention of its name, such as in the list of all tests."""
    assert not reported_of(command, *map(LOGS[command].format, REASONS))
    assert not reported_of(
        command, *(LOGS[command].format(f"leader was {why}") for why in ("deposed", "stale", "mute"))
    )
    assert reported_of(command, *[LOGS[command].format("no leader")] * 4) == [6]
