"""pytest-celery's nodes: a worker of ours and a broker of its own, as local processes and as containers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import docker
import msgspec
import pytest
import pytest_docker_tools
from docker.errors import BuildError
from pytest_celery import (
    CeleryBrokerCluster,
    CeleryTestBroker,
    CeleryTestWorker,
    CeleryWorkerCluster,
)

from tellback import Settings
from tests.smoke import container_nodes
from tests.smoke.local_nodes import LocalBroker, LocalWorker, Node

_BUILD_SECONDS = 1800  # the image is built in the first test's time, and holds torch
_tools = cast("Any", pytest_docker_tools)  # it is untyped


class _TestWorker(CeleryTestWorker):  # type: ignore[misc]  # pytest-celery has no py.typed
    def hostname(self) -> str:
        """The name of the process or container."""
        return cast("str", cast("Any", self).container.name)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a container engine where none answers; it is asked only if such a test is to run."""
    if item.get_closest_marker("containers") and (reason := container_nodes.missing()):
        pytest.skip(reason)


@pytest.fixture(
    params=["local", pytest.param("container", marks=[pytest.mark.containers, pytest.mark.timeout(_BUILD_SECONDS)])]
)
def nodes(request: pytest.FixtureRequest) -> str:
    """The kind of a test's nodes; the fixtures `local_…` and `container_…` make them."""
    return cast("str", request.param)


def _urls(cluster: Any) -> dict[str, Any]:
    """The broker's addresses; pytest-celery leaves its own signature half typed."""
    return cast("dict[str, Any]", cluster.config())


@pytest.fixture
def worker(celery_setup: Any) -> Node:
    """The worker's node, ready."""
    celery_setup.worker.ready()
    return cast("Node", celery_setup.worker)


@pytest.fixture
def broker(celery_setup: Any) -> Node:
    """The broker's node, ready."""
    return cast("Node", celery_setup.broker)


@pytest.fixture
def redis_server(request: pytest.FixtureRequest, nodes: str) -> Any:
    """The state's Redis: the one of this test process, or one in the containers' network."""
    if nodes == "local":
        return request.getfixturevalue("redis_server")
    return SimpleNamespace(url=request.getfixturevalue("container_state").host_url)


@pytest.fixture
def state_url(redis_server: Any) -> str:
    """The URL of that Redis."""
    return str(redis_server.url)


@pytest.fixture
def celery_broker_cluster(request: pytest.FixtureRequest, nodes: str) -> Iterator[CeleryBrokerCluster]:
    node = CeleryTestBroker(request.getfixturevalue(f"{nodes}_broker"))
    yield CeleryBrokerCluster(node)
    node.teardown()


@pytest.fixture
def celery_backend_cluster() -> None:
    """There is none: results of tasks are never kept."""


@pytest.fixture
def celery_worker_cluster_config(celery_broker_cluster: CeleryBrokerCluster) -> dict[str, Any]:
    return {"celery_broker_cluster_config": _urls(celery_broker_cluster)}


@pytest.fixture
def celery_worker_cluster(
    _emptied: None,
    request: pytest.FixtureRequest,
    nodes: str,
) -> Iterator[CeleryWorkerCluster]:
    node = _TestWorker(request.getfixturevalue(f"{nodes}_worker"), cast("Any", None))
    yield CeleryWorkerCluster(node)
    node.teardown()


@pytest.fixture
def local_broker(tmp_path: Path) -> LocalBroker:
    folder = tmp_path / "broker"
    folder.mkdir()
    return LocalBroker(folder)


@pytest.fixture
def local_worker(settings: Settings, celery_broker_cluster: CeleryBrokerCluster, tmp_path: Path) -> LocalWorker:
    split = msgspec.structs.replace(settings, broker_url=_urls(celery_broker_cluster)["urls"][0], beat_period=0.5)
    return LocalWorker(split, tmp_path)


@pytest.fixture(scope="session")
def docker_client() -> Iterator[Any]:
    """In the place of the one that gives up after a minute of silence, while pip installs torch."""
    with contextlib.closing(cast("Any", docker).from_env(timeout=_BUILD_SECONDS)) as engine:
        yield engine


@pytest.fixture(scope="session")
def container_image(docker_client: Any) -> Any:
    """The image of workers, built from this tree; the layers that did not change are taken from the last time."""
    try:
        return docker_client.images.build(**container_nodes.IMAGE)[0]
    except BuildError as error:
        said = "".join(line.get("stream", "") for line in cast("Any", error).build_log)
        pytest.fail(f"{error}\n{said[-4000:]}")


@pytest.fixture
def container_environment(container_state: container_nodes.Redis, celery_broker_cluster: CeleryBrokerCluster) -> Any:
    return {
        "TELLBACK_REDIS_URL": container_state.url,
        "TELLBACK_BROKER_URL": _urls(celery_broker_cluster)["urls"][0],
        "TELLBACK_BEAT_PERIOD": "0.5",
    }


# Fixtures made of fixtures: names in braces are filled in with those.
container_state = _tools.container(**container_nodes.STATE)
broker_volume = _tools.volume()
container_broker = _tools.container(**container_nodes.BROKER)
container_worker = _tools.container(
    image="{container_image.id}", environment=_tools.fxtr("container_environment"), **container_nodes.WORKER
)
