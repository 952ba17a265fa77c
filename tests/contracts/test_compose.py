"""docker-compose.yml and ops/, as far as they can be tried without a container engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tellback import connect
from tellback.access.files import Deployment, files_of, write_files
from tellback.errors import Unavailable
from tellback.settings import load
from tellback.state.database import Database
from tellback.up import system
from tests.support.every_loop import play_every_loop
from tests.support.processes import run_program
from tests.support.redis_server import free_port, packaged_binary
from tests.support.waiting import wait_until
from tests.support.with_login import LOGIN, with_login

ROOT = Path(__file__).parents[2]
SERVERS = ("redis", "broker")
SCHEDULE = "/tmp/beat-schedule"


def compose(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Docker's own reader of compose files, with nothing but these variables."""
    return run_program(
        [str(Path(sys.executable).with_name("docker-compose")), "--env-file", os.devnull, *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environ},
    )


@pytest.fixture(scope="module")
def services() -> Mapping[str, Any]:
    """The services as Docker understands them."""
    read = compose("config", "--format", "json")
    assert read.returncode == 0, read.stderr
    services: dict[str, Any] = json.loads(read.stdout)["services"]
    return services


def test_the_file_is_valid() -> None:
    read = compose("config", "--quiet")
    assert (read.returncode, read.stdout, read.stderr) == (0, "", "")


def test_no_password_stands_in_a_container_s_settings() -> None:
    """`docker inspect` shows a container's settings; each service gets the files of its user, none of a variable."""
    read = compose("--profile", "metrics", "--profile", "operator", "config", "--format", "json")
    whole: dict[str, Any] = json.loads(read.stdout)
    given = {
        name: [secret["source"] for secret in service.get("secrets", ())] for name, service in whole["services"].items()
    }
    assert given == {
        **{name: ["worker.env"] for name in ("loops", "commands", "model")},
        **{name: ["beat.env"] for name in ("beat-1", "beat-2")},
        **{name: ["operator.env"] for name in ("metrics", "operator")},
        "redis": ["redis.acl"],
        "broker": ["broker.acl"],
        "flower": ["flower.env"],
        "prometheus": [],
        "grafana": ["grafana.password"],
    }
    assert {name: secret["file"] for name, secret in whole["secrets"].items()} == {
        name: str(ROOT / "access" / name) for name in {each for files in given.values() for each in files}
    }
    for name, service in whole["services"].items():
        named = [key for key in service.get("environment", {}) if re.search("PASS|AUTH|URL|SECRET|TOKEN", key)]
        assert named in ([], ["GF_SECURITY_ADMIN_PASSWORD__FILE"]), name


def test_each_process_logs_in_as_its_user(services: Mapping[str, Any]) -> None:
    """Health checks log in as the same user."""
    users = dict.fromkeys(("loops", "commands", "model"), "worker") | dict.fromkeys(("beat-1", "beat-2"), "beat")
    for name, user in {**users, "flower": "flower"}.items():
        assert services[name]["entrypoint"] == ["with-login", user]
        by_root = "--root " if user == "worker" else ""  # no command of an agent runs beside the others
        assert f"with-login {by_root}{user} python" in " ".join(services[name]["healthcheck"]["test"]), name


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
    read = compose("config", "--format", "json", PIP_EXTRA_INDEX_URL="https://index.example")
    assert json.loads(read.stdout)["services"]["loops"]["build"]["args"] == {
        "PYTHON_IMAGE": "python:3.13-slim",
        "PIP_EXTRA_INDEX_URL": "https://index.example",
        "TORCH_SHA256": "",
    }


def test_logs_memory_and_processes_are_bounded() -> None:
    read = compose("--profile", "metrics", "config", "--format", "json")
    for name, service in json.loads(read.stdout)["services"].items():
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}, name
        assert int(service["mem_limit"]) == 4 << 30, name
        assert service["pids_limit"] == 2048, name


def test_no_command_of_an_agent_reaches_what_asks_for_no_password() -> None:
    """No container lives in the network of another either: that one's crash would cut it off."""
    read = compose("--profile", "metrics", "config", "--format", "json")
    services: dict[str, Any] = json.loads(read.stdout)["services"]
    assert not [name for name, service in services.items() if "network_mode" in service]
    monitoring = {name for name, service in services.items() if "monitoring" in service["networks"]}
    assert monitoring == {"redis", "metrics", "prometheus", "grafana"}
    assert [name for name in monitoring if "default" in services[name]["networks"]] == ["redis"]
    assert "--config.file=/etc/prometheus/compose.yml" in services["prometheus"]["command"]
    ours, theirs = ((ROOT / "ops" / "prometheus" / name).read_text() for name in ("compose.yml", "prometheus.yml"))
    assert ours.partition("global:")[2] == theirs.partition("global:")[2].replace("127.0.0.1:9464", "metrics:9464")


def test_the_broker_is_a_redis_of_its_own(services: Mapping[str, Any]) -> None:
    """A login of the state, such as an agent's, can put no task into a queue."""
    data = [volume["source"] for name in SERVERS for volume in services[name]["volumes"] if volume["target"] == "/data"]
    assert data == ["redis", "broker"]
    assert [services[server]["command"][-1] for server in SERVERS] == [f"/run/secrets/{name}.acl" for name in SERVERS]
    assert set(services["broker"]["networks"]) == {"default"}


def test_roots_are_read_only_and_what_is_written_has_a_place() -> None:
    """Each beat has a schedule of its own; the Redises and the workers keep theirs in volumes."""
    read = compose("--profile", "metrics", "config", "--format", "json")
    services: dict[str, Any] = json.loads(read.stdout)["services"]
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert "/tmp" in service["tmpfs"], name
    kept = {name: {volume["target"] for volume in service.get("volumes", ())} for name, service in services.items()}
    assert all("/var/lib/tellback" in kept[name] for name in ("loops", "commands", "model", "flower"))
    for beat in ("beat-1", "beat-2"):
        assert kept[beat] == set()


def test_commands_have_a_workspace_and_git(services: Mapping[str, Any]) -> None:
    """Commands may run in that workspace, apart from the files of the other workers."""
    commands = services["commands"]
    volumes = {volume["target"]: volume["source"] for volume in commands["volumes"]}
    assert volumes == {"/var/lib/tellback": "commands", "/workspace": "workspace"}
    assert commands["environment"]["TELLBACK_COMMAND_ROOTS"] == "/workspace"
    assert [name for name, service in services.items() if "workspace" in str(service.get("volumes"))] == ["commands"]
    dockerfile = (ROOT / "ops" / "Dockerfile").read_text()
    assert "--no-install-recommends git" in dockerfile
    assert "mkdir /workspace && chown tellback /workspace" in dockerfile


def test_a_hung_worker_is_ended(services: Mapping[str, Any]) -> None:
    """Docker restarts no container that is merely unhealthy: its check ends the worker after five minutes."""
    for name in ("loops", "commands", "model"):
        assert "tellback.doctor.alive --kill-after 300 worker" in services[name]["healthcheck"]["test"][1]
        assert services[name]["init"] is True, "the kernel lets no process of a container kill its first"


def test_git_ignores_the_files_with_the_passwords() -> None:
    done = subprocess.run(["git", "check-ignore", "access/worker.env"], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0 or not (ROOT / ".git").exists()


def test_only_flower_is_published_on_loopback_and_behind_its_password(services: Mapping[str, Any]) -> None:
    published = {name: service["ports"] for name, service in services.items() if service.get("ports")}
    assert set(published) == {"flower"}
    assert [port["host_ip"] for port in published["flower"]] == ["127.0.0.1"]


def test_nothing_runs_as_root_but_the_login_or_with_capabilities(services: Mapping[str, Any]) -> None:
    """Root reads the login and continues as `tellback`; its init passes on signals. The image itself has that user."""
    text = (ROOT / "ops" / "Dockerfile").read_text()
    stages = text.split("\nFROM ")[1:]
    of_root = [stage.splitlines()[0] for stage in stages if "\nUSER tellback\n" not in stage]
    assert of_root == ["$PYTHON_IMAGE AS base", "$PYTHON_IMAGE AS build"], "the two that no one runs"
    lines = text[text.rindex("\nFROM ") :].splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["tellback"]
    assert not [line for line in lines[lines.index("USER tellback") :] if line.startswith("RUN ")]
    assert {services[server]["user"] for server in SERVERS} == {"redis"}
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        of_login = ["DAC_READ_SEARCH", "KILL", "SETGID", "SETUID"] if name not in SERVERS else None
        assert service.get("cap_add") == of_login, name
    assert "setpriv --reuid=tellback --regid=tellback --clear-groups --no-new-privs" in LOGIN.read_text()


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


def moved(text: str, places: Mapping[str, str]) -> str:
    """A text with other places; as Docker itself does, `$$` is one `$`."""
    for place, other in places.items():
        text = text.replace(place, other)
    return text.replace("$$", "$")


class Containers:
    """The processes of the compose file without containers: its commands and health checks, in other places."""

    def __init__(self, services: Mapping[str, Any], folder: Path) -> None:
        self.services = services
        self.folder = folder
        self.access = folder / "access"
        self.ports = {server: free_port() for server in SERVERS}
        self.flower = str(free_port())
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        state, broker = (f"redis://127.0.0.1:{self.ports[server]}/0" for server in SERVERS)
        write_files(self.access, files_of(Deployment(("acme",), state, broker)))
        with (self.access / "flower.env").open("a") as login:
            login.write("FLOWER_BASIC_AUTH=tellback:geheim\n")
        binaries = with_login(folder / "bin", self.access).parent
        (binaries / "redis-server").symlink_to(packaged_binary())  # the images are of Redis 8, as the files of users
        self.path = f"{binaries}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def start(self, name: str) -> None:
        """Start a service with what its container would have, and nothing else."""
        place = self.folder / name
        place.mkdir()
        places = {SCHEDULE: f"{place}/schedule", "5555": self.flower, "0.0.0.0": "127.0.0.1", "/workspace": str(place)}
        if name in SERVERS:
            text = (ROOT / "ops" / "redis" / "redis.conf").read_text()
            text = text.replace("port 6379", f"port {self.ports[name]}").replace("dir /data", f"dir {place}")
            (place / "redis.conf").write_text(text.replace("0.0.0.0", "127.0.0.1"))
            places |= {"/etc/tellback/redis.conf": f"{place}/redis.conf", "/run/secrets": str(self.access)}
        service = self.services[name]
        argv = [moved(word, places) for word in [*(service["entrypoint"] or ()), *service["command"]]]
        environ = {key: moved(value, places) for key, value in service.get("environment", {}).items()}
        with (place / "log").open("wb") as log:
            environ |= {"PATH": self.path, "TELLBACK_DATA_DIR": str(place), "TELLBACK_BEAT_PERIOD": "0.5"}
            self.processes[name] = subprocess.Popen(argv, cwd=place, env=environ, stdout=log, stderr=log)

    def healthy(self, name: str) -> bool:
        """The container's health check; as with Docker, one that takes too long fails."""
        kind, *test = (moved(word, {"5555": self.flower}) for word in self.services[name]["healthcheck"]["test"])
        argv = ["sh", "-c", *test] if kind == "CMD-SHELL" else test
        environ = {"PATH": self.path, "TELLBACK_HOST": "compose"}
        try:
            return subprocess.run(argv, env=environ, capture_output=True, timeout=30, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def log(self, name: str) -> str:
        """Return the output of a process so far."""
        return (self.folder / name / "log").read_text()

    def stop(self) -> None:
        """Stop all, the servers last."""
        for process in reversed(self.processes.values()):
            process.terminate()
            process.wait(60)


def _is_ready(containers: Containers, server: str) -> bool:
    return "Ready to accept" in containers.log(server)


@pytest.fixture
def containers(services: Mapping[str, Any], tmp_path: Path) -> Iterator[Containers]:
    started = Containers(services, tmp_path)
    try:
        for server in SERVERS:
            started.start(server)
        for server in SERVERS:
            wait_until(partial(_is_ready, started, server), f"{server} is ready")
        yield started
    finally:
        started.stop()


def test_redis_starts_with_its_configuration_and_users(containers: Containers) -> None:
    """Redis uses AOF and noeviction, lets nobody in without a login, and gets stop signals itself."""
    operator = (containers.access / "operator.env").read_text()
    for server, variable in zip(SERVERS, ("TELLBACK_REDIS_URL", "TELLBACK_BROKER_URL"), strict=True):
        url = dict(line.split("=", 1) for line in operator.splitlines())[variable]
        with closing(Database(url)) as database:
            assert b"aof_enabled:1" in database.command("INFO", "persistence") or server == "broker"
            assert database.command("ACL", "WHOAMI") == b"operator"
        with closing(Database(url.replace("operator", "default"))) as stranger, pytest.raises(Unavailable):
            stranger.command("PING")
        process = containers.processes[server]
        password = url.partition("operator:")[2].partition("@")[0]
        assert len(password) == 64
        assert password not in f"{psutil.Process(process.pid).cmdline()} {psutil.Process(process.pid).environ()}"
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(300)
def test_each_service_becomes_healthy_and_every_loop_works(containers: Containers) -> None:
    """The loops run under the users of `tellback acl`, on both servers, and log in by files alone."""
    names = ("loops", "commands", "model", "beat-1", "flower")
    for name in names:
        assert not containers.healthy(name), name
        containers.start(name)
    for name in names:
        wait_until(partial(containers.healthy, name), f"{name} is healthy", timeout=90)
    login = dict(line.split("=", 1) for line in (containers.access / "agent-acme.env").read_text().splitlines())
    agent = load({**login, "TELLBACK_DATA_DIR": str(containers.folder / "agent"), "TELLBACK_SHARDS": "1"})
    with connect(settings=agent) as tb:
        play_every_loop(tb, containers.folder / "commands")
