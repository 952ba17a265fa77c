"""Exits that the documents of a program call no failure, and the same exits of calls that do not ask for them."""

from __future__ import annotations

import pytest

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.observer import ToolObserver

CHANGES = "Plan: 1 to add, 0 to change, 0 to destroy."
DIFFERENCE = "-  replicas: 1\n+  replicas: 2"


def outcome(command: str, exit_code: int, output: str) -> OutcomeCode:
    result = {"stdout": output, "stderr": "", "exit_code": exit_code}
    envelope = ToolObserver(tools=["Bash"]).observe("Bash", params={"command": command}, result=result).envelope
    assert envelope is not None
    return envelope.code


@pytest.mark.parametrize(
    ("command", "exit_code", "output"),
    [
        ("terraform plan -detailed-exitcode -out=p", 2, CHANGES),
        ("cd infra && terraform plan -input=false -detailed-exitcode", 2, CHANGES),
        ("tofu plan -detailed-exitcode", 2, CHANGES),
        ("helm diff upgrade web ./chart --detailed-exitcode", 2, DIFFERENCE),
        ("kubectl diff -f web.yaml", 1, DIFFERENCE),
        ("sleep 45 && gh pr checks 12", 8, "test  pending  0"),
        ("npm outdated", 1, "Package  Current  Wanted  Latest\nleft-pad  1.2.0  1.3.0  1.3.0"),
        ("systemctl is-active nginx", 3, "inactive"),
        ("systemctl is-enabled nginx", 1, "disabled"),
        ("systemctl status nginx", 3, "nginx.service - A web server\n   Active: inactive (dead)"),
        ("dnf check-update", 100, "bash.x86_64  5.2.26-3.fc40  updates"),
        ("jq -e .enabled config.json", 1, "false"),
        ("robocopy src dst /MIR", 3, "Files : 12 copied"),
    ],
)
def test_an_exit_that_is_an_answer(command: str, exit_code: int, output: str) -> None:
    assert outcome(command, exit_code, output) == "ok"


def test_an_answer_without_output() -> None:
    assert outcome("getent passwd nobody2", 2, "") == "no_results"


@pytest.mark.parametrize(
    ("command", "exit_code", "output"),
    [
        ("terraform plan", 2, "Usage: terraform plan"),
        ("terraform plan -detailed-exitcode", 1, "Error: Invalid provider configuration"),
        ("terraform apply -detailed-exitcode", 2, "flag provided but not defined: -detailed-exitcode"),
        ("kubectl diff -f web.yaml", 2, "error: the path does not exist"),
        ("gh pr checks 12", 1, "test  fail  3m2s"),
        ("npm ci && npm outdated", 1, "npm ERR! code ENOENT"),
        ("systemctl start nginx", 3, "Job failed"),
        ("jq .enabled config.json", 1, "null"),
        ("robocopy src dst", 8, "ERROR 5 (0x00000005) Access is denied"),
    ],
)
def test_the_same_exit_of_another_call_is_a_failure(command: str, exit_code: int, output: str) -> None:
    assert outcome(command, exit_code, output) == "error"
