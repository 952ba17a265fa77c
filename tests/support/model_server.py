"""The HTTP part of a model's API, which the API of each agent program shares."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar


class ModelHandler(BaseHTTPRequestHandler):
    """Replies with a status of 200, and logs nothing. A subclass answers what is posted."""

    protocol_version = "HTTP/1.1"
    listing: ClassVar[bytes] = b"{}"
    """The reply to a GET, such as for the names of models."""

    def answer(self, raw: bytes) -> None:
        """Answer the body of a POST by one call of `reply`."""
        raise NotImplementedError

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers.get("content-length", 0))))

    def do_GET(self) -> None:
        self.reply(self.listing, "application/json")

    def do_HEAD(self) -> None:
        self.reply(b"", "application/json")

    def reply(self, data: bytes, kind: str) -> None:
        """Send the whole reply."""
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as its base calls it
        pass


@contextmanager
def model_server(handler: type[ModelHandler]) -> Generator[str]:
    """Serve on a free port while the block runs; gives the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
