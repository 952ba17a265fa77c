"""The rate of Redis alone: the commands and bytes of our events, packed before, without scripts and without Python.

`redis-benchmark` repeats one command, and cannot name the entries that it added. So the commands of whole batches are
packed first, with ids of our own, and one connection sends them as fast as Redis answers.
"""

from __future__ import annotations

import socket
import time
from threading import Thread
from typing import Any, Final, cast

import hiredis

from benchmarks.system import BenchmarkSystem

BATCH: Final = 500  # as many as a consumer reads at once
EVALUATIONS: Final = 4  # of one batch: 16 sessions in 4 shards
STREAM: Final = "{raw}:in"
DONE: Final = b"that was the last of them"

Part = str | bytes | int
_pack = cast("Any", hiredis).pack_command  # its stub allows only commands of one word


def events_a_second(system: BenchmarkSystem, event: bytes, line: bytes, state: bytes, events: int) -> float:
    """Return how many events of this size Redis takes in, gives out, acknowledges and stores in a second."""
    batches = [b"".join(map(_pack, _batch(number, event, line, state))) for number in range(events // BATCH)]
    batches.append(_pack(("ECHO", DONE)))
    system.database.command("XGROUP", "CREATE", STREAM, "consumer", "0", "MKSTREAM")
    with socket.create_connection(("127.0.0.1", system.port)) as connection:
        connection.sendall(_pack(("AUTH", system.password)))
        connection.recv(1 << 10)
        start, sending = time.perf_counter(), Thread(target=lambda: [*map(connection.sendall, batches)])
        sending.start()
        received = b""
        while DONE not in received:  # the replies are read and not parsed: only Redis may take time
            received = received[-len(DONE) :] + connection.recv(1 << 20)
        seconds = time.perf_counter() - start
        sending.join()
    assert system.database.command("XLEN", STREAM) == 0, "Redis refused a command"
    return (len(batches) - 1) * BATCH / seconds


def _batch(number: int, event: bytes, line: bytes, state: bytes) -> list[tuple[Part, ...]]:
    """Return the commands of one batch, as our scripts run them."""
    ids = [f"{number + 1}-{nth}" for nth in range(BATCH)]
    commands: list[tuple[Part, ...]] = [("XADD", STREAM, id_, "m", event) for id_ in ids]
    commands.append(("XRANGE", STREAM, "-", "+", "COUNT", BATCH))
    commands.append(("XGROUP", "SETID", STREAM, "consumer", ids[-1]))
    for nth in range(EVALUATIONS):
        own = ids[nth::EVALUATIONS]
        calls = [part for call in range(32) for part in (f"call:{call}", line)]
        commands += [
            ("SMISMEMBER", f"{{raw}}:seen:{nth}", *own),
            ("SMISMEMBER", f"{{raw}}:seen-old:{nth}", *own),
            ("XACK", STREAM, "consumer", *own),
            ("XDEL", STREAM, *own),
            ("HSET", f"{{raw}}:eval:{nth}", "state", state, *calls),
            ("SADD", f"{{raw}}:seen:{nth}", *own),
            ("RPUSH", f"{{raw}}:hist:{nth}", *[line] * len(own)),
            ("LTRIM", f"{{raw}}:hist:{nth}", -1000, -1),
        ]
    return commands
