"""The images of others can be pinned by digest as the page says; a stand-in for Docker's engine knows the digests."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pytest
import yaml

from tests.contracts.test_compose import compose
from tests.support.pages import ROOT

OURS = "tellback"
LOCK = re.compile(r"^docker compose (?P<arguments>.* --lock-image-digests .*) > (?P<file>\S+)$", re.MULTILINE)


def digest_of(image: str) -> str:
    return f"sha256:{hashlib.sha256(image.encode()).hexdigest()}"


class Engine(BaseHTTPRequestHandler):
    """The part of Docker's API that asks a registry for a digest; no registry has the image that is built here."""

    def do_HEAD(self) -> None:
        self._reply(200, {})

    def do_GET(self) -> None:
        asked = re.search(r"/distribution/(.+)/json$", self.path)
        if asked is None:
            self._reply(200, {"ApiVersion": "1.48"})
        elif OURS in asked[1]:
            self._reply(403, {"message": "pull access denied"})
        else:
            self._reply(200, {"Descriptor": {"digest": digest_of(asked[1])}, "Platforms": []})

    def _reply(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Api-Version", "1.48")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Print nothing; a socket file has no address to name."""


@pytest.fixture
def engine() -> Iterator[str]:
    """The address of the engine."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,  # a socket's path has at most 108 bytes
        ThreadingUnixStreamServer(f"{folder}/s", Engine) as server,
    ):
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"unix://{folder}/s"
        server.shutdown()
        thread.join()


def test_the_command_of_the_page_locks_every_image_of_others(engine: str, tmp_path: Path) -> None:
    found = LOCK.search((ROOT / "docs/operations/up.md").read_text("utf-8"))
    assert found
    locked = compose(*found["arguments"].split(), DOCKER_HOST=engine)
    assert locked.returncode == 0, locked.stderr
    assert set(yaml.safe_load(locked.stdout)["services"]) == {"redis", "broker", "prometheus", "grafana"}
    file = tmp_path / found["file"]
    file.write_text(locked.stdout)

    merged = compose(
        *("-f", "docker-compose.yml", "-f", str(file), "--profile", "*", "config", "--format", "json"),
        PYTHON_IMAGE="python:3.13-slim@sha256:abc",
    )
    assert merged.returncode == 0, merged.stderr
    services = json.loads(merged.stdout)["services"]
    images = {name: service["image"] for name, service in services.items() if service["image"] != OURS}
    assert all("@sha256:" in image for image in images.values()), images
    assert services["loops"]["build"]["args"]["PYTHON_IMAGE"].endswith("@sha256:abc")


def test_the_image_is_built_from_one_that_can_be_named() -> None:
    bases = re.findall(r"^FROM (\S+)", (ROOT / "ops/Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert set(bases) == {"$PYTHON_IMAGE", "base"}
