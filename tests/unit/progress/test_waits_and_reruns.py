"""Polls of what moves by itself, runs without the changes, and plans that are noted item by item."""

from __future__ import annotations

import pytest

from tellback.guidance.progress.programs import effect_of
from tellback.guidance.shell import simple_commands
from tests.support.dialects import MadeCall, Shell, claude_code, codex_exec, mini_swe_agent, openhands, spoken, woven
from tests.support.stretches import claude_edit

SHELLS: list[Shell] = [claude_code, codex_exec, mini_swe_agent, openhands]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_poll_behind_a_wait_of_its_own_is_a_wait(shell: Shell) -> None:
    """G-308: as `sleep 60; aws ...` is; the sixth that shows the same is told, the third if the process has ended."""
    poll = "aws rds describe-db-instances --query 'DBInstances[].Engine'"
    calls = [each for _ in range(7) for each in (shell("sleep 60"), shell(poll, '["postgres"]'))]
    assert not spoken(calls[:10])
    assert spoken(calls)
    dead = [each for _ in range(4) for each in (shell("sleep 60"), shell("tail -3 train.log", "step 500\nKilled"))]
    assert spoken(dead) == [6]


@pytest.mark.parametrize("shell", SHELLS)
def test_what_says_that_it_is_on_its_way_is_waited_for(shell: Shell) -> None:
    """G-308."""
    pods = "NAME  READY  STATUS  RESTARTS  AGE\napi-1  0/1  ContainerCreating  0  1{0}s"
    assert spoken([shell("kubectl get pods -l app=api", pods.format(n)) for n in range(8)]) == [6]
    crashed = "NAME  READY  STATUS  RESTARTS  AGE\napi-1  0/1  CrashLoopBackOff  4  1{0}s"
    assert spoken([shell("kubectl get pods -l app=api", crashed.format(n)) for n in range(4)]) == [3]


def test_an_empty_command_polls_the_one_that_runs() -> None:
    """G-308: as agents of OpenHands do."""

    def poll(said: str) -> MadeCall:
        return "execute_bash", {"command": "", "is_input": "true"}, said

    assert not spoken([poll(f"[{n}/1412] Compiling part{n}.pyx\n[The command has no new output]") for n in range(14)])
    assert spoken([poll("[The command has no new output after 30 seconds.]") for _ in range(4)]) == [3]


@pytest.mark.parametrize(
    ("tool", "params"),
    [
        ("read_bash", {"shellId": "5", "delay": 60}),
        ("get_terminal_output", {"id": "5"}),
        ("read-process", {"terminal_id": 5, "wait": True}),
        ("command_status", {"CommandId": "5", "WaitDurationSeconds": 60}),
    ],
)
def test_a_poll_of_a_command_that_still_runs_is_a_wait(tool: str, params: dict[str, object]) -> None:
    """G-321: agents of Copilot's CLI, VS Code, Augment and Antigravity look at it with a tool of its own."""
    said = "<command with shellId: 5 is still running after 60 seconds. Use read_bash to continue waiting.>"
    assert not spoken([(tool, params, said) for _ in range(5)])


@pytest.mark.parametrize("shell", SHELLS)
def test_a_run_with_the_changes_put_aside_is_no_further_attempt(shell: Shell) -> None:
    """G-309."""
    failed = "--- FAIL: TestElection (2.01s)\n    election_test.go:88: no leader after 2s\nFAIL\tkv/raft\t2.1s"
    run = shell("go test ./...", failed, 1)
    base = shell("git stash && go test ./...; git stash pop", f"{failed}\nDropped refs/stash@{{0}} (c1d9)")
    assert not spoken([claude_edit(1), run, base, claude_edit(2), run])
    assert spoken([claude_edit(1), run, base, claude_edit(2), run, claude_edit(3), run]) == [7]


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_that_undo_each_other_change_what_is_there(shell: Shell) -> None:
    """G-309."""
    up = [shell("alembic upgrade head", "INFO  Running upgrade 0041 -> 0042, split the name") for _ in range(4)]
    down = [shell("alembic downgrade -1", "INFO  Running downgrade 0042 -> 0041, split the name") for _ in range(4)]
    assert not spoken(woven(up, down))
    assert spoken(up) == [3]


def test_items_of_a_plan_are_noted_one_by_one() -> None:
    """G-309: Claude Code has a call for each, and a plan may have many."""
    created: list[MadeCall] = [("TaskCreate", {"subject": f"Step {n}"}, f"Task #{n} created") for n in range(12)]
    started: list[MadeCall] = [("TaskUpdate", {"taskId": f"{n}", "status": "completed"}, "Updated") for n in range(12)]
    assert not spoken([*created, *started])


@pytest.mark.parametrize(
    "line",
    [
        "aws sqs list-queues",
        "aws ec2 describe-instances --query x",
        "aws s3 ls",
        "aws s3 ls logs",
        "aws logs describe-log-groups",
        "aws logs tail /app --since 1h",
        "aws logs filter-log-events --log-group-name a",
        "terraform state list",
        "terraform show -json",
        "helm list -A",
        "helm get values api",
        "gcloud compute instances list",
        "az vm show -n web",
    ],
)
def test_what_only_lists_what_a_service_has_reads(line: str) -> None:
    """G-309."""
    assert [effect_of(each) for each in simple_commands(line)] == ["read"]


def test_the_logs_of_aws_are_a_service_and_no_verb() -> None:
    """G-309."""
    lines = ("aws logs create-log-group --log-group-name a", "aws logs delete-log-stream", "aws logs put-log-events")
    assert [effect_of(each) for line in lines for each in simple_commands(line)] == ["run"] * 3
    behind = "aws --profile ops --region eu-west-1 logs create-log-group --log-group-name a"
    assert [effect_of(each) for each in simple_commands(behind)] == ["run"]
    assert [effect_of(each) for each in simple_commands("aws --profile ops logs tail /aws/lambda/a")] == ["read"]


ONE_FAILED = "FAILED test_cache.py::test_warm - assert [None, 2] == [0, 2]\n1 failed, 2 passed in 0.14s"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_test_that_comes_out_both_ways_is_run_again(shell: Shell) -> None:
    """G-329: the third pass was told to be the same call with the same result, though one in between had failed."""
    runs = [shell("pytest -q", "3 passed in 0.12s"), shell("pytest -q", ONE_FAILED, 1)]
    passes = [shell("pytest -q", f"3 passed in 0.1{n}s") for n in range(5)]
    assert not spoken([*runs, *passes])
    assert spoken([each for run in passes for each in (run, claude_code("git status", "clean"))])[0] <= 5


@pytest.mark.parametrize("shell", SHELLS)
def test_tests_that_were_just_written_make_no_run_worse(shell: Shell) -> None:
    """G-330: they fail until the code is written; what passed still does."""

    def run(failed: int, passed: int) -> MadeCall:
        names = "".join(f"FAILED test_a.py::test_{n} - AssertionError: {n}\n" for n in range(failed))
        return shell("pytest -q", f"{names}{failed} failed, {passed} passed in 0.2s", 1)

    edits = [claude_edit(n) for n in range(1, 4)]
    assert not spoken([run(0, 3), edits[0], run(1, 3), edits[1], run(2, 3), edits[2], run(3, 3)])
    assert spoken([run(0, 6), edits[0], run(1, 5), edits[1], run(3, 3)]) == [5]


@pytest.mark.parametrize("shell", SHELLS)
def test_builds_of_several_kinds_may_all_pass(shell: Shell) -> None:
    """G-331: four lines of success were no news from the third build on."""
    passed = (
        "[ 50%] Built target ring\n[100%] Built target t\n100% tests passed, 0 tests failed out of 1\nTotal: 0.02 sec"
    )
    flags = ("-fsanitize=address", "-fsanitize=undefined", "-O3", "-Wall -Wextra")
    calls = [
        shell(f"cmake -B b{n} -DCMAKE_CXX_FLAGS='{each}' && cmake --build b{n} && ctest --test-dir b{n}", passed)
        for n, each in enumerate(flags)
    ]
    assert not spoken(calls)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("change", ["git checkout -q v1.{0}", "sed -i 's/LEVEL {0}/LEVEL 1{0}/' src/main.rs"])
def test_a_build_behind_a_change_in_one_line_is_another_build(shell: Shell, change: str) -> None:
    """G-331: only the build was compared, so that the second benchmark went back and forth between two calls."""
    calls = [
        call
        for n in range(4)
        for call in (
            shell(f"{change.format(n)} && cargo build --release", f"    Finished `release` target(s) in 9.{n}s"),
            shell("hyperfine ./target/release/app | grep Time", f"  Time (mean): 12{n}.0 ms"),
        )
    ]
    assert not spoken(calls)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_job_is_alive_while_another_one_is_completed(shell: Shell) -> None:
    """G-332: as a service is whose one-off container has ended well."""
    jobs = "in_progress\nlint: completed\ntest (3.11): in_progress\ntest (3.12): in_progress"
    poll = shell("sleep 60 && gh run view 994 --json status,jobs", jobs)
    assert spoken([poll] * 6) == [6]
    state = (
        "NAME STATUS\nmigrate Exited (0) {0} seconds ago\nweb Up {0} seconds (health: starting)\nworker Up {0} seconds"
    )
    services = [shell("sleep 20; docker compose ps", state.format(20 + n)) for n in range(9)]
    logs = [shell("docker compose logs --tail=1 web", f"web-1 | migrating table {n} of 60") for n in range(9)]
    assert spoken(services[:7]) == [6]
    assert not spoken(woven(services, logs))


@pytest.mark.parametrize("shell", SHELLS)
def test_a_log_that_goes_on_may_speak_of_errors(shell: Shell) -> None:
    """G-332: names of files and tests have such words; a pod that fails in two words in turn does not go on."""
    lines = "[{0}/900] CXX error.{0}.cc.o\n[{0}/900] test_{0}: retry after error"
    assert not spoken([shell("sleep 30; tail -2 build.log", lines.format(n * 40)) for n in range(12)])
    pods = "NAME READY STATUS RESTARTS AGE\npack-x7k2p 0/1 {0} 0 {1}m"
    words = ("ImagePullBackOff", "ErrImagePull")
    polls = [shell(f"sleep {n}0; kubectl get pods -l job=pack", pods.format(words[n % 2], n)) for n in range(1, 7)]
    assert spoken(polls) == [4]
