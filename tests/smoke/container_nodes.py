"""The nodes as containers: the image of ops/Dockerfile, and Redis as docker-compose.yml has it."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from pytest_celery import (
    CeleryWorkerContainer,
    RedisContainer,
)

ROOT = Path(__file__).parents[2]


class Redis(RedisContainer):  # type: ignore[misc]  # pytest-celery has no py.typed
    """A Redis with AOF: workers find it by its name in the network, tests by the port that it publishes."""

    @property
    def host_url(self) -> str:
        """As tests reach it, which may themselves run in a container."""
        host, port = cast("Any", self).get_addr("6379/tcp")
        return f"redis://{host}:{port}/0"

    def empty(self) -> None:
        """Lose everything: the process and its data."""
        container = cast("Any", self)  # it is untyped
        container.exec_run(["rm", "-r", "appendonlydir"])
        container.kill("SIGKILL")
        container.reload()


class WorkerContainer(CeleryWorkerContainer):  # type: ignore[misc]  # as above
    """A `celery worker` of ours."""


IMAGE: dict[str, Any] = {
    "path": str(ROOT),
    "dockerfile": "ops/Dockerfile",
    "tag": "tellback:test",
    "buildargs": {"PIP_EXTRA_INDEX_URL": os.environ.get("PIP_EXTRA_INDEX_URL", "")},  # a CPU build of torch, perhaps
    "forcerm": True,
}
# Arguments of the fixture factories of pytest-docker-tools, which fill in the fixtures named in braces.
REDIS: dict[str, Any] = {
    "image": "redis:8",
    "command": cast("Any", Redis).command("--appendonly", "yes"),  # of two values the last holds
    "ports": {"6379/tcp": None},
    "network": "{default_pytest_celery_network.name}",
    "wrapper_class": Redis,
    "timeout": 60,
}
# Where the image keeps its data: an anonymous volume there would outlive the tests.
STATE: dict[str, Any] = {**REDIS, "tmpfs": {"/data": ""}}
BROKER: dict[str, Any] = {**REDIS, "volumes": {"{broker_volume.name}": {"bind": "/data"}}}  # which survives a restart
WORKER: dict[str, Any] = {
    "command": "celery -A tellback_workers.app worker -E --queues=events,sweeps --concurrency=1 "
    "--without-gossip --without-mingle --loglevel=INFO",
    "init": True,
    "network": "{default_pytest_celery_network.name}",
    "wrapper_class": WorkerContainer,
    "timeout": 60,
}


@functools.cache
def missing() -> str | None:
    """Return the reason why containers cannot run; None if an engine answers.

    It is asked from a process of its own: a client that fails to connect leaks its socket, and may wait for long.
    """
    command = [sys.executable, "-c", "import docker; docker.from_env(timeout=5).ping()"]
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except subprocess.CalledProcessError as error:
        return f"no container engine answers: {error.stderr.strip().rpartition(chr(10))[2]}"
    except subprocess.TimeoutExpired as error:
        return f"the container engine did not answer in {error.timeout} s"
    return None
