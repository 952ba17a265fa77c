"""Directories that are taken for a delegated control group and that are not; they look like the system's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tellback import Settings
from tellback.commands.resource_limits import CommandLimits, command_cgroup, sweep_orphaned_cgroups
from tellback.commands.runner import ExecutionSpec, run
from tellback_workers import cgroup_parent as groups
from tellback_workers.cgroup_parent import LEAF, NotDelegated, claim_group, own_group
from tellback_workers.policy_file import PolicyFile, TeamSection, read_policy

FILES = {
    "cgroup.controllers": "cpu memory pids\n",
    "cgroup.subtree_control": "memory pids\n",
    "cgroup.type": "domain\n",
    "cgroup.procs": "",
}


class Fake:
    """A hierarchy below `mount` and a /proc that says where this process is in it."""

    def __init__(self, path: Path) -> None:
        self.proc = path / "proc"
        self.mount = path / "a mount"
        (self.proc / "self").mkdir(parents=True)
        self.mount.mkdir()

    def stand(self, group: str, *, root: str = "/", kind: str = "cgroup2") -> None:
        """Put this process into a control group."""
        (self.proc / "self" / "cgroup").write_text(f"1:name=systemd:/x\n0::{group}\n")
        point = str(self.mount).replace(" ", r"\040")
        (self.proc / "self" / "mountinfo").write_text(
            f"22 1 0:5 / /proc rw - proc proc rw\n35 24 0:30 {root} {point} rw shared:9 - {kind} cgroup2 rw\n"
        )

    def group(self, name: str, **files: str | None) -> Path:
        """A directory with its interface files; None leaves one out."""
        path = self.mount / name
        path.mkdir(parents=True)
        for file, text in (FILES | {name.replace("_", ".", 1): text for name, text in files.items()}).items():
            if text is not None:
                (path / file).write_text(text)
        return path


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def test_the_own_group_is_found_below_the_mount(fake: Fake) -> None:
    """It is found where only a part of the hierarchy is mounted, too, as in a container."""
    fake.stand("/system.slice/w.service")
    assert own_group(fake.proc) == fake.mount / "system.slice" / "w.service"
    fake.stand("/docker/1/w", root="/docker/1")
    assert own_group(fake.proc) == fake.mount / "w"
    for outside in ("/docker/2", "/../2"):
        fake.stand(outside, root="/docker/1")
        with pytest.raises(NotDelegated, match="outside of what is mounted"):
            own_group(fake.proc)
    fake.stand("/x", kind="cgroup")
    with pytest.raises(NotDelegated, match="no cgroup v2"):
        own_group(fake.proc)


def test_a_worker_that_has_stepped_aside_finds_its_directory(fake: Fake) -> None:
    """It finds it too where systemd has moved it into the group below."""
    parent = fake.group("w")
    fake.group(f"w/{LEAF}")
    fake.stand(f"/w/{LEAF}")
    assert claim_group("", fake.proc) == parent


def test_controllers_are_turned_on_where_they_are_not(fake: Fake) -> None:
    parent = fake.group("w", cgroup_subtree_control="")
    fake.stand("/elsewhere")
    assert claim_group(str(parent), fake.proc) == parent
    assert (parent / "cgroup.subtree_control").read_text() == "+memory +pids"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"cgroup_controllers": None}, "is not a cgroup v2 directory"),
        ({"cgroup_type": None}, "is the root of all control groups"),
        ({"cgroup_controllers": "cpu memory\n"}, "lacks the controller pids"),
        ({"cgroup_subtree_control": None}, "cgroup.subtree_control cannot be written"),
        ({"cgroup_procs": "1\n"}, "holds processes of others, such as 1, and nothing says it is ours"),
        ({"cgroup_procs": f"{os.getpid()}\n"}, "cgroup.procs: No such file or directory"),  # of no real group
    ],
)
def test_what_is_not_delegated_is_left_alone(fake: Fake, files: dict[str, str | None], reason: str) -> None:
    """The reason stands in the log and in what `tellback doctor` shows."""
    fake.group("w", **files)
    fake.stand("/w")
    with pytest.raises(NotDelegated, match=reason):
        claim_group("", fake.proc)


def test_off_is_off(fake: Fake) -> None:
    with pytest.raises(NotDelegated, match="'off'"):
        claim_group("off", fake.proc)


@pytest.mark.programs
def test_a_group_that_cannot_be_made_leaves_the_limits_to_the_supervisor(tmp_path: Path) -> None:
    """A parent that is gone, or one that is no control group: the command runs, limited as without."""
    for parent in (tmp_path / "gone", tmp_path):
        with command_cgroup(parent, CommandLimits(processes=4)) as group:
            assert group is None
        script = "import os, time\nfor _ in range(6): os.fork()\ntime.sleep(9)"
        limits = CommandLimits(processes=4)
        outcome = run(
            ExecutionSpec(
                argv=["python3", "-c", script], cwd="/", env=dict(os.environ), timeout=20, limits=limits, groups=parent
            )
        )
        assert outcome.error == "killed by this host's policy, rule processes: over 4"
    assert list(tmp_path.iterdir()) == []


def test_without_limits_of_a_tree_no_group_is_made(tmp_path: Path) -> None:
    with command_cgroup(tmp_path, CommandLimits(file=1)) as group:
        assert group is None
    assert not groups.limits_process_trees(PolicyFile(limits=CommandLimits(file=1)))
    assert groups.limits_process_trees(PolicyFile(sections={"acme": TeamSection(limits=CommandLimits(processes=1))}))


def test_a_group_of_this_process_is_not_swept(tmp_path: Path) -> None:
    """A group that another program made, and that is not ours, is not swept either."""
    for name in ("command-x", "other", "command-1-2-3-4"):
        (tmp_path / name).mkdir()
    assert sweep_orphaned_cgroups(tmp_path) == 0
    assert sweep_orphaned_cgroups(tmp_path / "gone") == 0


def test_a_worker_says_how_it_holds_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose policy has no limits claims no directory."""
    monkeypatch.setattr(groups, "_reason", [])
    monkeypatch.setattr(groups, "_claimed", [])
    path = tmp_path / "policy.toml"
    path.write_text("timeout = 5")
    read_policy.cache_clear()
    groups.claim_cgroups(Settings(command_policy=str(path), command_cgroup="off"))
    assert groups.describe_limits() == "none"
    path.write_text("[teams.acme.limits]\nprocesses = 5")
    read_policy.cache_clear()
    groups.claim_cgroups(Settings(command_policy=str(path), command_cgroup="off"))
    assert groups.describe_limits() == "held by looking at processes: TELLBACK_COMMAND_CGROUP is 'off'"
