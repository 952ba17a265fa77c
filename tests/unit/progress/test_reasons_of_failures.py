"""A test that fails for another reason after each edit is one that an agent gets on with, whichever runner says so."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.dialects import MadeCall, claude_code, nudges_in

# Of runners that name no exception: "{}" is why the test failed.
RUNS: Final = {
    "go test ./...": "--- FAIL: TestElects (0.01s)\n    raft_test.go:88: {}\nFAIL\nFAIL\tkv/raft\t2.1s\nFAIL",
    "go test ./kv": "--- FAIL: TestElects (0.01s)\npanic: {} [recovered]\n\ngoroutine 7 [running]:\nFAIL\tkv\t0.01s",
    "npx jest": "FAIL a.test.ts\n  \u25cf raft \u203a elects\n\n    {}\n\nTests:  1 failed, 3 passed, 4 total",
    "npx mocha": "  3 passing (12ms)\n  1 failing\n\n  1) raft\n       elects:\n     Error: {}\n      at raft.js:88:5",
    "node --test": "not ok 1 - elects\n  ---\n  duration_ms: 1\n  failureType: 'x'\n  error: '{}'\n# pass 3\n# fail 1",
    "mvn test": "[ERROR] RaftTest.elects:88 {}\n[ERROR] Tests run: 4, Failures: 1, Errors: 0, Skipped: 0",
    "vendor/bin/phpunit": "1) RaftTest::testElects\n{}\n\n/r/RaftTest.php:88\n\nTests: 4, Assertions: 9, Failures: 1.",
    "bundle exec rspec": "  1) Raft elects\n     Failure/Error: expect(raft)\n\n       {}\n\n4 examples, 1 failure\n\n"
    "Failed examples:\n\nrspec ./spec/raft_spec.rb:88 # Raft elects",
    "dotnet test": "  Failed Raft.Elects [12 ms]\n  Error Message:\n   {}\n\nFailed!  - Failed: 1, Passed: 3, Total: 4",
    "mix test": "  1) test elects (RaftTest)\n     test/raft_test.exs:88\n     {}\n\n4 tests, 1 failure",
    "./raft_test": "[ RUN      ] Raft.Elects\na.cc:88: Failure\n{}\n[  FAILED  ] Raft.Elects (0 ms)\n\n 1 FAILED TEST",
}
REASONS: Final = ("no leader was elected", "follower is nil", "log index differs", "vote was refused", "term is stale")
EACH_RUN: Final = pytest.mark.parametrize("command", RUNS)


def reported(command: str, *reasons: str) -> list[int]:
    calls: list[MadeCall] = []
    for n, reason in enumerate(reasons):
        params: dict[str, object] = {"file_path": "/r/raft.x", "old_string": f"a{n}", "new_string": f"b{n}"}
        calls.append(("Edit", params, "The file /r/raft.x has been updated."))
        calls.append(claude_code(command, RUNS[command].format(reason), 1))
    return [call for call, _ in nudges_in(calls)]


@EACH_RUN
def test_a_test_that_fails_for_another_reason_after_each_edit_is_no_repeated_failure(command: str) -> None:
    """G-322."""
    assert not reported(command, *REASONS)


@EACH_RUN
def test_a_test_that_fails_for_the_same_reason_after_each_edit_is_reported_at_the_third(command: str) -> None:
    """G-322: whatever line it is on, and whatever wrong value it gets."""
    assert reported(command, *REASONS[:1] * 5) == [6]
    assert reported(command, *(f"want a leader, got {n}" for n in (3, 5, 8, 13))) == [6]
