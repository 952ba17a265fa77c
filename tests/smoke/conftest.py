"""pytest-celery's nodes on local processes: a worker of ours, a broker of its own, the state in the test's Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from pytest_celery import (  # type: ignore[import-untyped]  # it has no py.typed
    CeleryBrokerCluster,
    CeleryTestBroker,
    CeleryTestContainer,
    CeleryTestWorker,
    CeleryWorkerCluster,
)

from tellback import Settings
from tellback.state.database import Database
from tests.smoke.local_nodes import LocalBroker, LocalWorker, Node


class _LocalTestWorker(CeleryTestWorker):  # type: ignore[misc]  # pytest-celery has no py.typed
    def hostname(self) -> str:
        """The name of the process, where a container would have an id."""
        return LocalWorker.id


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
def celery_broker_cluster(tmp_path: Path) -> Iterator[CeleryBrokerCluster]:
    folder = tmp_path / "broker"
    folder.mkdir()
    node = CeleryTestBroker(cast("CeleryTestContainer", LocalBroker(folder)))
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
    database: Database,  # noqa: ARG001 - the worker must be gone before the keys are checked
    settings: Settings,
    celery_broker_cluster: CeleryBrokerCluster,
    tmp_path: Path,
) -> Iterator[CeleryWorkerCluster]:
    split = msgspec.structs.replace(settings, broker_url=_urls(celery_broker_cluster)["urls"][0], beat_period=0.5)
    node = _LocalTestWorker(cast("CeleryTestContainer", LocalWorker(split, tmp_path)), cast("Any", None))
    yield CeleryWorkerCluster(node)
    node.teardown()
