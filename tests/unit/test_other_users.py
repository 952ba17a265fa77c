"""Data directories of another user, and users without a home: each is named, and none is a traceback."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tellback import connect
from tellback.cli.app import app, main
from tellback.doctor.examination import _url_source
from tellback.doctor.infrastructure import check_data_dir, check_spool
from tellback.errors import ConfigurationError
from tellback.hook.failure_log import log_failure
from tellback.settings import Settings, load

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")


@contextmanager
def being_somebody_else() -> Generator[None]:
    """Run the block without root's rights."""
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture
def data() -> Iterator[Path]:
    """A data directory below one that everybody may enter, which a test's own directory is not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "data"


@as_root
@pytest.mark.parametrize("closed", [".", "spool/default/url-1/events.0"])
def test_the_doctor_names_a_directory_that_belongs_to_another_user(closed: str, data: Path) -> None:
    """It raised PermissionError, or said that all is well, while the events of this user were lost."""
    settings = Settings(data_dir=str(data))
    (data / "spool/default/url-1/events.0").mkdir(parents=True)
    (data / closed).chmod(0o700)
    assert check_data_dir(settings).state == "ok"
    with being_somebody_else():
        spool, directory = check_spool(settings), check_data_dir(settings)
    assert (spool.state, spool.found) == ("note", "not checked")
    assert directory.state == "wrong"
    assert directory.found.startswith(str(data))
    assert directory.found.endswith("is another user's")


@as_root
def test_a_path_in_a_directory_of_another_user_is_one_line(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requirement A-493."""
    data.mkdir(mode=0o700)
    monkeypatch.setattr("sys.argv", ["tellback", "acl", "--one-redis", f"{data}/x"])
    with suppress(SystemExit):
        main()  # nobody may not be able to read the modules that it imports
    capsys.readouterr()
    with being_somebody_else(), pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"tellback: {data}/x/redis.acl: Permission denied\n"


@as_root
def test_the_doctor_says_that_the_running_system_is_another_users(data: Path) -> None:
    data.mkdir()
    (data / "up.json").write_text("{}")
    with being_somebody_else():
        source = _url_source(Settings(data_dir=str(data)), None, url_given=False)
    assert source == f"the default address, since {data}/up.json is another user's"


@as_root
def test_the_status_of_hooks_names_a_log_that_belongs_to_another_user(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELLBACK_DATA_DIR", str(data))
    monkeypatch.chdir(data.parent)
    log_failure(os.environ, "Redis is away")
    data.chmod(0o755)
    (data / "hook").chmod(0o755)
    assert "Redis is away" in CliRunner().invoke(app, ["hook", "status"]).stdout
    with being_somebody_else():
        shown = CliRunner().invoke(app, ["hook", "status"])
    assert shown.exit_code == 0
    assert f"error: can't read {data}/hook/troubles.log: Permission denied\n" in shown.stdout


@pytest.fixture
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of a container that is in no list of users."""

    def unknown(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    for name in ("HOME", "XDG_DATA_HOME", "TELLBACK_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.usefixtures("no_home")
def test_an_error_without_a_home_names_the_variable_to_set() -> None:
    for refused in (load, lambda: connect("redis://127.0.0.1:1/0")):
        with pytest.raises(ConfigurationError, match="no home directory: set TELLBACK_DATA_DIR"):
            refused()
    shown = CliRunner().invoke(app, ["ps"])
    assert shown.exit_code == 2
    assert shown.stderr == "tellback: this user has no home directory: set TELLBACK_DATA_DIR\n"


@pytest.mark.usefixtures("no_home")
def test_a_user_without_a_home_needs_none_with_a_data_directory(tmp_path: Path) -> None:
    assert load({"TELLBACK_DATA_DIR": str(tmp_path)}).data_path == tmp_path
