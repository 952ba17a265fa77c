"""Logins in containers and units, out of reach of the commands that run beside them. Requirements A-125 and A-365."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.processes import run_program
from tests.support.with_login import with_login

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1"}
NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root becomes somebody else")


def test_a_login_is_read_and_nothing_else_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "worker.env").write_text(
        "PATH=/nowhere\nTELLBACK_REDIS_URL=redis://a:b@h/0?x=1&y=$(id)\nFLOWER_X=y z\n"
    )
    script = with_login(tmp_path / "bin", tmp_path)
    shown = run_program([script, "worker", "env"], env={"PATH": os.environ["PATH"]}, check=True)
    environ = dict(line.split("=", 1) for line in shown.stdout.splitlines())
    assert environ["TELLBACK_REDIS_URL"] == "redis://a:b@h/0?x=1&y=$(id)"
    assert environ["FLOWER_X"] == "y z"
    assert environ["PATH"] == os.environ["PATH"]


@as_root
def test_what_it_starts_cannot_read_the_login(tmp_path: Path) -> None:
    """That goes for the worker and for the commands of agents, which run as the worker's user."""
    login = tmp_path / "worker.env"
    login.write_text("TELLBACK_TEAM=acme\n")
    login.chmod(0o600)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    script = with_login(tmp_path / "bin", tmp_path, user="nobody")
    script.write_text(script.read_text().replace("--regid=nobody", "--regid=nogroup"))
    shown = run_program([script, "worker", "sh", "-c", f"id -un; echo $TELLBACK_TEAM; cat {login}"])
    assert (shown.returncode, shown.stdout) == (1, "nobody\nacme\n")
    assert "Permission denied" in shown.stderr


@as_root
def test_a_check_of_a_worker_cannot_be_read_while_it_starts(tmp_path: Path) -> None:
    """A program closes its environment once it runs, and a check starts every few seconds: it stays root's."""
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    (tmp_path / "worker.env").write_text("TELLBACK_REDIS_URL=redis://:pw-of-redis@h\n")
    script = with_login(tmp_path / "bin", tmp_path, user="nobody")
    script.write_text(script.read_text().replace("--regid=nobody", "--regid=nogroup"))
    read = {}
    for options in ([], ["--root"]):
        wait = [str(script), *options, "worker", "sh", "-c", "id -un; read _"]
        with subprocess.Popen(wait, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as check:
            assert check.stdout is not None
            user = check.stdout.readline().strip()
            spy = [*NOBODY, "cat", f"/proc/{check.pid}/environ"]
            read[user] = "pw-of-redis" in run_program(spy).stdout
            check.communicate("\n")
    assert read == {"nobody": True, "root": False}


@as_root
def test_the_init_of_a_container_may_pass_on_the_signal_to_stop() -> None:
    """It is root's, and the worker is not: refused, it ended at once, and the kernel killed the worker."""
    compose: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    powers = ",".join(f"+{name.lower()}" for name in compose["x-tellback"]["cap_add"])
    with subprocess.Popen([*NOBODY, "sleep", "10"]) as worker:
        run_program(["setpriv", "--bounding-set", f"-all,{powers}", "kill", "-TERM", str(worker.pid)], check=True)
        assert worker.wait(60) == -15


@as_root
def test_a_check_of_root_ends_a_hung_worker_of_another_user(tmp_path: Path) -> None:
    """It does so without CAP_KILL too, which no container of an earlier compose file has."""
    node = f"loops@h{os.getpid()}"  # a run beside this one has a worker too
    hung = [*NOBODY, "sh", "-c", "echo up; read _", "worker", node]
    with subprocess.Popen(hung, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"up\n", "before, it is root's"
        check = f"from tellback.doctor import alive; alive._kill_silent({node!r}, 0, alive.wrong('worker', '', ''))"
        powers = ["setpriv", "--bounding-set", "-all,+dac_read_search,+setgid,+setuid"]
        environ = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
        said = run_program([*powers, sys.executable, "-c", check], env=environ, check=True)
        assert said.stderr == f"killing process {worker.pid}\n"
        assert worker.wait(60) == -9


@as_root
def test_a_check_ends_the_hung_worker_and_not_the_init_that_started_it(tmp_path: Path) -> None:
    """An init has the worker's arguments in its own, and no process of a container can kill it."""
    check = "from tellback.doctor import alive; alive._kill_silent('loops@pid1', 0, alive.wrong('worker', '', ''))"
    sleeps = "print('up', flush=True); import time; time.sleep(300)"
    hung = shlex.join([*NOBODY, os.path.realpath(sys.executable), "-c", sleeps, "worker", "loops@pid1"])
    up = f"until [ -s {tmp_path}/up ]; do sleep 0.02; done"
    checked = f"TMPDIR={tmp_path} {shlex.join([sys.executable, '-c', check])}"
    script = f"{hung} > {tmp_path}/up & {up}; {checked}; wait $!"
    init = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "worker", "loops@pid1"]
    done = run_program(init)
    assert (done.returncode, done.stderr.count("killing process ")) == (128 + 9, 1), done.stderr


@as_root
def test_a_check_ends_no_process_of_a_pool_whose_worker_is_the_init(tmp_path: Path) -> None:
    """The kernel spares that one, so nothing would start its pool again."""
    check = "from tellback.doctor import alive; alive._kill_silent('loops@pid1', 0, alive.wrong('worker', '', ''))"
    worker = f"""if True:
        import os, subprocess, time
        pool = os.fork() or time.sleep(300)
        subprocess.run([{sys.executable!r}, "-c", {check!r}], check=True)
        print("alive" if os.waitpid(pool, os.WNOHANG) == (0, 0) else "dead")"""
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    done = run_program([*unshare, sys.executable, "-c", worker, "worker", "loops@pid1"], env=environ)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def _plant(folder: Path) -> None:
    """Leave modules of our names in a directory, and one in the home that Python would load by itself."""
    for package in ("tellback", "tellback/doctor", "tellback_workers"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("print('PLANTED')\n")
    (folder / "tellback" / "doctor" / "alive.py").write_text("print('PLANTED')\n")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = folder / ".local" / "lib" / version / "site-packages"
    site.mkdir(parents=True)
    (site / "usercustomize.py").write_text("print('PLANTED')\n")


@pytest.mark.parametrize("environ", [{}, ENVIRONMENT], ids=["any Python", "as in the image"])
def test_a_check_loads_no_module_that_a_command_has_left(tmp_path: Path, environ: dict[str, str]) -> None:
    _plant(tmp_path)
    base = f"{sys.base_prefix}/bin/python3"  # a virtual environment has no packages of a user
    home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for argv in ([sys.executable, "-m", "tellback.doctor.alive"], [str(base), "-c", "pass"]):
        done = run_program(argv, cwd=tmp_path, env=home | environ)
        assert ("PLANTED" in done.stdout) == (not environ), argv


def test_no_process_of_ours_starts_where_commands_write() -> None:
    """Celery looks for its app in the present directory first, whatever Python's variables say."""
    dockerfile = (ROOT / "ops" / "Dockerfile").read_text()
    assert re.findall(r"^WORKDIR (.*)$", dockerfile, re.MULTILINE) == ["/", "/source"], "the latter is not run"
    assert all(f"{name}={value}" in dockerfile for name, value in ENVIRONMENT.items())
    compose: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    assert not [name for name, service in compose["services"].items() if "working_dir" in service]
    for path in (ROOT / "ops" / "kubernetes").glob("*.yaml"):
        assert set(re.findall(r"workingDir: (\S+)", path.read_text())) <= {"/"}, path.name
    for path in (ROOT / "ops" / "systemd").glob("*.service"):
        unit = path.read_text()
        assert "\nWorkingDirectory=/\n" in unit, path.name
        assert all(f"{name}={value}" in unit for name, value in ENVIRONMENT.items()), path.name
