"""The files of `tellback acl`: who reads them, what they hold, and that none is written over unasked."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tellback.access.files import Deployment, files_of, write_files
from tellback.cli.app import app
from tellback.errors import InvalidInput
from tellback.urls import with_login

TWO = Deployment(("acme", "beta"), "redis://redis:6379/0", "redis://broker:6379/0")


def password_of(env: str) -> str:
    line = next(line for line in env.splitlines() if "_URL=" in line)
    return line.rpartition("@")[0].rpartition(":")[2]


def test_each_user_has_a_file_with_its_settings_and_nobody_elses() -> None:
    """No file contains another user's password. Requirement A-95."""
    files = files_of(TWO)
    assert set(files) == {
        *("redis.acl", "broker.acl", "agent-acme.env", "agent-beta.env"),
        *("worker.env", "beat.env", "flower.env", "operator.env"),
    }
    password = password_of(files["agent-acme.env"])
    assert files["agent-acme.env"] == (
        f"TELLBACK_REDIS_URL=redis://agent-acme:{password}@redis:6379/0\nTELLBACK_TEAM=acme\n"
    )
    password = password_of(files["worker.env"])
    assert files["worker.env"] == (
        f"TELLBACK_REDIS_URL=redis://worker:{password}@redis:6379/0\n"
        f"TELLBACK_BROKER_URL=redis://worker:{password}@broker:6379/0\n"
    ), "and no list of teams: a team that is added needs no restart of workers, and a replay is served"
    assert "REDIS_URL" not in files["flower.env"]


def test_an_acl_file_has_hashes_and_no_password() -> None:
    files = files_of(TWO)
    for name in ("agent-acme", "worker", "beat", "flower", "operator"):
        password = password_of(files[f"{name}.env"])
        assert len(password) == 64
        both = files["redis.acl"] + files["broker.acl"]
        assert f"user {name} reset on sanitize-payload #{hashlib.sha256(password.encode()).hexdigest()} " in both
        assert password not in both
    assert "agent" not in files["broker.acl"]


def test_passwords_are_new_each_time() -> None:
    first, second = (password_of(files_of(TWO)["worker.env"]) for _ in range(2))
    assert first != second


def test_one_redis_has_one_file_in_which_each_server_s_rights_stand_apart() -> None:
    files = files_of(Deployment(("acme",), "redis://redis:6379/0"))
    assert "broker.acl" not in files
    [worker] = [line for line in files["redis.acl"].splitlines() if line.startswith("user worker ")]
    assert worker.endswith("~tbq:* &*)")
    assert "(-@all" in worker


def test_an_older_server_gets_no_command_that_it_lacks() -> None:
    old = files_of(TWO._replace(release="7.0"))["redis.acl"]
    middle = files_of(TWO._replace(release="7.2"))["redis.acl"]
    new = files_of(TWO)["redis.acl"]
    assert ["waitaof" in text for text in (old, middle, new)] == [False, True, True]
    assert ["vadd" in text for text in (old, middle, new)] == [False, False, True]


@pytest.mark.parametrize("team", ["", "Acme", "a}", "*", "a b", "a.b"])
def test_a_team_that_could_reach_others_gets_no_user(team: str) -> None:
    with pytest.raises(InvalidInput):
        files_of(TWO._replace(teams=(team,)))


def test_only_their_owner_reads_the_files(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "acl", files_of(TWO))
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    assert stat.S_IMODE((tmp_path / "acl").stat().st_mode) == 0o700
    assert {path.name for path in (tmp_path / "acl").iterdir()} == set(files_of(TWO)), "no draft is left"


def test_no_file_is_written_over_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "worker.env").write_text("mine")
    with pytest.raises(InvalidInput, match=r"has worker\.env: .*--replace"):
        write_files(tmp_path, files_of(TWO))
    assert [path.name for path in tmp_path.iterdir()] == ["worker.env"]
    write_files(tmp_path, files_of(TWO), replace=True)
    assert (tmp_path / "worker.env").read_text().startswith("TELLBACK_REDIS_URL=")
    assert stat.S_IMODE((tmp_path / "worker.env").stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_leaves_all_passwords_as_they_were(tmp_path: Path) -> None:
    """The servers' files had new hashes then, and some users' files the old passwords. Requirement A-439."""
    names = {path: path.read_text() for path in write_files(tmp_path, files_of(TWO))}
    blocked = tmp_path / f".operator.env.{os.getpid()}"
    blocked.mkdir()
    with pytest.raises(InvalidInput, match=r"can't write .*operator\.env"):
        write_files(tmp_path, files_of(TWO), replace=True)
    assert {path: path.read_text() for path in names} == names
    assert {*tmp_path.iterdir()} == {*names, blocked}, "no draft is left"


def test_a_directory_in_the_place_of_a_file_leaves_all_passwords_as_they_were(tmp_path: Path) -> None:
    """Requirement A-439."""
    names = {path: path.read_text() for path in write_files(tmp_path, files_of(TWO))}
    last = [*names][-1]
    last.unlink()
    last.mkdir()
    with pytest.raises(InvalidInput, match=rf"has {last.name}, not a file: remove it"):
        write_files(tmp_path, files_of(TWO), replace=True)
    assert {path: path.read_text() for path in names if path != last} == {
        path: text for path, text in names.items() if path != last
    }


@pytest.mark.parametrize(
    ("option", "url", "why"),
    [
        ("--broker-url", "broker", "--broker-url: not the URL of a Redis"),
        ("--redis-url", "http://redis/0", "--redis-url: not the URL of a Redis"),
        ("--redis-url", "rediss://redis:6379/0?ssl_cert_reqs=maybe", "--redis-url: ssl_cert_reqs is not one of"),
        ("--broker-url", "rediss://broker:6379/0?ssl_cert_reqs=maybe", "--broker-url: ssl_cert_reqs is not one of"),
        ("--broker-url", "redis+cluster://broker:6379", "Redis Cluster"),
        (
            "--broker-url",
            "redis://broker:6379/0\nTELLBACK_TEAMS=other",
            "--broker-url: it has a space, a control character",
        ),
        ("--broker-url", "redis://bröker:6379/0", "beyond ASCII"),
        ("--broker-url", "redis://redis/1", "pass --one-redis"),
    ],
)
def test_no_file_has_an_address_that_no_process_could_use(tmp_path: Path, option: str, url: str, why: str) -> None:
    given = {"--redis-url": "redis://redis:6379/0", "--broker-url": "redis://broker:6379/0", option: url}
    arguments = [part for pair in given.items() for part in pair]
    done = CliRunner().invoke(app, ["acl", str(tmp_path / "access"), *arguments])
    assert done.exit_code == 2
    assert why in done.stderr
    assert not (tmp_path / "access").exists()


@pytest.mark.parametrize("form", ["rediss://{}/0?{}", "sentinel://{}:1;sentinel://b:1/0?master_name=m&{}&ssl=true"])
def test_the_files_of_tls_are_those_of_the_hosts_that_get_the_logins(tmp_path: Path, form: str) -> None:
    """This host may lack them."""
    tls = "ssl_ca_certs=/elsewhere/ca.pem&ssl_certfile=/elsewhere/me.pem&ssl_keyfile=/elsewhere/me.key"
    arguments = ["--redis-url", form.format("r", tls), "--broker-url", form.format("q", tls)]
    done = CliRunner().invoke(app, ["acl", str(tmp_path / "access"), *arguments])
    assert done.exit_code == 0, done.output
    assert tls in (tmp_path / "access" / "worker.env").read_text()
    wrong = [each.replace("ssl_ca_certs", "ssl_ca_cert") for each in arguments]
    refused = CliRunner().invoke(app, ["acl", str(tmp_path / "other"), *wrong])
    assert (refused.exit_code, "no option ssl_ca_cert" in refused.stderr) == (2, True)


def test_the_command_prints_names_of_files_and_no_password(tmp_path: Path) -> None:
    runner, folder = CliRunner(), tmp_path / "acl"
    given = ["acl", str(folder), "--team", "acme", "--redis-url", "redis://r:1/0"]
    unnamed = runner.invoke(app, given)
    assert unnamed.exit_code == 2
    assert "--broker-url" in unnamed.output
    done = runner.invoke(app, [*given, "--broker-url", "redis://b:1/0"])
    assert done.exit_code == 0
    assert password_of((folder / "worker.env").read_text()) not in done.output
    again = runner.invoke(app, [*given, "--one-redis"])
    assert again.exit_code == 2
    both = runner.invoke(app, [*given, "--one-redis", "--broker-url", "redis://b:1/0", "--replace"])
    assert (both.exit_code, "use either --broker-url or --one-redis" in both.stderr) == (2, True), "it was ignored"
    listed = runner.invoke(app, [*given, "--one-redis", "--replace", "--json"])
    assert {Path(path).name for path in json.loads(listed.output)["files"]} >= {"redis.acl", "agent-acme.env"}
    assert runner.invoke(app, [*given[:3], "Bad Team", "--one-redis"]).exit_code == 2


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h:1/0", "redis://u:p@h:1/0"),
        ("redis://old:secret@h:1/0", "redis://u:p@h:1/0"),
        ("redis://:secret@h:1/0?password=x&ssl_ca_certs=/a", "redis://u:p@h:1/0?ssl_ca_certs=/a"),
        ("unix:///run/redis.sock?password=x", "unix://u:p@/run/redis.sock"),
        ("redis+cluster://a:b@h1:1,h2:2", "redis+cluster://u:p@h1:1,h2:2"),
        (
            "sentinel://x:y@h1:1;sentinel://x:y@h2:2/0?master_name=m&sentinel_password=s",
            "sentinel://u:p@h1:1;sentinel://h2:2/0?master_name=m&sentinel_password=s",
        ),
    ],
)
def test_a_login_replaces_that_of_the_url(url: str, expected: str) -> None:
    assert with_login(url, "u", "p") == expected
