"""Ctrl-C in a program that continues, at each step of what a host calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from typing import cast

import msgspec
import pytest

from tellback import Feedback, Prompt, Settings, Tellback, Unavailable, connect
from tellback.names import Family
from tellback.state import call_deadline
from tellback.state.database import Database
from tellback.state.keys import Layout, stream_of
from tests.support.interrupts import interrupted_at
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # redis-py's, before it has noted the socket


@pytest.fixture
def tb(settings: Settings) -> Iterator[Tellback]:
    """A client whose thread sends nothing by itself for as long as a test takes."""
    with connect(settings=msgspec.structs.replace(settings, publish_delay=60.0, feedback_deadline=5.0)) as client:
        yield client


@pytest.fixture
def prompt(tb: Tellback) -> Prompt:
    begun = tb.prompt("s1", "p")
    tb.flush()
    return begun


def flush_elsewhere(tb: Tellback) -> None:
    """Flush in another thread, as long as the test still has the traceback, and with it what it keeps alive."""
    thread = threading.Thread(target=tb.flush, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "the interrupted call keeps a lock"


@pytest.mark.parametrize("forgotten", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["known", "forgotten"])
def test_a_call_and_its_feedback_survive_ctrl_c_at_any_step(
    database: Database, layout: Layout, tb: Tellback, prompt: Prompt, *, forgotten: bool
) -> None:
    """Requirement A-488, also where the server has forgotten the scripts and refuses what was sent."""
    stream = stream_of(layout.of("s1"), Family.EVENTS)
    mailbox = layout.of("s1").key("mailbox", "s1", "p", prompt.evaluation)
    for step in count(1):
        feedback = Feedback(provider_name="p", summary=str(step), call_index=0, prompt_name="p", at=1)
        database.command("RPUSH", mailbox, msgspec.json.encode(feedback))
        prompt.tool_invoked("one")
        if forgotten:
            database.command("SCRIPT", "FLUSH")
        result, interrupt = interrupted_at(step, partial(prompt.feedback, 0.05))
        flush_elsewhere(tb)
        assert database.command("XLEN", stream) == step + 1, f"interrupted at step {step}"
        taken = [*cast("list[Feedback]", result or []), *prompt.feedback()]
        assert [each.summary for each in taken] == [str(step)], f"interrupted at step {step}"
        assert not tb.context.feedback_waiter._waits
        if interrupt is None:
            break


def test_a_flush_survives_ctrl_c_at_any_step(database: Database, layout: Layout, tb: Tellback, prompt: Prompt) -> None:
    stream = stream_of(layout.of("s1"), Family.EVENTS)
    for step in count(1):
        prompt.tool_invoked("one")
        _, interrupt = interrupted_at(step, tb.flush)
        flush_elsewhere(tb)
        assert database.command("XLEN", stream) == step + 1, f"interrupted at step {step}"
        if interrupt is None:
            break


@pytest.mark.parametrize("deadline", [None, 5.0], ids=["patient", "quick"])
def test_a_handshake_survives_ctrl_c_at_any_step(redis_server: RedisServer, deadline: float | None) -> None:
    """A connection that is half open would look sound, and lead to another database."""
    for step in count(1):
        client = Database(f"{redis_server.url.removesuffix('/0')}/3", call_deadline=deadline)
        _, interrupt = interrupted_at(step, partial(client.command, "PING"))
        for _ in range(2):
            assert b" db=3 " in client.command("CLIENT", "INFO"), f"interrupted at step {step}"
        client.close()
        if interrupt is None:
            break


def test_nobody_watches_a_call_that_ctrl_c_ended_as_it_began(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requirement A-488: its thread would look 50 times a second for ever."""
    monkeypatch.setattr(call_deadline, "IDLE_SECONDS", call_deadline.CHECK_SECONDS)
    client = Database(redis_server.url, call_deadline=0.5)
    for step in count(1):
        with suppress(Unavailable):  # late, on a busy machine
            _, interrupt = interrupted_at(step, partial(client.command, "PING"))
            if interrupt is None:
                break
    client.close()

    def watches() -> bool:
        return any(thread.name == "tellback-call-deadline" for thread in threading.enumerate())

    wait_until(lambda: not watches(), "nobody watches where nobody calls")
