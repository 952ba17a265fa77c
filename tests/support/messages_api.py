"""A model's API for a real agent program: says to call a tool a few times, then that all is done."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from tests.support.http_server import Behaviour, Request, answered_by, http_server, reply

USAGE: Final = {"input_tokens": 1, "output_tokens": 1}


class MessagesApi:
    """A model's API: the requests that it was sent, and the address where it listens."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []

    def times_read(self, text: str) -> list[int]:
        """Count the text in the conversation at each of the model's turns, the shortest first."""
        turns = sorted(json.dumps(request["messages"]) for request in self.requests if request.get("tools"))
        return [turn.count(text) for turn in sorted(turns, key=len)]


@contextmanager
def messages_api(tool: str, arguments: dict[str, Any], calls: int) -> Generator[MessagesApi]:
    """A model that calls `tool` so often, each time after it has seen the last result."""
    api = MessagesApi()

    def answer(request: Request) -> Behaviour:
        body = json.loads(request.body or b"{}")
        if not request.path.startswith("/v1/messages") or "messages" not in body or "count" in request.path:
            return reply(200, {}, Content_Type="application/json")
        api.requests.append(body)
        message = _answer(body, tool, arguments, calls)
        if body.get("stream"):
            return reply(200, _streamed(message), Content_Type="text/event-stream")
        return reply(200, message, Content_Type="application/json")

    with http_server(answered_by(answer)) as server:
        api.url = server.url
        yield api


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
