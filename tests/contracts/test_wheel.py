"""The contents of wheel and sdist: every file of the three packages, and nothing else."""

import email
import email.message
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.processes import run_program

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"tellback": "shared", "tellback_workers": "workers", "tellback_beat": "beat"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel out of it, as a release does; return their folder."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    run_program(command, check=True)
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> set[str]:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def sdist(built: Path) -> set[str]:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        return {member.name.split("/", 1)[1] for member in archive if member.isfile()}


@pytest.fixture(scope="module")
def metadata(built: Path) -> email.message.Message:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_holds_each_file_of_the_packages_and_no_other(wheel: set[str]) -> None:
    shipped = {name for name in wheel if ".dist-info/" not in name}
    assert shipped == {inside for _, inside in _package_files()}


def test_the_sdist_holds_each_file_of_the_packages_and_what_a_build_needs(sdist: set[str]) -> None:
    expected = {f"{PACKAGES[inside.split('/')[0]]}/{inside}" for _, inside in _package_files()}
    expected |= {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO"}
    assert sdist - {".gitignore"} == expected  # hatchling adds .gitignore where there is one


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_says_that_it_is_typed(wheel: set[str], package: str) -> None:
    assert f"{package}/py.typed" in wheel


def test_an_agent_host_gets_neither_celery_nor_torch(metadata: email.message.Message) -> None:
    base = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    names = {line.split("<")[0].split(">")[0].split("=")[0].split("[")[0].split(";")[0].strip() for line in base}
    assert names == {
        *("redis", "msgspec", "typer", "rich", "structlog", "tenacity", "cachetools", "polib", "psutil", "stringzilla"),
    }


def test_the_extras_are_those_that_the_documentation_names(metadata: email.message.Message) -> None:
    extras = {"workers", "metrics", "embedded", "flower", "tui", "plot", "otel", "all", "docs", "dev"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras


def test_the_wheel_brings_the_command(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        name = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "tellback = tellback.cli.entry:main" in archive.read(name).decode()


def _package_files() -> list[tuple[Path, str]]:
    """List each file of the packages in the tree, with its name in the wheel."""
    files = [
        (path, path.relative_to(ROOT / folder).as_posix())
        for package, folder in PACKAGES.items()
        for path in (ROOT / folder / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert files
    return files
