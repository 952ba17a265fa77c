"""The verification gate, on records alone."""

from __future__ import annotations

import msgspec
import pytest

from tellback.commands.gate import build_chains, evaluate_gate
from tellback.contracts.commands import CommandRecord, Verdict, Waiver


def record(id_: str, exit_code: int | None, *argv: str, parent: str | None = None, cwd: str = "/app") -> CommandRecord:
    """A record; without argv, of pytest."""
    error = "timed out after 30 s" if exit_code is None else None
    return CommandRecord(
        command_id=id_,
        session="s",
        command=list(argv) or ["pytest", "-q"],
        parent_command_id=parent,
        cwd=cwd,
        exit_code=exit_code,
        error=error,
    )


def test_only_successes_pass() -> None:
    """The verdict then has no reasons."""
    assert evaluate_gate([record("a", 0), record("b", 0, "ls")], require=[["pytest", "-q"]]) == Verdict(
        passed=True, reasons=[]
    )


def test_no_records_prove_nothing() -> None:
    assert evaluate_gate([]) == Verdict(passed=False, reasons=["no records: nothing has been run"])


def test_a_required_command_must_have_run() -> None:
    """The exact argv counts, and the reason names it as one would type it."""
    verdict = evaluate_gate([record("a", 0)], require=[["pytest", "-q"], ["pytest", "-q", "a b"]])
    assert verdict == Verdict(passed=False, reasons=["required and never run: pytest -q 'a b'"])


def test_a_reason_names_a_long_command_by_its_beginning() -> None:
    """An agent that submits whole scripts still reads a short verdict."""
    script = ["python", "-c", "print(1)\n" * 5_000]
    verdict = evaluate_gate([record("a", 1, *script)], require=[[*script, "-v"]])
    assert [len(reason) < 300 for reason in verdict.reasons] == [True, True]
    assert [reason.count("python -c 'print(1)") for reason in verdict.reasons] == [1, 1]
    assert verdict.reasons[1].endswith("[a]")


def test_a_required_command_is_compared_as_records_show_it() -> None:
    """Redaction does not make a command that ran look absent."""
    ran = record("a", 0, "mysql", "[redacted: password]")
    assert evaluate_gate([ran], require=[["mysql", "--password=x"]]).passed


@pytest.mark.parametrize("exit_code", [1, -9, None])
def test_a_failure_or_a_null_exit_is_refused(exit_code: int | None) -> None:
    """The reason names the command, its end and its id."""
    verdict = evaluate_gate([record("a", exit_code), record("b", 0, "ls")])
    assert not verdict.passed
    assert len(verdict.reasons) == 1
    assert "[a]" in verdict.reasons[0]
    assert ("has no exit code (timed out" if exit_code is None else f"exited with {exit_code}") in verdict.reasons[0]


def test_a_linked_retry_that_succeeds_clears_the_failure_and_says_so() -> None:
    """Any number of attempts may lie between the two."""
    verdict = evaluate_gate([record("a", 1), record("b", None, parent="a"), record("c", 0, parent="b")])
    assert verdict.passed
    assert [reason[:12] for reason in verdict.reasons] == ["passed over:", "passed over:"]


@pytest.mark.parametrize(
    "retry",
    [
        record("b", 0),
        record("b", 0, parent="x"),
        record("b", 0, "pytest", "-q", "tests/one.py", parent="a"),
        record("b", 0, parent="a", cwd="/elsewhere"),
        record("b", 1, parent="a"),
    ],
    ids=["unlinked", "linked to another", "other argv", "other cwd", "failed again"],
)
def test_what_is_no_successful_retry_clears_nothing(retry: CommandRecord) -> None:
    """Only a linked success of the same argv and cwd counts."""
    verdict = evaluate_gate([record("a", 1), retry])
    assert not verdict.passed
    assert "no linked retry has succeeded [a]" in verdict.reasons[0]


def test_a_later_success_without_the_link_is_pointed_at() -> None:
    """The reason says which link is missing."""
    (reason,) = evaluate_gate([record("a", 1), record("b", 0)]).reasons
    assert reason.endswith("[a]; [b] succeeded later, but is not linked to it by its parent")
    (reason,) = evaluate_gate([record("b", 0), record("a", 1)]).reasons
    assert reason.endswith("[a]")


def test_lines_that_are_no_records_are_reported() -> None:
    """They refuse nothing: a killed writer leaves one, and its command has to be run again anyway if it counts."""
    verdict = evaluate_gate([record("a", 0)], unreadable=["feedback_record.jsonl:7"])
    assert verdict.passed
    assert verdict.reasons == ["passed over: feedback_record.jsonl:7 is not a record; its writer may have been killed"]


def test_a_success_before_the_failure_clears_nothing() -> None:
    """A link that points forward in time is no retry."""
    assert not evaluate_gate([record("b", 0, parent="a"), record("a", 1)]).passed


def test_inputs_clear_nothing() -> None:
    """Commands that it merely consumed are its lineage."""
    consumer = CommandRecord(
        command_id="b", session="s", command=["pytest", "-q"], input_command_ids=["a"], exit_code=0
    )
    assert not evaluate_gate([record("a", 1, cwd="/app"), consumer]).passed


def test_a_cycle_of_parents_ends() -> None:
    """Records that name each other, or themselves, are judged like any others."""
    assert not evaluate_gate(
        [record("a", 1, parent="b"), record("b", 1, parent="a"), record("c", 1, parent="c")]
    ).passed
    assert evaluate_gate([record("a", 1, parent="b"), record("b", 0, parent="a")]).passed


def test_evicted_records_are_refused() -> None:
    """An evicted record may have been a failure."""
    assert evaluate_gate([record("a", 0)], evicted=3).reasons == [
        "3 older records are gone: nobody knows what was said there"
    ]


@pytest.mark.parametrize(
    ("retry", "reported"),
    [
        (
            record("b", 0, "pytest", "-q", "tests/one.py", parent="a"),
            "[b] is linked and succeeded, but ran pytest -q tests/one.py",
        ),
        (record("b", 0, parent="a", cwd="/elsewhere"), "[b] is linked and succeeded, but ran in /elsewhere"),
    ],
)
def test_a_linked_success_of_something_else_is_reported(retry: CommandRecord, reported: str) -> None:
    """A person then sees why it clears nothing."""
    (reason,) = evaluate_gate([record("a", 1), retry]).reasons
    assert reason.endswith(reported)


def mistyped(*argv: str, error: str = "program not found: pytset") -> CommandRecord:
    """A record of what could not be started."""
    return CommandRecord(command_id="a", session="s", command=list(argv) or ["pytset", "-q"], error=error)


def test_a_mistyped_argv_is_replaced_by_the_command_that_was_meant() -> None:
    """It was never started, so no retry of the same argv could ever clear it; the verdict says so."""
    typo = mistyped()
    refused = evaluate_gate([typo])
    assert not refused.passed
    assert "any success that is linked to it by its parent clears it" in refused.reasons[0]
    verdict = evaluate_gate([typo, record("b", 1, parent="a"), record("c", 0, parent="b")], require=[["pytest", "-q"]])
    assert verdict.passed
    expected = "passed over: pytset -q (null exit) [a], never started (program not found: pytset), replaced by [c]"
    assert verdict.reasons[0] == expected
    assert not evaluate_gate([typo, record("b", 0)]).passed, "only by a link"


def test_a_command_that_was_mistyped_has_not_run() -> None:
    """A record that nothing was started for meets no requirement."""
    records = [mistyped("pytest", "-q", error="cwd does not exist: /ap"), record("b", 0, "true", parent="a")]
    assert evaluate_gate(records, require=[["pytest", "-q"]]).reasons[0] == "required and never run: pytest -q"


@pytest.mark.parametrize("error", ["lost: the lease of worker w ran out", "timed out after 30 s", "cancelled"])
def test_what_may_have_run_is_not_replaced(error: str) -> None:
    """A lost command has no start time either, but nobody knows what it did."""
    assert not evaluate_gate([mistyped(error=error), record("b", 0, parent="a")]).passed


def test_a_waived_failure_is_passed_over_by_name_and_reason() -> None:
    """The verdict says who waived it and why; another failure still refuses."""
    waiver = Waiver(by="alice@ci", reason="flaky on arm", at="2026-11-23T00:00:00.000Z")
    failed = msgspec.structs.replace(record("a", 1), waiver=waiver)
    verdict = evaluate_gate([failed, record("b", 0, "ls")])
    expected = ["passed over: pytest -q (exit 1) [a], waived by alice@ci: flaky on arm"]
    assert verdict == Verdict(passed=True, reasons=expected)
    assert not evaluate_gate([failed, record("b", 2)]).passed
    assert [chain.unresolved for chain in build_chains([failed])] == [()]
