"""docker-compose.yml and ops/, as far as they can be tried without a container engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tellback.errors import Unavailable
from tellback.state.database import Database
from tellback.up import system
from tests.support.redis_server import RedisServer, free_port, server_binary
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
SECRETS = {"REDIS_PASSWORD": "abc", "BROKER_PASSWORD": "ghi", "FLOWER_PASSWORD": "def"}
SERVERS = ("redis", "broker")
SCHEDULE = "/var/lib/tellback/beat-schedule"


def compose(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Docker's own reader of compose files, with nothing but these variables."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("docker-compose")), "--env-file", os.devnull, *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def services() -> Mapping[str, Any]:
    """The services as Docker understands them."""
    read = compose("config", "--format", "json", **SECRETS)
    assert read.returncode == 0, read.stderr
    services: dict[str, Any] = json.loads(read.stdout)["services"]
    return services


def test_the_file_is_valid() -> None:
    read = compose("config", "--quiet", **SECRETS)
    assert (read.returncode, read.stdout, read.stderr) == (0, "", "")


@pytest.mark.parametrize("missing", SECRETS)
def test_there_is_no_default_password(missing: str) -> None:
    read = compose("config", "--quiet", **{name: value for name, value in SECRETS.items() if name != missing})
    assert read.returncode != 0
    assert f"required variable {missing} is missing a value: set it in .env" in read.stderr


@pytest.mark.parametrize(
    ("service", "argv"),
    [
        ("loops", system.loops_worker("loops@%h")),
        ("commands", system.commands_worker("commands@%h", "compose")),
        ("model", system.model_worker("model@%h")),
        ("beat-1", system.beat(SCHEDULE)),
        ("beat-2", system.beat(SCHEDULE)),
        ("flower", system.flower("0.0.0.0", 5555)),
    ],
)
def test_services_run_the_commands_of_up(services: Mapping[str, Any], service: str, argv: system.Argv) -> None:
    assert services[service]["command"] == list(argv)


def test_nothing_else_runs(services: Mapping[str, Any]) -> None:
    assert set(services) == {*SERVERS, "loops", "commands", "model", "beat-1", "beat-2", "flower"}


def test_every_service_has_a_health_check_and_waits_for_redis(services: Mapping[str, Any]) -> None:
    for name, service in services.items():
        assert service["healthcheck"]["test"], name
        assert service["restart"] == "unless-stopped", name
        for server in SERVERS if name not in SERVERS else ():
            assert service["depends_on"][server]["condition"] == "service_healthy", name


def test_one_image_of_ours_and_redis_8(services: Mapping[str, Any]) -> None:
    images = {name: service["image"] for name, service in services.items()}
    assert [images.pop(server) for server in SERVERS] == ["redis:8", "redis:8"]
    assert set(images.values()) == {"tellback"}


def test_one_service_builds_the_image(services: Mapping[str, Any]) -> None:
    """Several builds of one tag at once take six times as long, or fail with "already exists"."""
    built = {name: service["build"] for name, service in services.items() if "build" in service}
    assert {name: build["dockerfile"] for name, build in built.items()} == {"loops": "ops/Dockerfile"}
    policies = {name: service.get("pull_policy") for name, service in services.items() if name not in SERVERS}
    assert policies.pop("loops") == "build"
    assert set(policies.values()) == {"never"}


def test_an_index_for_torch_reaches_the_build() -> None:
    read = compose("config", "--format", "json", **SECRETS, PIP_EXTRA_INDEX_URL="https://index.example")
    assert json.loads(read.stdout)["services"]["loops"]["build"]["args"] == {
        "PIP_EXTRA_INDEX_URL": "https://index.example"
    }


def test_logs_memory_and_processes_are_bounded() -> None:
    read = compose("--profile", "metrics", "config", "--format", "json", **SECRETS)
    for name, service in json.loads(read.stdout)["services"].items():
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}, name
        assert int(service["mem_limit"]) == 4 << 30, name
        assert service["pids_limit"] == 2048, name


def test_no_command_of_an_agent_reaches_what_asks_for_no_password() -> None:
    """And no container lives in the network of another, whose crash would cut it off."""
    read = compose("--profile", "metrics", "config", "--format", "json", **SECRETS)
    services: dict[str, Any] = json.loads(read.stdout)["services"]
    assert not [name for name, service in services.items() if "network_mode" in service]
    monitoring = {name for name, service in services.items() if "monitoring" in service["networks"]}
    assert monitoring == {"redis", "metrics", "prometheus", "grafana"}
    assert [name for name in monitoring if "default" in services[name]["networks"]] == ["redis"]
    assert "--config.file=/etc/prometheus/compose.yml" in services["prometheus"]["command"]
    ours, theirs = ((ROOT / "ops" / "prometheus" / name).read_text() for name in ("compose.yml", "prometheus.yml"))
    assert ours.partition("global:")[2] == theirs.partition("global:")[2].replace("127.0.0.1:9464", "metrics:9464")


def test_the_broker_is_a_redis_of_its_own(services: Mapping[str, Any]) -> None:
    """Who has the password of the state, such as an agent, can put no task into a queue."""
    for name in ("loops", "commands", "model", "beat-1", "beat-2", "flower"):
        environ = services[name]["environment"]
        assert environ["TELLBACK_REDIS_URL"] == "redis://:abc@redis:6379/0", name
        assert environ["TELLBACK_BROKER_URL"] == "redis://:ghi@broker:6379/0", name
    data = [volume["source"] for name in SERVERS for volume in services[name]["volumes"] if volume["target"] == "/data"]
    assert data == ["redis", "broker"]
    assert [services[server]["environment"]["REDIS_PASSWORD"] for server in SERVERS] == ["abc", "ghi"]
    assert set(services["broker"]["networks"]) == {"default"}


def test_roots_are_read_only_and_what_is_written_has_a_place() -> None:
    """Each beat has a schedule of its own; the Redises and the workers keep theirs in volumes."""
    read = compose("--profile", "metrics", "config", "--format", "json", **SECRETS)
    services: dict[str, Any] = json.loads(read.stdout)["services"]
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert "/tmp" in service["tmpfs"], name
    kept = {name: {volume["target"] for volume in service.get("volumes", ())} for name, service in services.items()}
    assert all("/var/lib/tellback" in kept[name] for name in ("loops", "commands", "model", "flower"))
    for beat in ("beat-1", "beat-2"):
        assert kept[beat] == set()
        assert [each for each in services[beat]["tmpfs"] if each.startswith("/var/lib/tellback:uid=10001")]
    assert "--uid 10001 " in (ROOT / "ops" / "Dockerfile").read_text()


def test_commands_have_a_workspace_and_git(services: Mapping[str, Any]) -> None:
    """In which they may run, apart from the files of the other workers."""
    commands = services["commands"]
    volumes = {volume["target"]: volume["source"] for volume in commands["volumes"]}
    assert volumes == {"/var/lib/tellback": "commands", "/workspace": "workspace"}
    assert (commands["environment"]["TELLBACK_COMMAND_ROOTS"], commands["working_dir"]) == ("/workspace", "/workspace")
    assert [name for name, service in services.items() if "workspace" in str(service.get("volumes"))] == ["commands"]
    dockerfile = (ROOT / "ops" / "Dockerfile").read_text()
    assert "--no-install-recommends git" in dockerfile
    assert "mkdir /workspace && chown tellback /workspace" in dockerfile


def test_a_hung_worker_is_ended(services: Mapping[str, Any]) -> None:
    """Docker restarts no container that is merely unhealthy: its check ends the worker after five minutes."""
    for name in ("loops", "commands", "model"):
        assert "tellback.doctor.alive --kill-after 300 worker" in services[name]["healthcheck"]["test"][1]


def test_git_ignores_the_file_with_the_passwords() -> None:
    done = subprocess.run(["git", "check-ignore", ".env"], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0 or not (ROOT / ".git").exists()


def test_only_flower_is_published_on_loopback_and_behind_its_password(services: Mapping[str, Any]) -> None:
    published = {name: service["ports"] for name, service in services.items() if service.get("ports")}
    assert set(published) == {"flower"}
    assert [port["host_ip"] for port in published["flower"]] == ["127.0.0.1"]
    assert services["flower"]["environment"]["FLOWER_BASIC_AUTH"] == "tellback:def"


def test_no_password_stands_in_a_command(services: Mapping[str, Any]) -> None:
    for name, service in services.items():
        shown = " ".join([*service["command"], *service["healthcheck"]["test"]])
        assert not [secret for secret in SECRETS.values() if re.search(rf"\b{secret}\b", shown)], name


def test_nothing_runs_as_root_or_with_capabilities(services: Mapping[str, Any]) -> None:
    """The image's last USER is not root, and nothing that runs comes after it but the command."""
    lines = (ROOT / "ops" / "Dockerfile").read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["tellback"]
    assert not [line for line in lines[lines.index("USER tellback") :] if line.startswith("RUN ")]
    assert {services[server]["user"] for server in SERVERS} == {"redis"}
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_the_image_is_built_from_files_that_exist() -> None:
    """Each COPY from the context names a file that .dockerignore lets through."""
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for line in (ROOT / "ops" / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    assert copied
    assert copied <= allowed
    assert not [source for source in copied if not (ROOT / source).exists()]


def start_redis(folder: Path, password: str | None) -> tuple[subprocess.Popen[bytes], int]:
    """The compose service's command with the real server, in another folder and on another port."""
    port = free_port()
    binaries = folder / "bin"
    binaries.mkdir()
    (binaries / "redis-server").symlink_to(server_binary())
    text = (ROOT / "ops" / "redis" / "redis.conf").read_text()
    text = text.replace("dir /data", f"dir {folder}").replace("port 6379", f"port {port}")
    (folder / "redis.conf").write_text(text.replace("bind 0.0.0.0", "bind 127.0.0.1"))
    secret = {} if password is None else {"REDIS_PASSWORD": password}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", str(ROOT / "ops" / "redis" / "start.sh"), str(folder / "redis.conf")],
            env={"PATH": f"{binaries}:{os.environ['PATH']}", **secret},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    return process, port


def test_redis_starts_with_its_configuration_and_password(tmp_path: Path) -> None:
    """AOF, noeviction, the password in neither arguments nor environment; a stop signal reaches the server itself."""
    process, port = start_redis(tmp_path, "geheim42")
    try:
        wait_until(lambda: "Ready to accept" in (tmp_path / "log").read_text(), "Redis is ready")
        with closing(Database(f"redis://:geheim42@127.0.0.1:{port}/0")) as database:
            wanted = {
                b"appendonly": b"yes",
                b"appendfsync": b"everysec",
                b"maxmemory-policy": b"noeviction",
                b"auto-aof-rewrite-min-size": b"%d" % (256 << 20),
            }
            for name, value in wanted.items():
                assert database.command("CONFIG", "GET", name) == [name, value]
        with closing(Database(f"redis://127.0.0.1:{port}/0")) as stranger, pytest.raises(Unavailable, match="Auth"):
            stranger.command("PING")
        server = psutil.Process(process.pid)
        assert "geheim42" not in f"{server.cmdline()} {server.environ()}"
    finally:
        process.terminate()
        assert process.wait(10) == 0


@pytest.mark.parametrize("password", [None, "with space"])
def test_redis_does_not_start_without_a_password_that_fits_a_url(tmp_path: Path, password: str | None) -> None:
    process, _ = start_redis(tmp_path, password)
    assert process.wait(10) not in (0, None)
    assert (tmp_path / "log").read_text().count("\n") == 1


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_each_service_becomes_healthy(
    services: Mapping[str, Any],
    redis_server: RedisServer,
    database: Database,  # noqa: ARG001 - emptied, so that nobody has been heard
    tmp_path: Path,
) -> None:
    """Commands and health checks as in the containers, against the real server, save for its address and two places."""
    port = str(free_port())
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def here(text: str) -> str:
        moved = text.replace(SCHEDULE, f"{tmp_path}/schedule").replace("5555", port).replace("0.0.0.0", "127.0.0.1")
        return moved.replace("$$", "$")  # as Docker itself does, once

    def healthy(service: Mapping[str, Any], environ: dict[str, str]) -> bool:
        kind, *test = (here(word) for word in service["healthcheck"]["test"])
        argv = ["sh", "-c", *test] if kind == "CMD-SHELL" else test
        return subprocess.run(argv, env=environ, capture_output=True, timeout=30, check=False).returncode == 0

    processes: list[subprocess.Popen[bytes]] = []
    try:
        running: dict[str, dict[str, str]] = {}
        for name in ("loops", "commands", "model", "beat-1", "flower"):
            environ = {"PATH": path, "TELLBACK_DATA_DIR": str(tmp_path), **services[name]["environment"]}
            environ["TELLBACK_REDIS_URL"] = environ["TELLBACK_BROKER_URL"] = redis_server.url
            running[name] = environ
            assert not healthy(services[name], environ), name
            with (tmp_path / f"{name}.log").open("wb") as log:
                command = [here(word) for word in services[name]["command"]]
                processes.append(subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=log, stderr=log))
        for name, environ in running.items():
            wait_until(partial(healthy, services[name], environ), f"{name} is healthy", timeout=60)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)
