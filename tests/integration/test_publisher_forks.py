"""A forked child publishes from many threads at once: nothing of it is lost, and nothing of its parent is held up."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tellback import Settings, aio, connect
from tellback.client.agent_prompts import AgentPrompts
from tellback.messaging.lane import BufferedTotal, Lane
from tellback.messaging.publisher import Publisher
from tellback.messaging.spool import Spool, SpooledEvent
from tellback.messaging.spool_file import SpoolFile
from tellback.messaging.team_cache import SpoolLocation
from tellback.names import Family
from tellback.state.call_deadline import CallDeadline
from tellback.state.database import Database
from tellback.state.keys import Layout, stream_of
from tellback.state.redis_py import open_socket
from tests.support.tool_calls import call, tools
from tests.support.workers import environment

THREADS, EACH = 8, 200


def run_in_forked_child(work: Callable[[int], None], then: Callable[[], object] = lambda: None) -> None:
    """Run `work` in eight threads that begin together, the interpreter passing from one to another all the time."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        sys.setswitchinterval(1e-6)
        failed: list[BaseException] = []
        together = threading.Barrier(THREADS)

        def run(thread: int) -> None:
            together.wait()
            try:
                work(thread)
            except BaseException as error:  # noqa: BLE001 - reported by the exit code
                failed.append(error)

        threads = [threading.Thread(target=run, args=(thread,)) for thread in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        then()
        os._exit(1 if failed else 0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("fork", range(5))
def test_threads_of_a_forked_child_lose_no_event(
    database: Database, layout: Layout, settings: Settings, fork: int
) -> None:
    publisher = Publisher(database, layout, settings)
    publisher.publish(call("parent"))

    def publish(thread: int) -> None:
        for number in range(EACH):
            publisher.publish(call(f"{fork}/{thread}/{number}"))

    run_in_forked_child(publish, publisher.flush)
    publisher.close()
    expected = [f"{fork}/{thread}/{n}" for thread in range(THREADS) for n in range(EACH)]
    assert Counter(tools(database, layout)) == Counter(["parent", *expected])


@pytest.mark.slow
def test_threads_of_a_forked_child_keep_their_deadlines() -> None:
    """A call that another thread's fresh start forgets is bounded by nothing, and its connection is thrown away."""
    deadline = CallDeadline(5.0, open_socket)

    def begin_and_end(_thread: int) -> None:
        for _ in range(50):
            assert deadline.end(deadline.begin())

    for _ in range(40):
        run_in_forked_child(begin_and_end)


def test_a_forked_child_awaits_calls_of_its_parents_asyncio_client(
    database: Database, layout: Layout, settings: Settings
) -> None:
    """The threads of its pools are the parent's; the child counted them as idle, and waited for them for ever."""

    async def parent() -> aio.Tellback:
        tb = await aio.connect(settings=settings)
        await tb.prompt("s1", "p")
        assert await tb.records("s1") == []
        return tb

    tb = asyncio.run(parent())

    async def child() -> None:
        prompt = await tb.prompt("s1", "p")
        await prompt.tool_invoked("child")
        await tb.flush()
        assert await tb.records("s1") == []

    run_in_forked_child(lambda thread: asyncio.run(child()) if thread == 0 else None)
    asyncio.run(tb.close())
    assert Counter(tools(database, layout)) == Counter(["child"])


def test_a_forked_child_uses_prompts_of_subagents_that_its_parent_was_beginning() -> None:
    """Another thread of the parent held their lock at the fork, and nobody would release it in the child."""
    begun, let_go = threading.Event(), threading.Event()

    def begin(name: str) -> str:
        begun.set()
        let_go.wait()
        return name

    agents = AgentPrompts[str](begin)
    other = threading.Thread(target=agents.named, args=("parent",))
    other.start()
    begun.wait()

    def named(_thread: int) -> None:
        let_go.set()
        assert agents.named("child") == "child"

    run_in_forked_child(named)
    let_go.set()
    other.join()


def test_what_a_dead_parent_spooled_is_sent_while_its_child_lives(
    database: Database, layout: Layout, settings: Settings
) -> None:
    """The child inherits the open file with its lock, and the parent's thread keeps it in use there."""
    script = textwrap.dedent("""
        import os, signal, sys, time, tellback
        from tellback.contracts.guidance import ToolInvoked
        from tellback.state.database import Database
        tb = tellback.connect()
        tb.context.publisher._db = Database("redis://127.0.0.1:1/0")  # Redis goes away
        tb.context.publisher.publish(ToolInvoked(event_id="e", session="s1", evaluation="e", tool="parent"))
        tb.flush()
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        print(child, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    parent = subprocess.Popen([sys.executable, "-c", script], env=environment(settings), stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.wait()
    parent.stdout.close()
    try:
        with connect(settings=settings) as tb:
            tb.context.publisher.publish(call("next"))
        assert sorted(tools(database, layout)) == ["next", "parent"]
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_child_holds_neither_a_file_that_its_parent_sends_nor_the_shared_one(layout: Layout, tmp_path: Path) -> None:
    """A slice ends with a file of others half sent and still locked; an append ends with the shared one unlocked."""
    place = SpoolLocation(str(tmp_path / layout.team), "here")
    event = SpooledEvent(stream_of(layout.shard(0), Family.EVENTS), b"{}")
    sender = Spool(place, "events.0", max_bytes=1 << 20, chunk=1)
    Spool(place, "events.0", max_bytes=1 << 20, chunk=1, shared=True).append([event, event])
    assert sender.send_orphans(lambda _: None, lambda _: False), "something is left"
    shared = SpoolFile.take(str(tmp_path / "shared.spool"), create=True)
    assert shared is not None
    lane = Lane(event.stream, "w", sender, BufferedTotal(Family.EVENTS))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        lane.abandon()
        os.write(write, b".")
        signal.pause()
    try:
        os.read(read, 1)
        [half_sent] = Spool(place, "events.0", max_bytes=1 << 20, chunk=1).other_files()
        assert not lockable(half_sent), "the parent lives and has it"
        sender.abandon()  # closed and not unlocked, as by a parent that is killed
        assert lockable(half_sent)
        with shared:
            pass
        assert lockable(shared.path)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


def lockable(path: str) -> bool:
    file = SpoolFile.take(path)
    if file is not None:
        with file:
            return True
    return False
