"""A hook never breaks its agent: exit 0, nothing printed, and no longer than it was given, whatever is wrong."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tellback import connect
from tellback.contracts.codec import decode
from tellback.contracts.guidance import ToolInvoked
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.all_scripts import all_scripts
from tellback.state.database import Database
from tellback.state.keys import stream_of
from tests.support.hooks import PROGRAM, context_of, run_hook, start_hook, tool_event, troubles
from tests.support.redis_server import RedisServer, free_port
from tests.support.spools import waiting
from tests.support.waiting import wait_until
from tests.support.workers import environment

pytestmark = pytest.mark.faults
HANGS: Final = 20.0  # seconds: whatever is made to hang here does so for at least a minute


def of(server: RedisServer, tmp_path: Path, **fields: Any) -> Settings:
    return Settings(redis_url=server.url, data_dir=str(tmp_path / "data"), **fields)


def spooled(settings: Settings) -> list[str]:
    """The ids of the calls that wait on disk."""
    events = [decode(event.raw, Family.EVENTS) for event in waiting(settings.data_path)]
    return sorted(event.call_id or "" for event in events if isinstance(event, ToolInvoked))


NO_EVENTS: Final = {
    "nothing": b"",
    "no JSON": b"{",
    "no object": b"[1, 2]",
    "a number": b"7",
    "null": b"null",
    "no UTF-8": b'{"session_id": "s1", "tool_name": "\xff\xfe", "tool_input": {"a": "\xc3"}}',
    "no session": json.dumps(tool_event(session_id=None)).encode(),
    "no tool": json.dumps(tool_event(tool_name=None)).encode(),
    "a session that is a number": json.dumps(tool_event(session_id=5)).encode(),
    "an empty session": json.dumps(tool_event(session_id="")).encode(),
    "a session of 600 characters": json.dumps(tool_event(session_id="s" * 600)).encode(),
    "wrong types": json.dumps(tool_event(tool_name=["a"], tool_input=3, tool_use_id={}, tool_response=1.5)).encode(),
    "half surrogates": b'{"session_id":"s1","tool_name":"t\\ud800","tool_input":{"\\udfff":"\\ud800"},'
    b'"tool_response":"\\ud800"}',
    "no numbers": b'{"session_id":"s1","tool_name":"t","tool_input":{"a":NaN,"b":-Infinity},"tool_response":Infinity}',
    "a number of 5,000 digits": b'{"session_id":"s1","tool_name":"t","tool_input":{"a":' + b"9" * 5_000 + b"}}",
    "100,000 brackets": b"[" * 100_000,
    "nested 50,000 deep": b'{"session_id":"s1","tool_name":"t","tool_input":'
    + b'{"a":' * 50_000
    + b"1"
    + b"}" * 50_001,
}


@pytest.mark.parametrize("what", NO_EVENTS)
def test_input_that_is_no_event_is_answered_with_nothing(what: str, settings: Settings) -> None:
    assert run_hook(settings, NO_EVENTS[what]) == b""


@pytest.mark.parametrize("what", ["half surrogates", "no numbers", "wrong types", "no UTF-8"])
def test_odd_values_are_published_so_that_workers_read_them(
    what: str, database: Database, layout: Any, settings: Settings
) -> None:
    run_hook(settings, NO_EVENTS[what], "--wait=1")
    entries = database.command("XRANGE", stream_of(layout.of("s1"), Family.EVENTS), "-", "+")
    assert all(decode(fields[1], Family.EVENTS) for _, fields in entries)


def test_ten_megabytes_are_taken_and_cut(database: Database, layout: Any, settings: Settings) -> None:
    huge = tool_event(tool_response={"stdout": "line of text\n" * 800_000}, tool_input={"a": ["b" * 5_000_000]})
    assert run_hook(settings, huge, "--wait=2") == b""
    (_, fields) = database.command("XRANGE", stream_of(layout.of("s1"), Family.EVENTS), "-", "+")[-1]
    assert len(fields[1]) < 200_000
    call = decode(fields[1], Family.EVENTS)
    assert isinstance(call, ToolInvoked)
    assert "cut]" in (call.result or "")


def test_mutated_bytes_never_break_it(settings: Settings) -> None:
    """The code of the process gets bytes flipped, cut and doubled, and gives an error of ours or a valid event."""
    from tellback.errors import TellbackError
    from tellback.hook.event import read_event, tool_invoked

    rng = random.Random(7)
    sound = json.dumps(tool_event(tool_response={"a": [1, None, True, "ü"], "b": "x" * 300})).encode()
    read = 0
    for _ in range(3_000):
        raw = bytearray(sound)
        for _ in range(rng.randrange(1, 6)):
            place = rng.randrange(len(raw))
            raw[place : place + rng.choice((0, 1, 1, 3))] = rng.randbytes(rng.choice((0, 1, 1, 2)))
        try:
            event = read_event(bytes(raw), "PostToolUse")
        except TellbackError:
            continue
        if event.call:
            read += 1
            decode(tool_invoked(event, "p"), Family.EVENTS)
    assert read > 300
    assert run_hook(settings, bytes(reversed(sound))) == b""


def test_standard_input_that_is_closed_or_never_ends(settings: Settings) -> None:
    command = [str(PROGRAM), "hook", "post-tool-use"]
    closed = subprocess.run(
        ["sh", "-c", 'exec "$0" hook post-tool-use <&-', str(PROGRAM)],
        env=environment(settings), capture_output=True, check=False, timeout=30,
    )  # fmt: skip
    assert (closed.returncode, closed.stdout, closed.stderr) == (0, b"", b"")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(settings)) as process:
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("arguments", [("--unheard",), ("--team", "No Such"), ("--config", "/none")])
def test_wrong_arguments_are_written_down_and_nothing_else(settings: Settings, arguments: tuple[str, ...]) -> None:
    assert run_hook(settings, tool_event(), *arguments) == b""
    assert troubles(settings)


@pytest.mark.parametrize(
    "broken",
    [
        {"TELLBACK_SHARDS": "many"},
        {"TELLBACK_REDIS_URL": "no url"},
        {"TELLBACK_REDIS_URL": "redis://[::1"},
        {"TELLBACK_REDIS_URL": "redis://127.0.0.1:99999/0"},
        {"TELLBACK_REDIS_URL": "http://127.0.0.1/"},
        {"TELLBACK_REDIS_URL": "redis://no.such.host.invalid:6379/0"},
        {"TELLBACK_HOOK_WAIT": "-1"},
        {"TELLBACK_TEAM": "No Such Team"},
        {"TELLBACK_HOOK_CONFIG": "/no/such/file"},
        {"TELLBACK_DATA_DIR": "/dev/null/x"},
        {"HOME": "", "TELLBACK_DATA_DIR": "", "XDG_DATA_HOME": ""},
        {"HOME": "relative", "TELLBACK_DATA_DIR": "", "XDG_DATA_HOME": ""},
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    ],
)
def test_broken_settings(settings: Settings, broken: dict[str, str]) -> None:
    assert run_hook(settings, tool_event(), env=broken) == b""


WAITS = [f"--wait={wait}" for wait in ("0", "-1", "nan", "3600", "soon")]


@pytest.mark.parametrize("option", ["--config=", "--policy=", "--prompt=", "--team=", "--wait=", *WAITS])
def test_no_event_is_lost_because_of_an_option_without_a_value_or_a_wait(settings: Settings, option: str) -> None:
    """G-383: `--wait=0` was refused in each hook, and with it every event of the agent."""
    unused = f"redis://127.0.0.1:{free_port()}/0"
    assert run_hook(settings, tool_event("toolu_1"), option, f"--redis-url={unused}") == b""
    assert spooled(settings) == ["toolu_1"]


def test_rules_that_cannot_be_read_publish_nothing(settings: Settings, tmp_path: Path) -> None:
    """An event that is not redacted as its user wants must not be sent at all."""
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rules]]\nname = 'x'\npattern = '('\n")
    assert run_hook(settings, tool_event(), env={"TELLBACK_REDACTION_RULES": str(rules)}) == b""
    assert "rules.toml" in troubles(settings)
    assert spooled(settings) == []


def test_an_answer_that_nobody_reads_is_given_to_the_next_event(settings: Settings, database: Database) -> None:
    with connect(settings=settings) as tb:
        mailbox = tb.context.layout.of("s1").key("mailbox", "s1", "agent", "s1")
    database.command("RPUSH", mailbox, b'{"provider_name":"X","summary":"kept"}')
    reader, writer = os.pipe()
    os.close(reader)
    with start_hook(settings, "--wait=10", given=tool_event("toolu_1"), stdout=writer) as process:
        os.close(writer)
        assert process.wait(timeout=60) == 0
    assert "BrokenPipeError" in troubles(settings)
    assert context_of(run_hook(settings, tool_event("toolu_2"), "--wait=10")) == "[Feedback - X]\n\nkept"


def took(settings: Settings, *arguments: str) -> float:
    """Seconds of one hook process, which printed nothing."""
    start = time.monotonic()
    assert run_hook(settings, tool_event(f"toolu_{time.monotonic_ns()}"), *arguments) == b""
    return time.monotonic() - start


def test_nothing_waits_longer_than_it_was_given_when_redis_is_stopped_or_gone(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    settings = of(own_redis, tmp_path)
    own_redis.suspend()
    try:
        assert took(settings, "--wait=0.05") < HANGS
        assert 1.0 <= took(settings, "--wait=1") < HANGS
    finally:
        own_redis.resume()
    own_redis.kill()
    assert took(settings, "--wait=60") < 60, "there is nobody to wait for"
    assert len(spooled(settings)) == 3


def test_a_host_that_swallows_every_packet_holds_nobody_up(settings: Settings) -> None:
    assert took(settings, "--redis-url=redis://192.0.2.1:6379/0", "--wait=0.2") < HANGS


@contextmanager
def server_of(serve: Callable[[socket.socket], None]) -> Generator[str]:
    """A listener that treats each connection so, and its address."""
    with socket.create_server(("127.0.0.1", free_port())) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    line, _ = listener.accept()
                    threading.Thread(target=treat, args=(line,), daemon=True).start()

        def treat(line: socket.socket) -> None:
            with line, suppress(OSError):
                serve(line)

        threading.Thread(target=accept, daemon=True).start()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _answers(reply: bytes) -> Callable[[socket.socket], None]:
    def serve(line: socket.socket) -> None:
        while line.recv(1 << 16):
            line.sendall(reply)

    return serve


def _endless(line: socket.socket) -> None:
    line.sendall(b"$9999999\r\n")
    while True:
        line.sendall(b"x" * 65_536)


def _drip(line: socket.socket) -> None:
    while True:
        line.sendall(b"+")
        time.sleep(0.01)


GARBAGE: Final[dict[str, Callable[[socket.socket], None]]] = {
    "no protocol": _answers(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9),
    "zeros": _answers(b"\0" * 4_096),
    "a huge size": _answers(b"$999999999999\r\n"),
    "a negative size": _answers(b"$-7\r\n" * 9),
    "deep nesting": _answers(b"*1\r\n" * 3_000),
    "a size that is no number": _answers(b"*x\r\n"),
    "wrong replies": _answers(b":1\r\n" * 40),
    "authentication is required": _answers(b"-NOAUTH Authentication required.\r\n" * 40),
    "read only": _answers(b"-READONLY You can't write against a read only replica.\r\n" * 40),
    "out of memory": _answers(b"-OOM command not allowed\r\n" * 40),
    "loading": _answers(b"-LOADING Redis is loading the dataset in memory\r\n" * 40),
    "hangs up": socket.socket.close,
    "says nothing": lambda _line: time.sleep(60),
    "never ends": _endless,
    "a byte at a time": _drip,
}


@pytest.mark.parametrize("what", GARBAGE)
def test_whatever_answers_in_place_of_redis_the_event_is_kept_on_disk(what: str, settings: Settings) -> None:
    with server_of(GARBAGE[what]) as url:
        start = time.monotonic()
        assert run_hook(settings, tool_event("toolu_1"), f"--redis-url={url}", "--wait=0.3") == b""
        assert time.monotonic() - start < HANGS
    assert spooled(settings) == ["toolu_1"]


def test_a_wrong_password_keeps_the_event_and_the_password_out_of_the_log(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path) as server:
        open_door = Database(server.url)
        open_door.command("CONFIG", "SET", "requirepass", "right")
        open_door.close()
        wrong = server.url.replace("redis://", "redis://:wr0ng-pass@")
        settings = of(server, tmp_path)
        assert run_hook(settings, tool_event("toolu_1"), f"--redis-url={wrong}", "--wait=1") == b""
        assert spooled(settings) == ["toolu_1"]
        assert "WRONGPASS" in troubles(settings)
        assert "wr0ng-pass" not in troubles(settings)
        right = server.url.replace("redis://", "redis://:right@").replace("/0", "/3")
        run_hook(settings, tool_event("toolu_2"), f"--redis-url={right}", "--wait=1")
        database = Database(right)
        assert database.command("DBSIZE") >= 2
        database.close()


def test_a_unix_socket_and_a_user_with_a_password_that_must_be_quoted(tmp_path: Path) -> None:
    path = tmp_path / "r.sock"
    with RedisServer.start(
        tmp_path, "--unixsocket", str(path), "--user", "agent", "on", ">p@ss:w/rd", "~*", "+@all"
    ) as server:
        settings = of(server, tmp_path)
        run_hook(settings, tool_event("toolu_1"), f"--redis-url=unix://{path}?db=2", "--wait=1")
        quoted = server.url.replace("redis://", "redis://agent:p%40ss%3Aw%2Frd@").replace("/0", "/4")
        run_hook(settings, tool_event("toolu_2"), f"--redis-url={quoted}", "--wait=1")
        assert spooled(settings) == []
        for number in (2, 4):
            database = Database(server.url.replace("/0", f"/{number}"))
            assert database.command("DBSIZE") >= 2
            database.close()


@contextmanager
def slow_proxy(port: int, delay: Callable[[], float]) -> Generator[str]:
    """Proxy the server, and hand on its replies after a delay."""

    def serve(line: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", port)) as server:

            def up() -> None:
                with suppress(OSError):
                    while data := line.recv(1 << 16):
                        server.sendall(data)

            threading.Thread(target=up, daemon=True).start()
            while data := server.recv(1 << 16):
                time.sleep(delay())
                line.sendall(data)

    with server_of(serve) as url:
        yield url


def test_feedback_that_a_slow_redis_gave_too_late_comes_with_the_next_call(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    """The first replies (the team, the session) come at once; the third has the feedback and finds no process."""
    settings = of(own_redis, tmp_path)
    with connect(settings=settings) as tb:
        mailbox = tb.context.layout.of("s1").key("mailbox", "s1", "agent", "s1")
    database = Database(own_redis.url)
    database.command("RPUSH", mailbox, b'{"provider_name":"X","summary":"kept"}')
    database.load_scripts(all_scripts())  # as workers do: the third reply is not to say that the script is missing
    replies = iter([0.0, 0.0])
    with slow_proxy(own_redis.port, lambda: next(replies, 60.0)) as url:
        start = time.monotonic()
        assert run_hook(settings, tool_event("toolu_1"), f"--redis-url={url}", "--wait=0.5") == b""
        assert time.monotonic() - start < HANGS
    wait_until(lambda: not database.command("EXISTS", mailbox), "the server has given it")
    answers = [run_hook(settings, tool_event(f"toolu_{n}"), "--wait=0.5") for n in (2, 3)]
    assert [context_of(answer) for answer in answers] == ["[Feedback - X]\n\nkept", ""]
    database.close()


def test_a_full_disk(own_redis: RedisServer, tmp_path: Path) -> None:
    """There is no room for one byte: a limit of file size is enforced as a full disk is."""
    settings = of(own_redis, tmp_path)
    own_redis.kill()
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$0" hook post-tool-use', str(PROGRAM)],
        input=json.dumps(tool_event()).encode(), env=environment(settings), capture_output=True,
        check=False, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_data_folder_that_is_not_ours_to_write(own_redis: RedisServer, tmp_path: Path) -> None:
    settings = of(own_redis, tmp_path)
    settings.data_path.write_text("a file, where a folder should be")
    assert run_hook(settings, tool_event("toolu_1"), "--wait=1") == b""
    own_redis.kill()
    assert run_hook(settings, tool_event("toolu_2"), "--wait=1") == b""


def test_an_interrupt_ends_it_quietly(own_redis: RedisServer, tmp_path: Path) -> None:
    settings = of(own_redis, tmp_path)
    own_redis.suspend()
    try:
        process = start_hook(settings, "--wait=10", given=tool_event())
        wait_until(lambda: _connected(process.pid), "it has connected")
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        own_redis.resume()
    assert (process.returncode, out, err) == (0, b"", b"")


def _connected(pid: int) -> bool:
    import psutil

    return any(line.status == psutil.CONN_ESTABLISHED for line in psutil.Process(pid).net_connections())
