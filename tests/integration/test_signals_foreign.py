"""Signals of hosts in other languages: one JSON object appended to a stream, as its published schema says."""

from __future__ import annotations

import json
import zlib
from importlib.resources import files
from typing import Any

import pytest

from tellback import Tellback
from tellback.state.banks import bank_names
from tests.support import json_schema
from tests.support.signals import Bench

SCHEMA = json.loads((files("tellback.contracts") / "schemas" / "SignalBatch.json").read_bytes())


def batch(**fields: Any) -> dict[str, Any]:
    items = [{"fact_id": "f", "signal_type": "used", "query": "a"}]
    return {"type": "SignalBatch", "v": 1, "event_id": "go-7f3a-1", "bank": "b", "items": items, **fields}


def signal(**fields: Any) -> dict[str, Any]:
    return batch(items=[{"fact_id": "f", "signal_type": "used", "query": "a", **fields}])


def append(bench: Bench, raw: bytes, *, field: str = "m", bank: str = "b") -> None:
    """As `redis-cli HGET 'tb:{default.0}:team' shards` and `redis-cli XADD ...` would, with no code of ours."""
    database = bench.runtime.database
    shards = int(database.command("HGET", "tb:{default.0}:team", "shards"))
    stream = f"tb:{{default.{zlib.crc32(bank.encode()) % shards}}}:in:signals"
    database.command("XADD", stream, "*", field, raw)


def valid(message: Any) -> bool:
    validator: Any = json_schema.Draft202012Validator(SCHEMA)
    return bool(validator.is_valid(message))


def test_a_batch_that_the_schema_allows_is_applied(tb: Tellback, bench: Bench) -> None:
    """The same again, as a host sends it that does not know whether it arrived, has no effect."""
    items = [
        {"fact_id": "f", "signal_type": "helpful", "query": "a", "confidence": 1, "context": None},
        {"fact_id": "über/das", "signal_type": "ignored", "query": "c@5", "confidence": 0.5, "context": "seen"},
        {"fact_id": "f", "signal_type": "not_helpful", "query": "b", "signal_id": "mine"},
    ]
    message = batch(items=items, session="go-1")
    assert valid(message)
    for _ in range(2):
        append(bench, json.dumps(message).encode())
        bench.consume()
    assert tb.bank("b").stats().signal_count == 3
    assert tb.bank("b").fact_stats("f").signal_breakdown["not_helpful"] == 1
    assert [entry["fact_id"] for entry in tb.history("go-1")] == ["f", "über/das", "f"]
    assert tb.dead.count() == 0


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (signal(confidence=1.5), "confidence"),
        (signal(confidence="1"), "confidence"),
        (signal(signal_type="loved"), "signal_type"),
        (signal(query="   "), "query"),
        (signal(query=None), "query"),
        (signal(fact_id=""), "fact_id"),
        (signal(fact_id="x" * 513), "fact_id"),
        (signal(context=7), "context"),
        (signal(confidance=0.2), "confidance"),
        (batch(items=[]), "items"),
        (batch(items=[signal()["items"][0]] * 501), "items"),
        (batch(bank=""), "bank"),
        (batch(session=""), "session"),
        (batch(more=1), "more"),
        ({"type": "SignalBatch", "event_id": "e", "bank": "b"}, "items"),
        ([1], "array"),
    ],
    ids=str,
)
def test_what_the_schema_refuses_is_a_dead_letter(tb: Tellback, bench: Bench, message: Any, reason: str) -> None:
    """The reason names the field, nothing of the batch is applied, and the stream continues."""
    assert not valid(message)
    append(bench, json.dumps(message).encode())
    append(bench, json.dumps(batch(event_id="next")).encode())
    bench.consume()
    [letter] = tb.dead.newest()
    assert reason in letter.reason
    assert tb.bank("b").stats().signal_count == 1
    assert sum(bench.intake.lengths().values()) == 0


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"not json",
        b'{"type": "SignalBatch", "event_id": "e", "bank": "\xff", "items": []}',
        json.dumps(signal()).replace('"a"', '"a", "confidence": NaN').encode(),
        json.dumps(signal()).replace('"a"', '"a", "confidence": Infinity').encode(),
        json.dumps(batch(event_id="")).encode(),
        json.dumps(batch(v=2)).encode(),
        json.dumps(batch(type="NoSuchMessage")).encode(),
        json.dumps({"type": "TurnFinished"}).encode(),
        b"[" * 100_000,
        json.dumps(signal(context="x" * 60_000)).encode() + b" " * (1 << 20),
    ],
    ids=range(12),
)
def test_what_is_no_message_is_a_dead_letter(tb: Tellback, bench: Bench, raw: bytes) -> None:
    append(bench, raw)
    append(bench, json.dumps(batch()).encode(), field="message")
    append(bench, json.dumps(batch(event_id="next")).encode())
    bench.consume()
    assert tb.dead.count() == 2
    assert tb.bank("b").stats().signal_count == 1


def test_a_batch_in_the_shard_of_another_bank_is_a_dead_letter(tb: Tellback, bench: Bench) -> None:
    """Applied there, it would make a bank that nobody finds, and whose name breaks the list of banks."""
    elsewhere = next(name for name in ("c", "d", "e", "f", "g", "h") if bench.layout.of(name) != bench.layout.of("b"))
    append(bench, json.dumps(batch(bank=elsewhere)).encode(), bank="b")
    append(bench, json.dumps(batch(event_id="next")).encode())
    bench.consume()
    [letter] = tb.dead.newest()
    assert f"shard {bench.layout.of(elsewhere).index}" in letter.reason
    assert tb.bank("b").stats().signal_count == 1
    assert bank_names(bench.runtime.database, bench.layout) == ["b"]


def test_a_bank_in_a_wrong_shard_does_not_hide_the_others(bench: Bench) -> None:
    """An older worker may have applied one there."""
    append(bench, json.dumps(batch()).encode())
    bench.consume()
    elsewhere = next(shard for shard in bench.layout.all if shard != bench.layout.of("b"))
    bench.runtime.database.command("ZADD", elsewhere.key("banks"), 1, "b")
    assert bank_names(bench.runtime.database, bench.layout) == ["b"]
