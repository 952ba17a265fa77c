"""Events of one or several processes, forked ones too, reach Redis in order, from a thread or from the caller."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence

import msgspec
import pytest

from tellback import Feedback, Settings, Tellback, connect
from tellback.contracts.limits import MAX_MESSAGE_BYTES
from tellback.errors import ConfigurationError, InvalidInput, StateConflict, Unavailable
from tellback.messaging.publisher import Publisher
from tellback.names import Family
from tellback.state import list_waiter
from tellback.state.database import Database
from tellback.state.keys import NOTIFICATIONS, Layout, stream_of
from tellback.state.script_calls import FirstCall, ScriptCall
from tests.support.redis_server import RedisServer
from tests.support.tool_calls import call, tools
from tests.support.waiting import blocked, wait_until
from tests.support.workers import environment


@pytest.fixture
def publisher(database: Database, layout: Layout, settings: Settings) -> Publisher:
    return Publisher(database, layout, settings)


def test_a_lone_event_is_sent_within_the_delay(database: Database, layout: Layout, publisher: Publisher) -> None:
    publisher.publish(call("one"))
    wait_until(lambda: tools(database, layout) == ["one"], "the event is in its stream")
    publisher.close()


def test_many_events_arrive_in_order(database: Database, layout: Layout, publisher: Publisher) -> None:
    expected = [f"t{number}" for number in range(1_234)]
    for tool in expected:
        publisher.publish(call(tool))
    publisher.flush()
    assert tools(database, layout) == expected
    publisher.close()


def test_an_event_above_the_limit_is_refused_before_it_is_taken(publisher: Publisher) -> None:
    with pytest.raises(InvalidInput, match="ToolInvoked has"):
        publisher.publish(call(result="x" * MAX_MESSAGE_BYTES))
    publisher.close()


def test_a_process_that_just_ends_has_sent_everything(database: Database, layout: Layout, settings: Settings) -> None:
    script = textwrap.dedent("""
        import tellback
        tb = tellback.connect()
        prompt = tb.prompt("s1", "p")
        for number in range(50):
            prompt.tool_invoked(f"t{number}")
    """)
    subprocess.run([sys.executable, "-c", script], env=environment(settings), check=True, timeout=60)
    entries = database.command("XRANGE", stream_of(layout.of("s1"), Family.EVENTS), "-", "+")
    names = [msgspec.json.decode(fields[1]).get("tool") for _, fields in entries]
    assert [name for name in names if name] == [f"t{number}" for number in range(50)]


def _publish_many(settings: Settings, process: int, count: int) -> None:
    with connect(settings=settings) as tb:
        for number in range(count):
            tb.context.publisher.publish(call(f"{process}/{number}"))


@pytest.mark.slow
def test_eight_processes_publish_at_once_each_in_its_order(
    database: Database, layout: Layout, settings: Settings
) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_publish_many, args=(settings, number, 500)) for number in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 8
    with connect(settings=settings) as tb:  # sends what a process had to leave on disk, should Redis have been slow
        tb.flush()
    arrived = tools(database, layout)
    assert len(arrived) == 4_000
    for process_number in range(8):
        own = [tool for tool in arrived if tool.startswith(f"{process_number}/")]
        assert own == [f"{process_number}/{number}" for number in range(500)]


def test_a_forked_child_publishes_its_own_events_and_not_its_parents(
    database: Database, layout: Layout, publisher: Publisher
) -> None:
    publisher.publish(call("parent"))
    child = os.fork()
    if child == 0:
        publisher.publish(call("child"))
        publisher.flush()
        os._exit(0)
    os.waitpid(child, 0)
    publisher.close()
    assert sorted(tools(database, layout)) == ["child", "parent"]


def test_a_forked_child_sends_nothing_and_waits_for_nothing_of_its_parents(
    database: Database, layout: Layout, publisher: Publisher
) -> None:
    publisher.publish(call("parent"))
    with publisher._send_lock:  # as when another thread of the parent is sending at the fork
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            publisher.flush_soon()
            publisher.flush()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    publisher.close()
    assert tools(database, layout) == ["parent"]


def test_a_forked_child_of_multiprocessing_flushes_at_its_end(
    database: Database, layout: Layout, settings: Settings
) -> None:
    slow = msgspec.structs.replace(settings, publish_delay=60.0)
    with connect(settings=slow) as tb:
        child = multiprocessing.get_context("fork").Process(target=tb.context.publisher.publish, args=(call("child"),))
        child.start()
        child.join(60)
    assert (child.exitcode, tools(database, layout)) == (0, ["child"])


def test_a_closed_client_refuses_events(publisher: Publisher) -> None:
    publisher.close()
    with pytest.raises(StateConflict, match="closed"):
        publisher.publish(call("late"))


@pytest.fixture
def slow(database: Database, layout: Layout, settings: Settings) -> Iterator[Publisher]:
    """A publisher whose thread sends nothing by itself while a test runs."""
    publisher = Publisher(database, layout, msgspec.structs.replace(settings, publish_delay=60.0))
    yield publisher
    publisher.close()


@pytest.fixture
def lazy(settings: Settings) -> Iterator[Tellback]:
    """A client whose thread sends nothing by itself for as long as a test takes."""
    with connect(settings=msgspec.structs.replace(settings, publish_delay=60.0)) as tb:
        yield tb


def send_now(publisher: Publisher, quick: Database) -> None:
    """Send what the session has buffered in this thread, as it asks for feedback."""

    def ask(first: FirstCall | None) -> None:
        if first is not None:
            first.answered(quick.run_each([first.call])[0])

    publisher.sending("s1", quick, ask)


def test_an_event_is_sent_in_the_caller_s_thread(
    database: Database, quick: Database, layout: Layout, slow: Publisher
) -> None:
    """Requirement A-340: whoever waits for its effect doesn't wait for another thread first."""
    slow.publish(call("one"))
    slow.publish(call("two"))
    send_now(slow, quick)
    assert tools(database, layout) == ["one", "two"]
    send_now(slow, quick)
    slow.publish(call("three"))
    slow.flush()
    assert tools(database, layout) == ["one", "two", "three"]


def test_an_event_whose_answer_did_not_come_is_sent_once(
    database: Database, quick: Database, layout: Layout, slow: Publisher, redis_server: RedisServer
) -> None:
    """The caller gives up at its deadline; the event reaches the server, and then comes again with the next one."""
    slow.publish(call("one"))
    redis_server.suspend()
    try:
        with pytest.raises(Unavailable):
            send_now(slow, quick)
    finally:
        redis_server.resume()
    slow.publish(call("two"))
    slow.flush()
    assert tools(database, layout) == ["one", "two"]
    assert not slow.spooled


def test_who_sends_now_does_not_wait_for_another_who_sends(
    database: Database, quick: Database, layout: Layout, slow: Publisher
) -> None:
    slow.publish(call("one"))
    with slow._send_lock:
        send_now(slow, quick)
        assert tools(database, layout) == []
    wait_until(lambda: tools(database, layout) == ["one"], "the thread sends it, without the delay")


def test_what_is_more_than_one_call_is_left_to_the_thread(
    database: Database, quick: Database, layout: Layout, slow: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call is one deadline: more of them would hold the caller for as many."""
    asked: list[object] = []
    monkeypatch.setattr(quick, "run_each", asked.append)
    for _ in range(3):
        slow.publish(call("large", result="x" * 200_000))
    send_now(slow, quick)
    wait_until(lambda: len(tools(database, layout)) == 3, "the thread sends them")
    assert not asked


def test_a_refusal_in_the_caller_s_thread_is_the_thread_s_affair(
    database: Database, quick: Database, layout: Layout, settings: Settings
) -> None:
    """A full stream: nothing is raised, and the event waits on disk as it does otherwise."""
    full = Publisher(database, layout, msgspec.structs.replace(settings, publish_delay=60.0, intake_max=1))
    full.publish(call("one"))
    send_now(full, quick)
    full.publish(call("two"))
    send_now(full, quick)
    wait_until(lambda: full.spooled, "the thread has spooled what the stream refused")
    assert tools(database, layout) == ["one"]
    database.command("DEL", stream_of(layout.of("s1"), Family.EVENTS))
    full.flush()
    assert tools(database, layout) == ["two"]
    full.close()


def test_an_event_is_sent_within_the_delay_after_a_caller_sent_the_one_before(
    database: Database, layout: Layout, publisher: Publisher
) -> None:
    """Requirement A-489: the thread finds nothing to send, and is woken by the next event all the same."""
    with publisher._buffer_lock:  # the thread begins, and has not looked yet
        publisher.publish(call("one"))
        [lane] = publisher._lanes.values()
        lane.take_all()
        lane.emptied()
    publisher.publish(call("two"))
    wait_until(lambda: tools(database, layout) == ["two"], "the thread sends it")
    publisher.close()
    assert Settings().publish_delay == 0.02


def test_others_send_while_one_waits_for_its_feedback(
    database: Database, layout: Layout, lazy: Tellback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requirement A-487: a call holds others up until Redis has taken it, and not while it waits for feedback."""
    monkeypatch.setattr(list_waiter, "WAIT_SLICE", 20.0)
    prompt = lazy.prompt("s1", "p")
    lazy.flush()  # which brings the script if the server lacks it
    prompt.tool_invoked("one")
    waiting = threading.Thread(target=prompt.feedback, args=(20.0,))
    waiting.start()
    wait_until(lambda: blocked(database) == 1, "one waits for its feedback")
    stream = stream_of(layout.of("s1"), Family.EVENTS)
    assert database.command("XLEN", stream) == 2, "its call was sent before"
    prompt.tool_invoked("later")
    lazy.flush()
    assert database.command("XLEN", stream) == 3
    assert blocked(database) == 1
    feedback = Feedback(provider_name="p", summary="s", call_index=0, prompt_name="p", at=1)
    mailbox = layout.of("s1").key("mailbox", "s1", "p", prompt.evaluation)
    database.command("RPUSH", mailbox, msgspec.json.encode(feedback))
    waiting.join(60)
    assert not waiting.is_alive()


def test_who_may_not_wait_sends_its_call_before_it_asks(
    database: Database, layout: Layout, lazy: Tellback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requirement A-340, also for more callers than may wait, and where an access rule forbids it."""
    prompt = lazy.prompt("s1", "p")
    monkeypatch.setattr(lazy.context.feedback_waiter, "_refused_until", math.inf)
    monkeypatch.setattr(lazy.context.publisher, "flush_soon", lambda: None)
    prompt.tool_invoked("one")
    prompt.feedback(wait=0.01)
    assert database.command("XLEN", stream_of(layout.of("s1"), Family.EVENTS)) == 2


def test_a_call_whose_script_the_server_forgot_is_sent_by_the_thread(
    database: Database, layout: Layout, lazy: Tellback
) -> None:
    prompt = lazy.prompt("s1", "p")
    database.command("SCRIPT", "FLUSH")
    assert prompt.feedback(wait=0.05) == []
    stream = stream_of(layout.of("s1"), Family.EVENTS)
    wait_until(lambda: database.command("XLEN", stream) == 1, "the thread sent it")


def test_who_sends_with_its_question_notifies_the_dispatchers(
    database: Database, layout: Layout, lazy: Tellback
) -> None:
    """Requirement A-487: nobody consumes the stream, so its feedback would come only after a visit."""
    prompt = lazy.prompt("s1", "p")
    lazy.flush()  # as above
    database.command("DEL", NOTIFICATIONS)
    prompt.tool_invoked("one")
    prompt.feedback(wait=0.05)
    [[_, (_, about)]] = database.command("XRANGE", NOTIFICATIONS, "-", "+")
    assert about.decode() == stream_of(layout.of("s1"), Family.EVENTS)


def test_asking_for_feedback_sends_what_is_buffered(database: Database, settings: Settings, layout: Layout) -> None:
    with connect(settings=msgspec.structs.replace(settings, publish_delay=30.0)) as tb:
        prompt = tb.prompt("s", "p")
        stream = stream_of(layout.of("s"), Family.EVENTS)
        assert not database.command("XLEN", stream)
        prompt.feedback(wait=0.05)
        wait_until(lambda: database.command("XLEN", stream) == 1, "the beginning was sent")


def test_a_system_without_threads_left_costs_neither_the_call_nor_the_event(
    database: Database, layout: Layout, settings: Settings
) -> None:
    with connect(settings=settings) as tb:
        before = threading.stack_size(1 << 40)  # more than any system gives
        try:
            prompt = tb.prompt("s1", "p")
            prompt.tool_invoked("first")
            assert prompt.feedback() == []
        finally:
            threading.stack_size(before)
        others = set(threading.enumerate())
        prompt.tool_invoked("second")
        assert prompt.feedback() == []
        assert "tellback-call-deadline" in {thread.name for thread in set(threading.enumerate()) - others}
        stream = stream_of(layout.of("s1"), Family.EVENTS)
        wait_until(lambda: database.command("XLEN", stream) == 3, "the thread that starts later sends all")


@pytest.mark.parametrize("refused", ["each call", "the connection"])
def test_events_wait_on_disk_while_the_url_is_wrong_for_the_server(
    database: Database, layout: Layout, publisher: Publisher, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """A server that joined a cluster, or has fewer databases: its error ends neither the thread nor a call."""
    wrong = ConfigurationError("a Redis Cluster answers")

    def refuse(calls: Sequence[ScriptCall], *_: object) -> list[Exception]:
        if refused == "the connection":
            raise wrong
        return [wrong for _ in calls]

    with monkeypatch.context() as moved:
        moved.setattr(database, "run_each", refuse)
        publisher.publish(call("one"))
        publisher.flush()
        publisher.publish(call("two"))
        publisher.flush()
        assert publisher.spooled
    publisher.flush()
    assert tools(database, layout) == ["one", "two"]
    publisher.close()
