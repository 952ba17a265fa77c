"""A model's API for a real Codex: it answers with the calls of a script, one for each result that it has seen."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tests.support.http_server import Behaviour, Request, answered_by, http_server, reply

Call = tuple[str, dict[str, Any], str]
"""Name, arguments and namespace ("" for none) of a tool call."""

SUBAGENT: Final = "You are a subagent."  # begins the message of one, by which its requests are distinguished
_USAGE: Final = {
    "input_tokens": 1,
    "output_tokens": 1,
    "total_tokens": 2,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


class ResponsesApi:
    """A model's API: the requests that it was sent, and the address where it listens."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[list[dict[str, Any]]] = []

    def answer(self, given: list[dict[str, Any]], main: Sequence[Call], sub: Sequence[Call]) -> dict[str, Any]:
        self.requests.append(given)
        messages = [item for item in given if item.get("role") == "user"]
        acts = "sub" if SUBAGENT in json.dumps(messages) else "main"
        script = sub if acts == "sub" else main
        seen = sum(1 for item in given if str(item.get("type")).endswith("_output"))
        if seen >= len(script):
            said = [{"type": "output_text", "text": "All done."}]
            return {"type": "message", "id": "msg_1", "role": "assistant", "content": said}
        name, arguments, namespace = script[seen]
        where = {"namespace": namespace} if namespace else {}
        call = {"type": "function_call", "id": f"fc_{seen}", "call_id": f"call_{acts}_{seen}", "name": name, **where}
        return {**call, "arguments": json.dumps(arguments)}


@contextmanager
def responses_api(main: Sequence[Call], sub: Sequence[Call] = ()) -> Generator[ResponsesApi]:
    """Serve a model that makes the calls of `main`, and those of `sub` for a subagent."""
    api = ResponsesApi()

    def answer(request: Request) -> Behaviour:
        if request.method != "POST" or not request.path.endswith("/responses"):
            return reply(200, {"models": []}, Content_Type="application/json")
        item = api.answer(request.json["input"], main, sub)
        events: list[tuple[str, dict[str, Any]]] = [
            ("response.created", {"response": {"id": "resp_1"}}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": {"id": "resp_1", "usage": _USAGE}}),
        ]
        lines = [f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events]
        return reply(200, "".join(lines).encode(), Content_Type="text/event-stream")

    with http_server(answered_by(answer)) as server:
        api.url = f"{server.url}/v1"
        yield api
