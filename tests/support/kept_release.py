"""Messages and states of Redis as a release wrote them, kept in `tests/data/releases` for every later one to read.

`python -m tests.support.kept_release FILE` writes what the code of today writes. Do that once for a release, before its
code changes, and never again for the same file: a file that follows the code proves nothing.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tellback import FeedbackProviderConfig, FeedbackTrigger, OutgoingResponse, Tellback, ToolUsageMonitor, connect
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.team import open_layout
from tellback_workers.loops import consumer_of
from tellback_workers.runtime import Runtime
from tests.support.redis_server import RedisServer
from tests.support.signals import Angles, Bench

FOLDER: Final = Path(__file__).parents[1] / "data" / "releases"
EVERY = FeedbackProviderConfig(ToolUsageMonitor(), FeedbackTrigger(every_n_calls=1))
_READ: Final[dict[str, tuple[Any, ...]]] = {
    "string": ("GET",),
    "hash": ("HGETALL",),
    "list": ("LRANGE", 0, -1),
    "set": ("SMEMBERS",),
    "zset": ("ZRANGE", 0, -1, "WITHSCORES"),
    "stream": ("XRANGE", "-", "+"),
}


def use_all_loops(tb: Tellback, bench: Bench, apply: Callable[[], None]) -> None:
    """Leave a state of each loop, and then one event of each that nobody has applied."""
    prompt = tb.prompt("s1", "p", evaluation="e1", feedback_providers=[EVERY], tools=["search"], question="why?")
    prompt.observe("search", params={"q": "x"}, result="found", duration_ms=7, call_id="c1")
    prompt.tool_invoked("search", status="error", error="no route")
    tb.submit(["true"], session="s1", note="is queued", inputs=["x"], env={"A": "b"})
    for message in ("answered", "open"):
        turn = tb.open_turn(channel="web", conversation=message, message_id="m1", text="hi", language="de")
        if message == "answered":
            turn.respond(OutgoingResponse.text_only("yes"))
    with tb.bank("kept").session("s1") as memory:
        memory.used("f1", query="a@0", confidence=0.9)
        memory.not_helpful("f2", query="a@0")
    tb.flush()
    apply()
    bench.consume()
    tb.context.database.command("XADD", tb.context.layout.of("s1").key("in", "events"), "*", "m", "not a message")
    apply()
    prompt.tool_invoked("search", result="not applied yet")
    tb.submit(["false"], session="s1")
    with tb.bank("kept").session("s1") as memory:
        memory.helpful("f1", query="a@0")
    tb.bank("kept").remember("f1", "a@0")  # applied it would be in a vector set, which not every server has
    late = tb.open_turn(channel="web", conversation="finished", message_id="m1", text="hi")
    late.finish(OutgoingResponse.text_only("from the intake"))
    tb.flush()


def dump(database: Database) -> list[dict[str, Any]]:
    """Every key as text, with its remaining lifetime in milliseconds; groups of streams are made again by workers."""
    kept: list[dict[str, Any]] = []
    for key in sorted(database.command("KEYS", "tb:*")):
        kind = database.command("TYPE", key).decode()
        name, *rest = _READ[kind]
        value = database.command(name, key, *rest)
        entry = {"key": key.decode(), "type": kind, "lives": database.command("PTTL", key), "value": _text(value)}
        kept.append(entry)
    return kept


def restore(database: Database, kept: list[dict[str, Any]]) -> None:
    """Write what `dump` read, by plain commands, which every version of Redis has."""
    for entry in kept:
        key, value = entry["key"], _raw(entry["value"])
        for command in _writes(entry["type"], key, value):
            database.command(*command)
        if entry["lives"] > 0:
            database.command("PEXPIRE", key, entry["lives"])


def _writes(kind: str, key: str, value: Any) -> list[tuple[Any, ...]]:
    if kind == "stream":
        return [("XADD", key, id_, *fields) for id_, fields in value]
    if kind == "zset":
        return [("ZADD", key, score, member) for member, score in zip(value[::2], value[1::2], strict=True)]
    name = {"string": "SET", "hash": "HSET", "list": "RPUSH", "set": "SADD"}[kind]
    return [(name, key, *(value if isinstance(value, list) else [value]))]


def _text(value: Any) -> Any:
    """Return bytes as text that JSON takes: itself, or base64 after a mark."""
    kind = value.__class__  # `isinstance` would leave the parts without a type
    if issubclass(kind, dict):
        return [_text(part) for pair in value.items() for part in pair]
    if issubclass(kind, set):
        return sorted(_text(part) for part in value)
    if issubclass(kind, list | tuple):
        return [_text(part) for part in value]
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode()
    return text


def _raw(value: Any) -> Any:
    if issubclass(type(value), list):
        return [_raw(part) for part in value]
    return base64.b64decode(value[7:]) if value.startswith("base64:") else value


def applier(settings: Settings, tb: Tellback) -> Callable[[], None]:
    """Apply what waits for the loops that need no model, in this process."""
    runtime = Runtime(settings)

    def apply() -> None:
        for family in (Family.EVENTS, Family.COMMANDS, Family.TURNS):
            for shard in tb.context.layout.all:
                while consumer_of(runtime, settings.team, family).consume(shard, family):
                    continue

    return apply


def messages_of(kept: list[dict[str, Any]]) -> list[tuple[Family, bytes]]:
    """The messages that wait in the streams."""
    return [
        (Family(entry["key"].rpartition(":")[2]), fields[fields.index("m") + 1].encode())
        for entry in kept
        if entry["type"] == "stream" and ":in:" in entry["key"]
        for _, fields in entry["value"]
    ]


def main(path: Path) -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder, RedisServer.start(Path(folder)) as server:
        settings = Settings(redis_url=server.url, data_dir=folder, host="h")
        database = Database(server.url)
        layout = open_layout(database, settings.team, settings.shards)
        with connect(settings=settings) as tb:
            bench = Bench(settings, layout, Angles())
            use_all_loops(tb, bench, applier(settings, tb))
            kept = dump(database)
            bench.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
