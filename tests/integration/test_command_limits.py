"""A worker's limits from its policy, and their reports: in the log, the record and `tellback doctor`."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from tellback import Tellback
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.presence import Presence
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers
from tests.unit.test_limits import FORK_BOMB

GIVEN = os.environ.get("TELLBACK_TEST_CGROUP", "")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.toml"
    file.write_text("limits.processes = 16\n[teams.other]\nlimits.processes = 4\n")
    return file


def run_bomb(tb: Tellback) -> str | None:
    """Its record's error; the command bounds itself, too."""
    return (
        tb.submit([sys.executable, "-c", textwrap.dedent(FORK_BOMB)], session="s1", timeout=30).wait(timeout=60).error
    )


def test_a_worker_without_a_control_group_says_so_once(
    tb: Tellback, start_workers: StartWorkers, database: Database, layout: Layout, policy: Path
) -> None:
    """The supervisor enforces the limits all the same."""
    env = {"TELLBACK_COMMAND_POLICY": str(policy), "TELLBACK_COMMAND_CGROUP": "off"}
    workers = start_workers(1, queues="commands", env=env)
    assert run_bomb(tb) == "killed by this host's policy, rule processes: over 16"
    assert workers.log().count("limits.watched") == 1
    presence = Presence(database, layout.team)
    wait_until(lambda: bool(presence.workers()), "the worker gives signs of life")
    (worker,) = presence.workers()
    assert worker.policy == (
        f"{policy}; limits of memory and processes: held by looking at processes: TELLBACK_COMMAND_CGROUP is 'off'"
    )


@pytest.mark.skipif(not GIVEN, reason="TELLBACK_TEST_CGROUP names no cgroup v2 directory with controllers")
def test_a_worker_with_a_control_group_runs_commands_in_groups_below_it(
    tb: Tellback, start_workers: StartWorkers, database: Database, layout: Layout, policy: Path
) -> None:
    """Groups that a killed worker left there go when it starts."""
    parent = Path(GIVEN) / f"worker-{os.getpid()}"
    parent.mkdir()
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    (parent / f"command-{namespace}-99999999-1-0").mkdir()
    workers = start_workers(
        1, queues="commands", env={"TELLBACK_COMMAND_POLICY": str(policy), "TELLBACK_COMMAND_CGROUP": str(parent)}
    )
    assert workers.log().count("limits.grouped") == 1
    assert workers.log().count("limits.swept") == 1
    script = "print(open('/proc/self/cgroup').read().strip().rpartition('::')[2])"
    stood = tb.submit([sys.executable, "-c", script], session="s1").wait(timeout=60).stdout_tail
    assert f"/{parent.name}/command-{namespace}-" in stood
    assert run_bomb(tb) == "killed by this host's policy, rule processes: over 16"
    presence = Presence(database, layout.team)
    wait_until(lambda: bool(presence.workers()), "the worker gives signs of life")
    assert presence.workers()[0].policy.endswith(f"held by control groups below {parent}")
    assert [path.name for path in parent.iterdir() if path.is_dir()] == []
    parent.rmdir()
