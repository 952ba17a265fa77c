"""The set-up continues from wherever it was cut off; `make clean` takes away what was built, and nothing else."""

from __future__ import annotations

import fcntl
import importlib.util
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import run_program

ROOT = Path(__file__).resolve().parents[2]
ALL = ["create", "upgrade", "install", "compile"]


class Checkout:
    """A folder with the project's set-up, whose commands are noted and not run; `dies_at` cuts one of them off."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.venv = root / ".venv"
        self.ran: list[str] = []
        self.dies_at = ""
        self.setup = _load(root / "ops" / "setup.py")
        self.setup._run = self._run

    def main(self) -> list[str]:
        """Set up, and return the steps that were run."""
        self.ran.clear()
        self.setup.main()
        return self.ran

    def _run(self, command: list[str], _lock: int) -> None:
        steps = {"venv": "create", "--upgrade": "upgrade", "--editable": "install", "compileall": "compile"}
        (step,) = [step for word, step in steps.items() if word in command]
        self.ran.append(step)
        if step == "create":
            (self.venv / "bin").mkdir()
            (self.venv / "bin" / "python").touch()
        if step == self.dies_at:
            raise KeyboardInterrupt


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root = tmp_path / "a checkout"
    (root / "ops").mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt", "ops/setup.py"):
        shutil.copy(ROOT / name, root / name)
    return Checkout(root)


def test_the_second_run_has_nothing_to_do(checkout: Checkout) -> None:
    assert checkout.main() == ALL
    assert checkout.main() == []


@pytest.mark.parametrize("step", ["create", "upgrade"])
def test_a_half_made_environment_is_made_again(checkout: Checkout, step: str) -> None:
    checkout.dies_at = step
    checkout.main()
    (checkout.venv / "half").touch()
    checkout.dies_at = ""
    assert checkout.main() == ALL
    assert not (checkout.venv / "half").exists()
    assert checkout.main() == []


@pytest.mark.parametrize("step", ["install", "compile"])
def test_an_installation_that_was_cut_off_is_finished(checkout: Checkout, step: str) -> None:
    checkout.dies_at = step
    checkout.main()
    checkout.dies_at = ""
    assert checkout.main() == ["install", "compile"]
    assert checkout.main() == []


def test_other_versions_are_installed_into_the_same_environment(checkout: Checkout) -> None:
    checkout.main()
    with (checkout.root / "constraints.txt").open("a") as constraints:
        constraints.write("another==1.0\n")
    assert checkout.main() == ["install", "compile"]


def test_settings_of_tools_install_nothing(checkout: Checkout) -> None:
    checkout.main()
    with (checkout.root / "pyproject.toml").open("a") as project:
        project.write("[tool.another]\nsetting = 1\n")
    assert checkout.main() == []


def test_a_folder_that_moved_gets_an_environment_of_its_own(checkout: Checkout, tmp_path: Path) -> None:
    """The scripts of an environment name its folder in their first line."""
    checkout.main()
    checkout.root.rename(tmp_path / "moved")
    assert Checkout(tmp_path / "moved").main() == ALL


def test_a_torn_package_is_forgotten_and_a_whole_one_kept(checkout: Checkout) -> None:
    site = checkout.venv / "lib" / "python3.11" / "site-packages"
    _package(site, "whole", recorded="whole.py,,\n__pycache__/whole.pyc,,\n", files=["whole.py"])
    _package(site, "moved", recorded="moved.py,,\n", files=[])
    _package(site, "unfinished", recorded=None, files=["unfinished.py"])
    _package(site, "~hole", recorded=None, files=[])
    checkout.setup._forget_torn_packages()
    assert [info.name for info in site.glob("*.dist-info")] == ["whole-1.dist-info"]


def test_a_second_set_up_waits_for_the_first_and_leaves_its_work_alone(checkout: Checkout) -> None:
    checkout.main()
    finished = checkout.setup.FINISHED.read_text()
    checkout.setup.FINISHED.unlink()
    script = checkout.root / "ops" / "setup.py"
    with script.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            assert "waiting" in second.stdout.readline()
            checkout.setup.FINISHED.write_text(finished)
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert second.stdout.read() == ""
    assert second.returncode == 0


def test_a_light_environment_lacks_what_is_large_and_nothing_else(checkout: Checkout) -> None:
    names = [checkout.setup._distribution(line) for line in checkout.setup._small_requirements()]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    every = {checkout.setup._distribution(line) for lines in extras.values() for line in lines} - {"tellback"}
    assert every - set(names) == checkout.setup.LARGE
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["shared", ".venv-x", ".venv-unit-"])  # harmless below tmp_path, should the guard fail
def test_nothing_but_an_environment_is_ever_replaced(checkout: Checkout, name: str) -> None:
    done = run_program([sys.executable, checkout.root / "ops" / "setup.py", name])
    assert (done.returncode, done.stdout) == (1, "")
    assert "an environment is named like" in done.stderr


def test_the_unit_tests_run_on_every_version_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if " :: 3." in line]
    assert tuple(named) == _load(ROOT / "ops" / "unit_all.py").VERSIONS
    assert project["requires-python"] == f">={named[0]}"


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("setup_under_test", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _package(site: Path, name: str, *, recorded: str | None, files: list[str]) -> None:
    info = site / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    for file in files:
        (site / file).touch()
    if recorded is not None:
        (info / "RECORD").write_text(f"{recorded}{info.name}/RECORD,,\n")


def test_what_was_built_goes_and_the_sources_stay(tmp_path: Path) -> None:
    folder = tmp_path / "with a space"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    built = [folder / name for name in (".venv", "build", "dist", "site", ".ruff_cache")]
    for path in (*built, folder / "shared"):
        path.mkdir()
    subprocess.run(["make", "clean"], cwd=folder, check=True, capture_output=True, timeout=30)
    assert [path for path in built if path.exists()] == []
    assert sorted(path.name for path in folder.iterdir()) == ["Makefile", "shared"]
