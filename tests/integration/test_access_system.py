"""The whole product under the users of `tellback acl`: no call of ours is one that Redis refuses its user."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tellback import (
    OutgoingResponse,
    Tellback,
    Unavailable,
    connect,
)
from tellback.hook.failure_log import NAME
from tellback.settings import Settings
from tellback.state.all_scripts import all_scripts
from tellback.state.database import Database
from tellback.state.keys import FLEET, NOTIFICATIONS
from tellback.up import system
from tests.support.access import AccessDeployment, running_access
from tests.support.commands import tool
from tests.support.every_loop import play_every_loop
from tests.support.hooks import run_hook, tool_event
from tests.support.processes import run_program
from tests.support.redis_server import free_port
from tests.support.turns import opened
from tests.support.waiting import wait_until
from tests.support.workers import Workers

AGENT = "agent-acme"
LAST_ID: Final = "18446744073709551615-18446744073709551615"  # after it nothing can be added to a stream


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[AccessDeployment]:
    with running_access(tmp_path / "access") as found:
        yield found


@pytest.fixture
def agent(deployment: AccessDeployment) -> Settings:
    return deployment.settings(AGENT)


@contextmanager
def running_worker(deployment: AccessDeployment, folder: Path) -> Generator[Workers]:
    """One worker of all queues, as the user `worker`."""
    settings = msgspec.structs.replace(deployment.settings("worker"), command_roots=str(folder), beat_period=0.5)
    workers = Workers(settings, folder, pool="threads", concurrency=4)
    try:
        workers.start()
        yield workers
    finally:
        workers.kill_all()


@pytest.fixture
def worker(deployment: AccessDeployment, tmp_path: Path) -> Iterator[Workers]:
    with running_worker(deployment, tmp_path) as workers:
        yield workers


def denied(deployment: AccessDeployment) -> list[str]:
    """List what the servers have refused so far, by user."""
    found: list[str] = []
    for url in {deployment.url("operator", "state"), deployment.url("operator", "broker")}:
        with closing(Database(url)) as database:
            entries = [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in database.command("ACL", "LOG", 1000)]
        found += [f"{e[b'username'].decode()} {e[b'reason'].decode()} {e[b'object'].decode()}" for e in entries]
    return sorted(found)


def loaded(deployment: AccessDeployment) -> bool:
    """Find out if Redis has every script; the operator asks, since an agent may not."""
    with closing(Database(deployment.url("operator", "state"))) as database:
        return all(database.command("SCRIPT", "EXISTS", *(script.sha for script in all_scripts())))


def test_a_missing_script_names_the_next_step_and_events_wait_for_a_worker(
    deployment: AccessDeployment, agent: Settings, tmp_path: Path
) -> None:
    """Requirement A-94. Then a worker comes, Redis forgets everything, and the worker loads it again."""
    with connect(settings=agent) as tb:
        with pytest.raises(Unavailable, match=r"lacks a script of this release.*workers of the same release load it"):
            opened(tb)
        prompt = tb.prompt("s1", "p")
        prompt.tool_invoked("t")
        tb.flush()
        assert tb.spooled
        assert run_hook(agent, tool_event(), env={"TELLBACK_HOOK_WAIT": "5"}) == b""
        assert "start a worker of this release" in (Path(agent.data_dir) / NAME).read_text()
        with running_worker(deployment, tmp_path):
            wait_until(lambda: not tb.spooled, "the events are sent")
            turn = opened(tb)
            deployment.state.restart()
            wait_until(lambda: loaded(deployment), "the worker has loaded the scripts again")
            assert turn.respond(OutgoingResponse.text_only("hello")) == "accepted"
            wait_until(lambda: tool_calls(tb) == 2, "both calls count, the hook's too")


def tool_calls(tb: Tellback) -> int:
    return sum(entry["kind"] == "tool_call" for entry in tb.history("s1"))


def test_scripts_that_are_loaded_stay_whoever_evaluates_others(deployment: AccessDeployment) -> None:
    """From Redis 7.4 on, EVAL's own scripts are evicted after 500; a loaded one never is."""
    with closing(Database(deployment.url("worker", "state"))) as database:
        database.load_scripts(all_scripts())
        database.pipeline([("EVAL", f"return {number}", 0) for number in range(1_000)])
        assert loaded(deployment)


@pytest.mark.usefixtures("worker")
def test_what_a_stolen_login_of_an_agent_can_do(deployment: AccessDeployment, agent: Settings, tmp_path: Path) -> None:
    """Each row "can" of the threat model's page is tried; the page says why they stay."""
    wait_until(lambda: loaded(deployment), "the worker has loaded the scripts")
    with connect(settings=agent) as victim, closing(Database(deployment.url(AGENT, "state"))) as stolen:
        record = victim.submit(["echo", "done"], session="s1", cwd=str(tmp_path)).wait(timeout=60)
        turn = opened(victim, channel="chat")
        layout = victim.context.layout
        records = layout.of("s1").key("records", "s1")
        (kept,) = stolen.command("LRANGE", records, 0, -1)
        assert record.command_id in kept.decode(), "read"
        stolen.command("LSET", records, 0, kept.replace(b"done", b"fine"))
        assert victim.records("s1")[0].stdout_tail == "fine", "change"
        with connect(settings=msgspec.structs.replace(agent, data_dir=str(tmp_path / "thief"))) as thief:
            assert thief.submit(["echo", "mine"], session="s2", cwd=str(tmp_path)).wait(timeout=60).succeeded
            taken = thief.turn(turn.id)
            assert taken.respond(OutgoingResponse.text_only("pay me")) == "accepted"
            (delivery,) = thief.outbox("chat")
            assert delivery.response.text == "pay me", "answers users"
        junk = layout.shard(0).key("records", "junk")
        stolen.pipeline([("RPUSH", junk, b"x" * 1_000_000) for _ in range(20)])
        assert int(stolen.command("MEMORY", "USAGE", junk, "SAMPLES", 0)) > 20_000_000, "fills memory"
        more = [Database(deployment.url(AGENT, "state")) for _ in range(20)]
        assert [each.now_ms() > 0 for each in more] == [True] * 20, "takes connections"
        for each in more:
            each.close()
        assert stolen.command("ZRANGE", FLEET.key("workers"), 0, -1), "reads which workers there are"
        stolen.command("XADD", NOTIFICATIONS, "MAXLEN", 0, "*", "k", "nobody")  # forges notifications, and drops them
        stolen.command("XADD", NOTIFICATIONS, LAST_ID, "k", "nobody")
        wait_until(lambda: opened_by_others(deployment), "workers end what stops the turns of other teams")


def opened_by_others(deployment: AccessDeployment) -> bool:
    """Check whether another team can open a turn."""
    with connect(settings=deployment.settings("agent-beta")) as tb:
        try:
            opened(tb, channel="chat")
        except Unavailable:
            return False
    return True


@pytest.mark.usefixtures("worker")
def test_what_a_malicious_command_can_do(deployment: AccessDeployment, agent: Settings, tmp_path: Path) -> None:
    """The rows "can" of the threat model are tried: files and network of its user, any output, but no other exit."""
    wait_until(lambda: loaded(deployment), "the worker has loaded the scripts")
    with connect(settings=agent) as tb, socket.create_server(("127.0.0.1", 0)) as listener:
        script = (
            "import os, pathlib, socket, sys\n"
            "pathlib.Path('left-behind').write_text(str(os.getuid()))\n"
            f"socket.create_connection(('127.0.0.1', {listener.getsockname()[1]})).close()\n"
            "print('all 214 tests passed, exit 0')\n"
            "sys.exit(3)\n"
        )
        record = tb.submit([sys.executable, "-c", script], session="s1", cwd=str(tmp_path)).wait(timeout=60)
        assert (tmp_path / "left-behind").read_text() == str(os.getuid()), "what the worker's user may do"
        listener.settimeout(60)
        listener.accept()[0].close()
        assert record.stdout_tail == "all 214 tests passed, exit 0", "what it likes"
        assert record.exit_code == 3, "but not an exit of its own making"
        assert not tb.gate("s1").passed


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(240)
def test_all_loops_work_under_these_users(
    deployment: AccessDeployment, agent: Settings, worker: Workers, tmp_path: Path
) -> None:
    """Requirement A-52. Redis logs each refusal, so that one which our code swallowed is seen as well."""
    beat = celery_process(
        deployment, "beat", tmp_path, system.beat(str(tmp_path / "schedule")), {"TELLBACK_BEAT_PERIOD": "0.5"}
    )
    port = free_port()
    flower = celery_process(
        deployment, "flower", tmp_path, system.flower("127.0.0.1", port), {"FLOWER_UNAUTHENTICATED_API": "true"}
    )
    try:
        wait_until(lambda: loaded(deployment), "the worker has loaded the scripts")
        with connect(settings=agent) as tb:
            play_every_loop(tb, tmp_path)
        command_line(agent, tmp_path)
        run_hook(agent, tool_event())
        watching(deployment, port, worker)
        alive = run_program(
            [sys.executable, "-m", "tellback.doctor.alive", "beat"], env={**os.environ, **deployment.environ("beat")}
        )
        assert (alive.returncode, alive.stderr) == (0, "")
        operated(deployment)
    finally:
        for process in (beat, flower):
            process.terminate()
            process.wait(60)
    # `doctor` asks for statistics of the server, types of keys and lengths of queues, and says that it could not. It
    # also asks for the names of teams, and does with those that workers serve.
    refusals = {refusal.partition(":")[0] for refusal in denied(deployment)}
    assert refusals == {f"{AGENT} command info", f"{AGENT} command type", f"{AGENT} key tb", f"{AGENT} key tbq"}, (
        worker.log()[-3000:]
    )


def celery_process(
    deployment: AccessDeployment, user: str, folder: Path, argv: system.Argv, more: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """A process of ours as one of the users."""
    command = [sys.executable, "-m", *argv]
    with (folder / f"{user}.log").open("wb") as log:
        environ = {**os.environ, **deployment.environ(user), **more}
        return subprocess.Popen(command, env=environ, stdout=log, stderr=log, cwd=folder)


def command_line(agent: Settings, folder: Path) -> None:
    lines = (
        "submit --session s4 true", "ps", "records s4", "gate s4", "audit", "history s1", "stats", "turns",
        "turns --overdue",
        "outbox", "bank show", "bank show b", "recall --bank b ruby", "dead list", "metrics", "doctor --json",
    )  # fmt: skip
    for line in lines:
        done = tool(agent, *line.split(), cwd=folder)
        assert done.returncode in ({0, 1} if line.startswith("doctor") else {0}), (line, done.stdout, done.stderr)
        if line.startswith("doctor"):  # an agent's host sees who serves it, though not the server's figures
            findings = {found["check"]: found for found in json.loads(done.stdout)["findings"]}
            assert {findings[name]["state"] for name in ("redis", "workers", "versions", "beat")} == {"ok"}
            refused = [findings[name] for name in ("scripts", "persistence", "eviction", "memory", "keys", "queues")]
            assert {(each["state"], each["found"]) for each in refused} == {
                ("note", "not checked: this login may not read it")
            }


def watching(deployment: AccessDeployment, port: int, worker: Workers) -> None:
    """Flower sees the worker; it inspects it by remote control."""

    def seen() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/workers?refresh=1", timeout=60) as answer:
                return bool(json.load(answer))
        except OSError:
            return False

    wait_until(seen, "Flower lists the worker")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/queues/length", timeout=60) as answer:
        assert json.load(answer)["active_queues"]
    assert deployment
    assert worker.processes[0].poll() is None


def operated(deployment: AccessDeployment) -> None:
    """A person with the operator's login."""
    operator = msgspec.structs.replace(deployment.settings("operator"), team="acme")
    done = tool(operator, "doctor", "--json")
    findings = {found["check"]: found for found in json.loads(done.stdout)["findings"]}
    assert findings["persistence"]["state"] == "ok"
    assert findings["queues"]["state"] == "ok"
    assert findings["workers"]["state"] == "ok"
    assert tool(operator, "metrics").returncode == 0
