"""Hooks speak to a Redis behind TLS, and to none whose certificate nobody vouches for."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tellback.settings import Settings
from tellback.state.database import Database
from tests.support.hooks import run_hook, tool_event, troubles
from tests.support.redis_server import RedisServer
from tests.support.tls import make_certificate

WAIT: Final = "--wait=5"  # a process that has to wait for less ends sooner

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of localhost that nobody but itself vouches for, and its key."""
    made = make_certificate(tmp_path_factory.mktemp("tls"), address=False)
    return made.made, made.key


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer.start(tmp_path) as started:
        yield started


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def secured(certificate: tuple[Path, Path], server: RedisServer) -> Iterator[Callable[..., int]]:
    """Starts a TLS front of the server, gives its port; `client_ca` has it ask for the client's certificate."""
    listeners: list[socket.socket] = []

    def start(*, client_ca: Path | None = None) -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        if client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve(line: socket.socket) -> None:
            with (
                suppress(OSError),
                context.wrap_socket(line, server_side=True) as inside,
                socket.create_connection(("127.0.0.1", server.port)) as behind,
            ):
                threading.Thread(target=pump, args=(behind, inside), daemon=True).start()
                pump(inside, behind)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.fixture
def settings(server: RedisServer, tmp_path: Path) -> Settings:
    return Settings(redis_url=server.url, data_dir=str(tmp_path / "data"))


def kept(settings: Settings) -> int:
    return len(list(settings.data_path.rglob("*.spool")))


def arrived(server: RedisServer) -> int:
    database = Database(server.url)
    try:
        return int(database.command("DBSIZE"))
    finally:
        database.close()


def test_a_hook_publishes_over_tls_to_whom_its_authority_vouches_for(
    secured: Callable[..., int], certificate: tuple[Path, Path], server: RedisServer, settings: Settings
) -> None:
    url = f"rediss://localhost:{secured()}/0?ssl_ca_certs={certificate[0]}"
    client = Database(url)
    assert client.command("PING"), "the same address serves a client"
    client.close()
    run_hook(settings, tool_event(), f"--redis-url={url}", WAIT)
    assert (kept(settings), arrived(server) >= 2) == (0, True), troubles(settings)


def test_the_clients_own_certificate_is_shown(
    secured: Callable[..., int], certificate: tuple[Path, Path], server: RedisServer, settings: Settings
) -> None:
    made, key = certificate
    url = f"rediss://localhost:{secured(client_ca=made)}/0?ssl_ca_certs={made}"
    run_hook(settings, tool_event(), f"--redis-url={url}", WAIT)
    assert (kept(settings), arrived(server)) == (1, 0), "it asks for a certificate"
    run_hook(settings, tool_event("toolu_2"), f"--redis-url={url}&ssl_certfile={made}&ssl_keyfile={key}", WAIT)
    assert arrived(server) >= 2, troubles(settings)


@pytest.mark.parametrize("what", ["unknown authority", "another host", "no TLS at all"])
def test_a_server_that_is_not_to_be_trusted_gets_nothing(
    what: str, secured: Callable[..., int], certificate: tuple[Path, Path], server: RedisServer, settings: Settings
) -> None:
    port = server.port if what == "no TLS at all" else secured()
    host = "127.0.0.1" if what == "another host" else "localhost"
    trusted = "" if what == "unknown authority" else f"?ssl_ca_certs={certificate[0]}"
    assert run_hook(settings, tool_event(), f"--redis-url=rediss://{host}:{port}/0{trusted}", WAIT) == b""
    assert (kept(settings), arrived(server)) == (1, 0)
    assert "kept on disk" in troubles(settings)


@pytest.mark.parametrize("options", ["ssl_cert_reqs=none", "ssl_check_hostname=false&ssl_ca_certs={made}"])
def test_what_the_address_allows_is_not_checked(
    options: str, secured: Callable[..., int], certificate: tuple[Path, Path], server: RedisServer, settings: Settings
) -> None:
    url = f"rediss://127.0.0.1:{secured()}/0?{options.format(made=certificate[0])}"
    run_hook(settings, tool_event(), f"--redis-url={url}", WAIT)
    assert (kept(settings), arrived(server) >= 2) == (0, True), troubles(settings)
