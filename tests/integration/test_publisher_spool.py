"""Events that wait on disk: while Redis is away or full, and after the process that left them has died."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tellback import Settings, SpoolFull, connect
from tellback.contracts.message import new_event_id
from tellback.contracts.signals import SignalBatch, SignalItem
from tellback.messaging.publisher import Publisher
from tellback.messaging.spool import Spool
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.keys import Layout, stream_of
from tests.support.redis_server import RedisServer
from tests.support.tool_calls import call, tools
from tests.support.waiting import wait_until
from tests.support.workers import environment


def test_events_wait_on_disk_while_redis_is_away_and_follow_in_order(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path) as server:
        database = Database(server.url)
        layout = Layout("default", 4)
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"))
        publisher = Publisher(database, layout, settings)
        publisher.publish(call("before"))
        publisher.flush()
        server.kill()
        for number in range(700):
            publisher.publish(call(f"during{number}"))
        publisher.flush()
        assert publisher.spooled
        publisher.publish(call("last"))
        server.launch()
        wait_until(lambda: not publisher.spooled, "the spool is sent")
        publisher.flush()
        assert tools(database, layout) == ["before", *(f"during{n}" for n in range(700)), "last"]
        publisher.close()
        assert [path for path in (tmp_path / "data" / "spool").rglob("*") if path.is_file()] == []


def test_a_full_spool_refuses_the_event_and_keeps_what_it_took(
    database: Database, layout: Layout, tmp_path: Path
) -> None:
    away = Settings(redis_url="redis://127.0.0.1:1/0", data_dir=str(tmp_path / "data"), spool_max_bytes=4096)
    publisher = Publisher(Database(away.redis_url), layout, away)
    publisher.publish(call("kept", result="x" * 3000))
    publisher.flush()
    publisher.publish(call("too much", result="x" * 3000))
    with pytest.raises(SpoolFull, match="TELLBACK_SPOOL_MAX_BYTES"):
        publisher.flush()
    with pytest.raises(SpoolFull):
        publisher.publish(call("refused"))
    publisher._db = database  # Redis comes back
    publisher.flush()
    assert tools(database, layout) == ["kept", "too much"]
    publisher.close()


def test_events_that_a_process_loses_at_its_end_are_one_line_of_its_log(
    layout: Layout, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A person at the command line got two tracebacks before the error. Requirement A-492."""
    away = Settings(redis_url="redis://127.0.0.1:1/0", data_dir=str(tmp_path / "data"), spool_max_bytes=4096)
    publisher = Publisher(Database(away.redis_url), layout, away)
    publisher.publish(call("too much", result="x" * 5000))
    publisher.close()
    lost = [line for line in caplog.records if "publisher.events_lost" in line.getMessage()]
    assert [line.exc_info for line in lost] == [None]
    assert "TELLBACK_SPOOL_MAX_BYTES" in lost[0].getMessage()


def test_a_process_at_its_end_keeps_the_first_of_its_events_for_which_the_disk_has_room(
    database: Database, layout: Layout, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It lost all of them: they were written together, or not at all."""
    away = Settings(
        redis_url="redis://127.0.0.1:1/0", data_dir=str(tmp_path / "data"), spool_max_bytes=8_000, publish_delay=60
    )
    publisher = Publisher(Database(away.redis_url), layout, away)
    for number in range(20):
        publisher.publish(call(f"t{number}", result="x" * 1000))
    publisher.close()
    [lost] = [line.getMessage() for line in caplog.records if "publisher.events_lost" in line.getMessage()]
    with closing(Publisher(database, layout, msgspec.structs.replace(away, publish_delay=0.005))) as later:
        later.send_orphans(Family.EVENTS)
        wait_until(lambda: tools(database, layout), "what was kept is sent")
    sent = tools(database, layout)
    assert sent == [f"t{number}" for number in range(len(sent))]
    assert len(sent) >= 4
    assert f"events={20 - len(sent)} " in lost
    assert re.search(r"holds 0 of the \d+ bytes .*, and \d{5} more wait", lost)


def test_an_intake_at_its_bound_sends_hosts_to_their_disks(database: Database, layout: Layout, tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path / "data"), intake_max=10, publish_batch=5)
    publisher = Publisher(database, layout, settings)
    for number in range(40):
        publisher.publish(call(f"t{number}"))
    publisher.flush()
    assert publisher.spooled
    assert len(tools(database, layout)) <= 15  # the bound and at most one batch
    arrived: list[str] = []
    stream = stream_of(layout.of("s1"), Family.EVENTS)

    def all_arrived() -> bool:
        for id_, fields in database.command("XRANGE", stream, "-", "+"):
            arrived.append(msgspec.json.decode(fields[1])["tool"])
            database.command("XDEL", stream, id_)
        return len(arrived) == 40

    wait_until(all_arrived, "room in the stream is used")
    assert arrived == [f"t{number}" for number in range(40)]
    publisher.close()


def test_a_family_at_its_bound_holds_up_no_other(database: Database, layout: Layout, tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path / "data"), intake_max=3, publish_batch=5)
    publisher = Publisher(database, layout, settings)
    for number in range(20):
        item = SignalItem(fact_id="f", signal_type="used", query="q", signal_id=f"s{number}")
        publisher.publish(SignalBatch(event_id=new_event_id(), bank="b", items=[item]))
        publisher.flush()
    assert publisher.spooled
    publisher.publish(call("urgent"))
    publisher.flush()
    assert tools(database, layout) == ["urgent"]
    publisher.publish(call("soon"))
    wait_until(lambda: tools(database, layout) == ["urgent", "soon"], "an event is sent beside the lane in trouble")
    database.command("DEL", stream_of(layout.of("b"), Family.SIGNALS))
    publisher.close()


def test_events_for_one_redis_never_reach_another(database: Database, layout: Layout, tmp_path: Path) -> None:
    """Two systems, one data directory: what waits for the first stays until a client of the first comes."""
    folder = tmp_path / "first"
    folder.mkdir()
    with RedisServer.start(folder) as first:
        ours = Settings(redis_url=first.url, data_dir=str(tmp_path / "data"))
        with connect(settings=ours) as tb:
            first.kill()
            tb.context.publisher.publish(call("for the first"))
        with connect(settings=ours) as tb:  # begun while it is away
            tb.context.publisher.publish(call("for the first too"))
        with connect(settings=Settings(redis_url=database.url, data_dir=str(tmp_path / "data"))) as tb:
            tb.context.publisher.publish(call("for the second"))
        assert tools(database, layout) == ["for the second"]
        first.launch()
        with connect(settings=ours) as tb:
            tb.context.publisher.publish(call("last"))
        arrived = tools(Database(first.url), layout)
        assert sorted(arrived) == sorted(["for the first", "for the first too", "last"])
        assert arrived[-1] == "last"


def test_a_redis_that_lost_its_data_gets_what_was_kept_for_it(
    database: Database, layout: Layout, settings: Settings
) -> None:
    with connect(settings=settings) as tb:
        tb.context.publisher._db = Database("redis://127.0.0.1:1/0")  # Redis goes away
        tb.context.publisher.publish(call("kept"))
    database.command("FLUSHALL")
    with connect(settings=settings) as tb:
        tb.context.publisher.publish(call("new"))
    assert tools(database, layout) == ["kept", "new"]


def test_what_was_kept_before_a_redis_was_ever_reached_is_sent_to_it(tmp_path: Path) -> None:
    with RedisServer.start(tmp_path) as server:
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path / "data"))
        server.kill()
        with connect(settings=settings) as tb:
            tb.context.publisher.publish(call("early"))
        server.launch()
        with connect(settings=settings) as tb:
            tb.context.publisher.publish(call("late"))
        assert tools(Database(server.url), Layout("default", 4)) == ["early", "late"]


def test_the_next_process_sends_what_a_killed_one_left(
    database: Database, layout: Layout, settings: Settings, tmp_path: Path
) -> None:
    script = textwrap.dedent("""
        import os, signal, tellback
        from tellback.contracts.guidance import ToolInvoked
        from tellback.state.database import Database
        tb = tellback.connect()
        tb.context.publisher._db = Database("redis://127.0.0.1:1/0")  # Redis goes away
        for number in range(300):
            call = ToolInvoked(event_id=f"e{number}", session="s1", evaluation="e", tool=f"t{number}")
            tb.context.publisher.publish(call)
        tb.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", script], env=environment(settings), capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    (left,) = (tmp_path / "data" / "spool" / "default").rglob("*.spool")
    with left.open("ab") as file:
        stream = stream_of(layout.of("s1"), Family.EVENTS)
        file.write(f'{int(time.time() * 1000)}\t{stream}\t{{"tool": "to'.encode())  # died in the middle of a line
    with connect(settings=settings) as tb:
        tb.context.publisher.publish(call("mine"))
        tb.flush()
    assert sorted(tools(database, layout)) == sorted([*(f"t{number}" for number in range(300)), "mine"])
    assert not left.exists()


def test_a_spool_is_read_again_from_where_it_was_sent(database: Database, layout: Layout, settings: Settings) -> None:
    """A process that dies between sending and noting it sends twice at worst, and loses nothing."""
    publisher = Publisher(Database("redis://127.0.0.1:1/0"), layout, settings)
    for number in range(5):
        publisher.publish(call(f"t{number}"))
    publisher.flush()
    spool = publisher._lanes["events.0"]._spool._own
    assert spool is not None
    spool.mark(spool.size)  # all sent, noted; then more is appended
    publisher.publish(call("later"))
    publisher.flush()
    publisher._db = database
    publisher.flush()
    assert tools(database, layout) == ["later"]
    publisher.close()


def test_an_orphan_that_another_process_sent_in_the_meantime_is_left_alone(
    database: Database, layout: Layout, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name was there, it was opened, and by the time it is locked the other has sent and deleted it."""
    folder = tmp_path / "data" / "spool" / "default" / "here" / "events"
    folder.mkdir(parents=True)
    orphan = folder / "1-1-a.spool"
    orphan.touch()
    lock = fcntl.flock

    def late(file: int, operation: int) -> None:
        orphan.unlink(missing_ok=True)
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    publisher = Publisher(database, layout, settings)
    publisher.publish(call("mine"))
    publisher.flush()
    assert tools(database, layout) == ["mine"]
    assert list(folder.iterdir()) == []
    publisher.close()


def test_an_orphan_that_cannot_be_read_holds_nothing_up(
    database: Database, layout: Layout, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "data" / "spool" / "default" / "here" / "events" / "1-1-a.spool").mkdir(
        parents=True
    )  # no user can open it as a file
    publisher = Publisher(database, layout, settings)
    publisher.publish(call("mine"))
    publisher.flush()
    assert tools(database, layout) == ["mine"]
    publisher.close()


def test_a_mark_that_cannot_be_written_makes_nothing_sent_again(
    database: Database, layout: Layout, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that copies what it overwrites has no room even for that: the process remembers by itself."""
    publisher = Publisher(Database("redis://127.0.0.1:1/0"), layout, settings)
    publisher.publish(call("first"))
    publisher.flush()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    publisher._db = database
    publisher.publish(call("second"))
    publisher.flush()
    publisher.flush()
    assert tools(database, layout) == ["first", "second"]
    publisher.close()


def test_who_only_takes_decisions_sends_what_a_dead_process_left(
    database: Database, layout: Layout, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sent in the background, though nothing is published; while Redis is away it is tried again and again."""
    monkeypatch.setattr("tellback.messaging.publisher.RETRY_SECONDS", 0.01)
    away = Database("redis://127.0.0.1:1/0")
    dead = Publisher(away, layout, settings)
    dead.publish(call("left"))
    dead.close()
    publisher = Publisher(away, layout, settings)
    publisher.send_orphans(Family.EVENTS)
    publisher._db = database
    wait_until(lambda: tools(database, layout) == ["left"], "what was left is in its stream")
    publisher.close()
    clean = Publisher(database, layout, settings)
    clean.send_orphans(Family.EVENTS)
    assert clean._thread is None, "nothing is left: no thread is needed"
    clean.close()


def test_events_whose_spooling_is_interrupted_stay_in_memory(
    database: Database, layout: Layout, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requirement A-482. Ctrl-C while they were written lost them, although the program may go on."""
    publisher = Publisher(Database("redis://127.0.0.1:1/0"), layout, settings)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Spool, "append", interrupted)
        for number in range(8):
            publisher.publish(call(f"call{number}", session=f"s{number}"))
        with pytest.raises(KeyboardInterrupt):
            publisher.flush()
    publisher._db = database
    publisher.flush()
    assert sum(database.command("XLEN", stream_of(shard, Family.EVENTS)) for shard in layout.all) == 8
    publisher.close()


def test_a_refusal_that_is_raised_again_keeps_no_more_frames_alive(
    layout: Layout, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that continued while its spool was full held every refused event, and logged a frame for each."""
    publisher = Publisher(Database("redis://127.0.0.1:1/0"), layout, settings)

    def full(*_: object) -> None:
        raise SpoolFull("no room")

    def frames() -> int:
        with pytest.raises(SpoolFull) as refused:
            publisher.publish(call("refused"))
        return len(refused.traceback)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Spool, "append", full)
        publisher.publish(call("taken"))
        with pytest.raises(SpoolFull):
            publisher.flush()
        assert {frames() for _ in range(20)} == {frames()}
    publisher.close()
