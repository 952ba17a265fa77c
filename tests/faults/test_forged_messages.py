"""Messages that anybody may have put into the broker's queues: each is rejected and counted, and no worker ends."""

from __future__ import annotations

import base64
import copy
import json
import pickle
from collections.abc import Callable
from typing import Any, Final

import pytest
from celery import Celery

from tellback import Settings, Tellback
from tellback.broker import KEY_PREFIX
from tellback.broker_transport import Unfit, check_envelope, check_task
from tellback.doctor.infrastructure import check_rejected_messages
from tellback.names import SWEEPS_QUEUE, Family, Task
from tellback.state.database import Database
from tellback.state.presence import Presence
from tellback_workers.app import config
from tests.support.tool_calls import calls, publish
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

pytestmark = [pytest.mark.faults, pytest.mark.slow]

Message = dict[str, Any]
QUEUES: Final = (*map(str, Family), SWEEPS_QUEUE)


def body(*parts: Any) -> str:
    return base64.b64encode(json.dumps(parts).encode()).decode()


def with_body(text: Any) -> Callable[[Message], Any]:
    return lambda message: message | {"body": text}


def with_arguments(*arguments: Any) -> Callable[[Message], Any]:
    return with_body(body(list(arguments), {}, {}))


def with_header(name: str, value: Any) -> Callable[[Message], Any]:
    return lambda message: message | {"headers": message["headers"] | {name: value}}


def with_property(name: str, value: Any) -> Callable[[Message], Any]:
    return lambda message: message | {"properties": message["properties"] | {name: value}}


def without(*names: str) -> Callable[[Message], Any]:
    return lambda message: {name: value for name, value in message.items() if name not in names}


def for_task(task: str, *arguments: Any) -> Callable[[Message], Any]:
    return lambda message: with_header("task", task)(with_arguments(*arguments)(message))


FORGED: Final[dict[str, Callable[[Message], Any]]] = {
    "no base64": with_body("!!!not base64"),
    "base64 cut short": with_body("W1tdLCB7fSwge31"),
    "letters that base64 has not": with_body("ümlaut"),
    "a body of no JSON": with_body(base64.b64encode(b"{nope").decode()),
    "a body of no UTF-8": with_body(base64.b64encode(b"\xff\xfe\xfd").decode()),
    "an empty body": with_body(""),
    "no body": without("body"),
    "a body that is a number": with_body(7),
    "a body that is a list": with_body([1]),
    "an empty list for a body": with_body(base64.b64encode(b"[]").decode()),
    "null for a body": with_body(base64.b64encode(b"null").decode()),
    "one part of three": with_body(body([])),
    "arguments that are a text": with_body(body("abc", {}, {})),
    "keywords that are a list": with_body(body(["events", [["default", 0]]], [], {})),
    "keywords that the task has not": with_body(body([], {"family": "events"}, {})),
    "tasks that follow": with_body(body(["events", [["default", 0]]], {}, {"errbacks": [1]})),
    "deep nesting": with_body(base64.b64encode(b"[" * 50_000).decode()),
    "no arguments": with_arguments(),
    "arguments of a former release": with_arguments("default", 0, "events"),
    "too few arguments": with_arguments("events"),
    "too many arguments": with_arguments("events", [["default", 0]], 1),
    "no stream": with_arguments("events", []),
    "more streams than a message has": with_arguments("events", [["default", 0]] * 65),
    "streams that are a text": with_arguments("events", "default"),
    "a stream that is a text": with_arguments("events", ["default"]),
    "a stream without a shard": with_arguments("events", [["default"]]),
    "a team that is a number": with_arguments("events", [[5, 0]]),
    "a team that is nothing": with_arguments("events", [[None, 0]]),
    "a team that no team can be": with_arguments("events", [["../Other Team", 0]]),
    "a shard that is a text": with_arguments("events", [["default", "0"]]),
    "a shard below the first": with_arguments("events", [["default", -1]]),
    "a shard above the last": with_arguments("events", [["default", 99]]),
    "a family that is none": with_arguments("no-such-family", [["default", 0]]),
    "a huge message": with_arguments("x" * 5_000_000, [["default", 0]]),
    "no properties": without("properties"),
    "no headers": without("headers"),
    "nothing": lambda _: {},
    "a list": lambda _: [],
    "a number": lambda _: 1,
    "a text": lambda _: "text",
    "headers that are a list": lambda message: message | {"headers": [1]},
    "headers of a former release": lambda message: {**message, "headers": {}},
    "properties that are a text": lambda message: message | {"properties": "x"},
    "a tag that is an object": with_property("delivery_tag", {"a": 1}),
    "no delivery": with_property("delivery_info", None),
    "a delivery without a key": with_property("delivery_info", {"exchange": ""}),
    "a priority that is a text": with_property("priority", "high"),
    "a task that is a number": with_header("task", 3),
    "a task that is an object": with_header("task", {}),
    "a task that nobody has": with_header("task", "os.system"),
    "an id that is a list": with_header("id", [1]),
    "retries that are a text": with_header("retries", "many"),
    "a time to wait for": with_header("eta", "2999-01-01T00:00:00+00:00"),
    "a time that is none": with_header("eta", "never"),
    "an end that is none": with_header("expires", "never"),
    "a limit that is a text": with_header("timelimit", ["a", "b"]),
    "a limit of one part": with_header("timelimit", [1]),
    "a compression that nobody has": with_header("compression", "application/x-nope"),
    "a pickle": lambda message: (
        message
        | {
            "content-type": "application/x-python-serialize",
            "content-encoding": "binary",
            "body": base64.b64encode(pickle.dumps(([], {}, {}))).decode(),
        }
    ),
    "a content type that nobody has": lambda message: message | {"content-type": "text/forged"},
    "a content type that is a number": lambda message: message | {"content-type": 9},
    "an encoding that nobody has": lambda message: message | {"content-encoding": "forged"},
    "a job without a pool": for_task(Task.RUN_JOB, "default", 0),
    "a job of a shard above the last": for_task(Task.RUN_JOB, "default", 99, "any"),
    "a look of no shard": for_task(Task.FIRE_TIMERS, "default", None),
    "visits of one team": for_task(Task.VISIT_TEAMS, "default"),
    "a decay of a list": for_task(Task.DECAY, ["default"]),
}
ODD: Final[dict[str, Callable[[Message], Any]]] = {
    "a map of a task": for_task("celery.map", {"task": "tellback.decay", "args": [], "kwargs": {}}, [[1]] * 1_000),
    "a map of a number": for_task("celery.map", 5, [[1]]),
    "a map with arguments": for_task("celery.starmap", {"task": "celery.backend_cleanup"}, [[]] * 10),
    "chunks of no task": for_task("celery.chunks", {"task": "x"}, [[1]], 5),
    "a group": for_task("celery.group", [], "x", "y"),
    "a chain": for_task("celery.chain"),
    "a chord": for_task("celery.chord", [], {}),
    "the end of a chord": for_task("celery.chord_unlock", "g", {"task": "x", "args": [], "kwargs": {}}),
    "a sum": for_task("celery.accumulate", *range(1_000)),
    "a limit beyond all": with_header("timelimit", [1e308, 1e308]),
    "a limit below zero": with_header("timelimit", [-1, -1]),
    "a limit of almost nothing": with_header("timelimit", [1e-9, 1e-9]),
    "retries below zero": with_header("retries", -5),
    "retries beyond all": with_header("retries", 10**30),
    "an end in a year of five digits": with_header("expires", "99999-01-01T00:00:00"),
    "an end in a zone that is none": with_header("expires", "2999-01-01T00:00:00+99:99"),
    "an end long ago": with_header("expires", "1999-01-01T00:00:00+00:00"),
    "stamps without a value": with_header("stamped_headers", ["a"]),
    "stamps that are a number": with_header("stamped_headers", 5),
    "a depth that is a text": with_header("replaced_task_nesting", "x"),
    "an answer to an object": with_property("reply_to", {"a": 1}),
    "half a character in the id": with_header("id", "\ud800"),
    "half a character in the task": with_header("task", "\ud800"),
    "half a character in the root": with_header("root_id", "\udfff"),
    "half a character in the tag": with_property("delivery_tag", "\ud800"),
    "half a character in the body": with_body("\ud800"),
    "control characters in the id": with_header("id", "a\n\x1b[31m\x00"),
    "arguments of 3 MB to show": with_header("argsrepr", "x" * 3_000_000),
    "a priority beyond all": with_property("priority", 10**9),
    "a priority below zero": with_property("priority", -5),
    "no encoding of the body": with_property("body_encoding", None),
    "a tag of 1 MB": with_property("delivery_tag", "t" * 1_000_000),
    "a tag that another has": with_property("delivery_tag", "same"),
    "that other": with_property("delivery_tag", "same"),
    "a key that is an object": with_property("delivery_info", {"exchange": "", "routing_key": {"a": 1}}),
    "an identifier that is a number": with_body(
        base64.b64encode(b'[[{"__type__":"uuid","__value__":5}],{},{}]').decode()
    ),
    "a shard beyond all": with_body(base64.b64encode(b'[["events",[["default",1e400]]],{},{}]').decode()),
    "a shard of 70 bits": with_arguments("events", [["default", 2**70]]),
    "a team that is none of a fleet": with_arguments("events", [["_fleet", 0]]),
    "one stream 64 times": with_arguments("events", [["default", 0]] * 64),
    "a job for a path": for_task(Task.RUN_JOB, "default", 0, "../../x"),
    "a job for a pool of 3 MB": for_task(Task.RUN_JOB, "default", 0, "p" * 3_000_000),
    "a job for half a character": for_task(Task.RUN_JOB, "default", 0, "\ud800"),
    "timers of a shard of 63 bits": for_task(Task.FIRE_TIMERS, "default", 2**63),
    "a decay with a token of 3 MB": for_task(Task.DECAY, "default", "t" * 3_000_000),
    "a team that there is not": with_arguments("events", [["nobody", 0]]),
    "a decay of a team that there is not": for_task(Task.DECAY, "nobody", ""),
}
RAW: Final[dict[str, bytes]] = {
    "no JSON": b"{nope",
    "no UTF-8": b"\xff\xfe",
    "nothing at all": b"",
    "deep nesting outside": b"[" * 100_000,
    "not a number": b"NaN",
    # Values that kombu's JSON decodes to other types, and cannot.
    "a type that is a list": b'{"__type__": [], "__value__": 0}',
    "bytes that are a number": b'{"__type__": "bytes", "__value__": 5}',
    "an id that is a number": b'{"__type__": "uuid", "__value__": 5}',
    "base64 that is a list": b'{"__type__": "base64", "__value__": []}',
    "a decimal that is a word": b'{"__type__": "decimal", "__value__": "x"}',
}
# Kombu takes no notice of empty broadcasts.
PUBLISHED: Final = {name: raw for name, raw in RAW.items() if raw}


CONTROLS: Final[dict[str, Any]] = {
    "a list": [],
    "a list of messages": [{"method": "ping"}],
    "an empty object": {},
    "a method that is an object": {"method": {}},
    "arguments that are a list": {"method": "ping", "arguments": [1]},
    "a destination that is a number": {"method": "ping", "destination": 5},
    "a pattern that is no expression": {"method": "ping", "pattern": "(", "matcher": "pcre"},
    "a pattern that takes for ever": {"method": "ping", "pattern": "(.*)*@(.*)*x", "matcher": "pcre"},
    "a glob that takes for ever": {"method": "ping", "pattern": "[!" * 50_000, "matcher": "glob"},
    "a matcher that is none": {"method": "ping", "pattern": "x", "matcher": "soundex"},
    "an answer to a text": {"method": "ping", "reply_to": "x"},
    "an answer to nobody": {"method": "ping", "reply_to": {}},
    "an argument of kombu's own": {"method": "ping", "self": 1},
}


@pytest.fixture
def good(settings: Settings, database: Database) -> Message:
    """A wake-up as a worker publishes it."""
    with Celery("test", set_as_current=False) as app:
        app.conf.update(config(settings))
        app.send_task(Task.CONSUME, ("events", [["default", 0]]), queue="scratch", ignore_result=True)
    raw = database.command("LPOP", f"{KEY_PREFIX}scratch")
    database.command("DEL", f"{KEY_PREFIX}_kombu.binding.scratch")
    message: Message = json.loads(raw)
    return message


def test_a_message_of_ours_is_fit(good: Message) -> None:
    check_envelope(good)
    check_task(good)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_forged_messages_are_rejected_and_counted_and_no_worker_ends(
    tb: Tellback, database: Database, good: Message, start_workers: StartWorkers, pool: str
) -> None:
    assert len(FORGED) >= 30
    workers = start_workers(pool=pool)
    process, children = workers.processes[0], [child.pid for child in workers.children()]
    presence = Presence(database, tb.context.layout.team)
    pushed = 0
    for queue in QUEUES:
        forged = [json.dumps(forge(copy.deepcopy(good))).encode() for forge in FORGED.values()] + list(RAW.values())
        database.pipeline(
            [("LPUSH", f"{KEY_PREFIX}{queue}", raw.replace(b"scratch", queue.encode())) for raw in forged]
        )
        pushed += len(forged)
    wait_until(
        lambda: process.poll() is not None or [worker.rejected for worker in presence.workers()] == [pushed],
        f"{pushed} messages are rejected, see {workers.logs[0]}",
    )
    assert process.poll() is None, workers.log()[-4000:]
    assert [child.pid for child in workers.children()] == children, "nor has a process of its pool"
    publish(tb, 3)
    wait_until(lambda: calls(tb) == 3, "what is good is served after them")
    wait_until(lambda: database.command("HLEN", f"{KEY_PREFIX}unacked") == 0, "none of them is kept")
    assert [worker.rejected for worker in presence.workers()] == [pushed]
    finding = check_rejected_messages(presence.workers())
    assert finding.state == "wrong"
    assert str(pushed) in finding.found
    assert "broker.rejected" in workers.log()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_odd_messages_end_no_worker_and_stay_in_no_queue(
    tb: Tellback, database: Database, good: Message, start_workers: StartWorkers, pool: str
) -> None:
    """Some are rejected, and some run a task that fails or finds nothing to do."""
    workers = start_workers(pool=pool)
    process, children = workers.processes[0], [child.pid for child in workers.children()]
    for queue in QUEUES:
        odd = [json.dumps(forge(copy.deepcopy(good))).replace("scratch", queue) for forge in ODD.values()]
        database.pipeline([("LPUSH", f"{KEY_PREFIX}{queue}", raw) for raw in odd])
    left = [("LLEN", f"{KEY_PREFIX}{queue}") for queue in QUEUES]
    wait_until(
        lambda: process.poll() is not None or not any(database.pipeline([*left, ("HLEN", f"{KEY_PREFIX}unacked")])),
        f"all are taken and none is kept, see {workers.logs[0]}",
    )
    assert process.poll() is None, workers.log()[-4000:]
    assert [child.pid for child in workers.children()] == children, "nor has a process of its pool"
    publish(tb, 3)
    wait_until(lambda: calls(tb) == 3, "what is good is served after them")


def test_forged_broadcasts_end_no_worker(tb: Tellback, database: Database, start_workers: StartWorkers) -> None:
    """Every worker subscribes to the channel of remote control, so one message would end them all."""
    workers = start_workers(2, pool="threads")
    channel = f"{KEY_PREFIX}/0.celery.pidbox"
    wait_until(lambda: database.command("PUBLISH", channel, b"") == 2, "both workers subscribe")
    for raw in PUBLISHED.values():
        assert database.command("PUBLISH", channel, raw) == 2
    publish(tb, 3)
    wait_until(lambda: calls(tb) == 3, "the workers continue")
    presence = Presence(database, tb.context.layout.team)
    wait_until(
        lambda: [worker.rejected for worker in presence.workers()] == [len(PUBLISHED)] * 2,
        "both have rejected and counted what nobody can read",
    )
    assert [process.poll() for process in workers.processes] == [None, None], workers.log()[-4000:]


def test_forged_remote_control_is_rejected_and_counted_and_begins_nothing_again(
    tb: Tellback, database: Database, good: Message, start_workers: StartWorkers
) -> None:
    """Requirement A-664. Celery closed its channel and opened it again after each of them."""
    workers = start_workers(1, pool="threads")
    channel = f"{KEY_PREFIX}/0.celery.pidbox"
    wait_until(lambda: database.command("PUBLISH", channel, b"") == 1, "the worker subscribes")
    bodies = [base64.b64encode(json.dumps(forged).encode()).decode() for forged in CONTROLS.values()]
    forged = [{**good, "body": text} for text in bodies]
    ping = base64.b64encode(json.dumps({"method": "ping"}).encode()).decode()
    forged.append({**good, "body": ping, "headers": {"clock": "late"}})
    for message in forged:
        assert database.command("PUBLISH", channel, json.dumps(message)) == 1
    presence = Presence(database, tb.context.layout.team)
    wait_until(lambda: [each.rejected for each in presence.workers()] == [len(forged)], "all are rejected and counted")
    assert "Control command error" not in workers.log()
    with Celery("test", set_as_current=False, broker=tb.context.settings.redis_url) as app:
        app.conf.update(config(tb.context.settings))
        found = app.control.inspect(timeout=20, limit=1).ping()
    assert found is not None, "what is good is answered"
    assert list(found.values()) == [{"ok": "pong"}]


@pytest.mark.parametrize("name", FORGED)
def test_what_the_check_lets_pass_names_something_that_is_not_there(good: Message, name: str) -> None:
    """A message of the right form passes: Celery finds no such task, or the task no such shard, and counts it."""
    passes = {
        "a task that nobody has",
        "a shard above the last",
        "a job of a shard above the last",
    }
    forged = json.loads(json.dumps(FORGED[name](copy.deepcopy(good))))
    try:
        check_envelope(forged)
        check_task(forged)
    except Unfit:
        assert name not in passes
    else:
        assert name in passes | {"a team that no team can be", "an end that is none"}
