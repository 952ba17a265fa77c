"""A signal handler that interrupts its own process while it sends neither waits for ever nor loses an event."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tellback import Settings, connect
from tellback.state.database import Database
from tellback.state.keys import Layout
from tests.support.tool_calls import tools
from tests.support.waiting import wait_until
from tests.support.workers import environment

AGENT = textwrap.dedent("""
    import os, signal, sys, tellback
    tb = tellback.connect()
    prompt = tb.prompt("s1", "p", evaluation="e")

    def end(*_):
        prompt.tool_invoked("last")
        {asked}
        print("handled", flush=True)
        {then}

    signal.signal(signal.SIGTERM, end)
    for number in range(20):
        prompt.tool_invoked(str(number))
    print("ready", flush=True)
    sys.stdin.readline()
    tb.flush()
    prompt.tool_invoked("after")
    tb.close()
""")


def blocked(database: Database) -> bool:
    return b"\nblocked_clients:1" in database.command("INFO", "clients")


@pytest.mark.parametrize("asked", ["tb.close()", "tb.flush()"])
@pytest.mark.parametrize(("then", "after"), [("os._exit(0)", []), ("sys.exit(0)", []), ("pass", ["after"])])
def test_a_handler_that_interrupts_a_send_closes_the_client(
    database: Database, layout: Layout, settings: Settings, asked: str, then: str, after: list[str]
) -> None:
    slow = msgspec.structs.replace(settings, publish_delay=30.0)  # the agent's thread sends, not the publisher's
    argv = [sys.executable, "-c", AGENT.format(asked=asked, then=then)]
    with subprocess.Popen(argv, env=environment(slow), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        printed = agent.stdout
        assert agent.stdin is not None
        assert printed is not None
        assert printed.readline() == b"ready\n"
        database.command("CLIENT", "PAUSE", 60_000, "WRITE")
        try:
            agent.stdin.write(b"\n")
            agent.stdin.flush()
            wait_until(lambda: blocked(database), "the agent sends")
            agent.send_signal(signal.SIGTERM)
            wait_until(lambda: select.select([printed], [], [], 0)[0], "the handler has returned")
            assert printed.readline() == b"handled\n"
            database.command("CLIENT", "UNPAUSE")
            assert agent.wait(timeout=60) == 0
        finally:
            database.command("CLIENT", "UNPAUSE")
            agent.kill()
    with connect(settings=settings) as tb:
        tb.prompt("s1", "p").tool_invoked("next")
    expected = [*map(str, range(20)), "last", *after, "next"]
    assert Counter(tools(database, layout)) == Counter(expected)
    assert not list(Path(settings.data_path).rglob("*.spool"))
