"""A model's API for a real agent program: says to call a tool a few times, then that all is done."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tests.support.redis_server import free_port

USAGE: Final = {"input_tokens": 1, "output_tokens": 1}


class MessagesApi:
    """What the model was sent, and where it listens."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[dict[str, Any]] = []

    def times_read(self, text: str) -> list[int]:
        """How often the text stands in the conversation at each of the model's turns, the shortest first."""
        turns = sorted(json.dumps(request["messages"]) for request in self.requests if request.get("tools"))
        return [turn.count(text) for turn in sorted(turns, key=len)]


@contextmanager
def messages_api(tool: str, arguments: dict[str, Any], calls: int) -> Generator[MessagesApi]:
    """A model that calls `tool` so often, each time after it has seen the last result."""
    port = free_port()
    api = MessagesApi(f"http://127.0.0.1:{port}")

    class MessagesHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            if not self.path.startswith("/v1/messages") or "messages" not in body or "count" in self.path:
                return self._send(b"{}", "application/json")
            api.requests.append(body)
            message = _answer(body, tool, arguments, calls)
            if body.get("stream"):
                return self._send(_streamed(message), "text/event-stream")
            return self._send(json.dumps(message).encode(), "application/json")

        def do_GET(self) -> None:
            self._send(b"{}", "application/json")

        def do_HEAD(self) -> None:
            self._send(b"", "application/json")

        def _send(self, data: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as its base calls it
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), MessagesHandler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()


def _answer(body: dict[str, Any], tool: str, arguments: dict[str, Any], calls: int) -> dict[str, Any]:
    parts = [
        part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    seen = sum(1 for part in parts if part.get("type") == "tool_result")
    content: dict[str, Any] = {"type": "text", "text": "All done."}
    if seen < calls and tool in [offered.get("name") for offered in body.get("tools", [])]:
        content = {"type": "tool_use", "id": f"toolu_{seen + 1:02}", "name": tool, "input": arguments}
    stop = "tool_use" if content["type"] == "tool_use" else "end_turn"
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "content": [content]}
    return {**message, "stop_reason": stop, "stop_sequence": None, "usage": USAGE}


def _streamed(message: dict[str, Any]) -> bytes:
    content: Any = message["content"][0]
    empty: dict[str, Any] = dict(content)
    if content["type"] == "text":
        empty["text"], delta = "", {"type": "text_delta", "text": content["text"]}
    else:
        empty["input"], delta = {}, {"type": "input_json_delta", "partial_json": json.dumps(content["input"])}
    events: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": {**message, "content": [], "stop_reason": None}}),
        ("content_block_start", {"index": 0, "content_block": empty}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": message["stop_reason"], "stop_sequence": None}, "usage": USAGE}),
        ("message_stop", {}),
    ]
    return "".join(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events).encode()
