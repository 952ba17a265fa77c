"""Faults of a host's disk under the spool: no room, flipped bits, keys of another type, a backlog of many processes."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tellback import Settings, SpoolFull
from tellback.contracts.codec import encode
from tellback.doctor.infrastructure import check_spool as examine
from tellback.hook.exchange import SPOOLS_SEEN, _with_events
from tellback.messaging.append_call import Bounds, append_call
from tellback.messaging.lane import SLICE
from tellback.messaging.publisher import Publisher
from tellback.messaging.spool import Spool, SpooledEvent
from tellback.messaging.spool_file import format_line
from tellback.messaging.team_cache import SpoolLocation, TeamCache, TeamIdentity, spool_name
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.keys import Layout, mark_of, stream_of
from tests.support.disks import fill
from tests.support.hooks import run_hook, start_hook, tool_event, troubles
from tests.support.redis_server import RedisServer
from tests.support.spools import quarantined, waiting
from tests.support.tool_calls import call, tools
from tests.support.waiting import wait_until

pytestmark = pytest.mark.faults

NOWHERE: Final = "redis://127.0.0.1:1/0"
BACKLOG: Final = 12_000


def event_of(layout: Layout, number: int, session: str = "s1") -> SpooledEvent:
    return SpooledEvent(stream_of(layout.of(session), Family.EVENTS), encode(call(f"t{number}", session)))


def name_of(settings: Settings, session: str = "s1") -> str:
    return spool_name(stream_of(Layout(settings.team, settings.shards).of(session), Family.EVENTS))


def spool_of(settings: Settings, place: SpoolLocation, name: str = "") -> Spool:
    return Spool(place, name or name_of(settings), max_bytes=settings.spool_max_bytes, chunk=100, shared=True)


def place_of(database: Database, settings: Settings) -> SpoolLocation:
    """Return the folder in which hooks and clients of this Redis spool."""
    id_ = database.command("HGET", Layout(settings.team, 1).shard(0).key("team"), "id")
    if id_ is None:
        id_ = b"abc"
        database.command("HSET", Layout(settings.team, 1).shard(0).key("team"), "id", id_)
    memory = TeamCache(str(settings.data_path), settings.team, settings.redis_url)
    memory.write(TeamIdentity(settings.shards, id_.decode()))
    return memory.spool_location(memory.read())


@pytest.mark.slow
def test_a_full_disk_sends_each_event_once_when_redis_is_back(small_disk: Path, tmp_path: Path) -> None:
    """Progress needs no new byte; noted in another file, it once made one chunk go out every half second for ever."""
    with RedisServer.start(tmp_path) as server:
        database, layout = Database(server.url), Layout("default", 4)
        settings = Settings(redis_url=server.url, data_dir=str(small_disk), publish_batch=20)
        publisher = Publisher(database, layout, settings)
        server.kill()
        taken = 0
        with suppress(SpoolFull):
            while True:
                publisher.publish(call(f"t{taken}", result="x" * 10_000))
                taken += 1
                publisher.flush()
        fill(small_disk)
        server.launch()
        wait_until(lambda: not publisher.spooled and not any(map(len, publisher._all())), "everything is sent")
        publisher.publish(call("new"))
        publisher.flush()
        arrived = tools(database, layout)
        assert taken > 80
        assert arrived == [*(f"t{number}" for number in range(taken)), "new"]
        publisher.close()


def test_a_hook_with_a_full_disk_sends_each_event_once(
    small_disk: Path, database: Database, layout: Layout, settings: Settings
) -> None:
    """Each hook continues where the one before stopped, though there is no room to note anything beside the file."""
    settings = msgspec.structs.replace(settings, data_dir=str(small_disk))
    spool = spool_of(settings, place_of(database, settings))
    spool.append([event_of(layout, number) for number in range(600)])
    fill(small_disk)
    stream = stream_of(layout.of("s1"), Family.EVENTS)
    rounds = 0
    while waiting(small_disk):
        rounds += 1
        assert rounds < 30
        run_hook(settings, tool_event(f"toolu_{rounds}"), "--wait=1")
    arrived = [tool for tool in tools_of_calls(database, stream) if tool != "Bash"]
    assert arrived == [f"t{number}" for number in range(600)]


def tools_of_calls(database: Database, stream: str) -> list[str]:
    entries = database.command("XRANGE", stream, "-", "+")
    return [tool for _, fields in entries if (tool := msgspec.json.decode(fields[1]).get("tool"))]


def test_hooks_of_an_outage_share_one_file(settings: Settings) -> None:
    """With one file for each call, every later call listed them all: 30 hooks sent 8 of 12,000 events."""
    away = msgspec.structs.replace(settings, redis_url=NOWHERE)
    for start in range(0, 24, 6):
        running = [start_hook(away, given=tool_event(f"toolu_{start + number}")) for number in range(6)]
        for process in running:
            process.communicate(timeout=60)
    ids = [msgspec.json.decode(event.raw).get("call_id") for event in waiting(settings.data_path)]
    assert sorted(id_ for id_ in ids if id_) == sorted(f"toolu_{number}" for number in range(24))
    assert [path.name for path in settings.data_path.rglob("*.spool")] == ["shared.spool"]


def test_one_hook_sends_what_waits_for_any_stream(database: Database, layout: Layout, settings: Settings) -> None:
    """Sessions end, and no later call may have one of the same shard."""
    place = place_of(database, settings)
    sessions = {layout.of(name): name for name in map(str, range(99))}
    for session in sessions.values():
        spool_of(settings, place, name_of(settings, session)).append([event_of(layout, 7, session)])
    run_hook(settings, tool_event("mine"), "--wait=2")
    assert len(sessions) == settings.shards
    for shard in layout.all:
        assert "t7" in tools_of_calls(database, stream_of(shard, Family.EVENTS))
    assert waiting(settings.data_path) == []


def test_a_full_stream_holds_up_no_other_that_a_hook_sends(
    database: Database, layout: Layout, settings: Settings
) -> None:
    place = place_of(database, settings)
    other = next(name for name in map(str, range(99)) if layout.of(name) != layout.of("s1"))
    for session in ("s1", other):
        spool_of(settings, place, name_of(settings, session)).append([event_of(layout, 7, session)])
    full, free = (stream_of(layout.of(session), Family.EVENTS) for session in ("s1", other))
    for _ in range(3):
        database.command("XADD", full, "*", "m", "{}")
    own = tool_event("mine", session_id=other)
    run_hook(settings, own, "--wait=2", env={"TELLBACK_INTAKE_MAX": "3"})  # its own stream comes first
    assert tools_of_calls(database, free) == ["Bash", "t7"]
    assert database.command("XLEN", full) == 3
    assert [event.stream for event in waiting(settings.data_path)] == [full]
    run_hook(settings, own, "--wait=2")
    assert tools_of_calls(database, full) == ["t7"]
    assert waiting(settings.data_path) == []


def test_a_hook_appends_what_its_writer_appended_before_once(
    database: Database, layout: Layout, settings: Settings
) -> None:
    """The reply was lost, and the process died: hooks carry its numbers, so the mark says what was appended."""
    place, stream = place_of(database, settings), stream_of(layout.of("s1"), Family.EVENTS)
    events = [event_of(layout, number)._replace(writer="w", number=number) for number in range(1, 6)]
    both = [event_of(layout, number)._replace(writer="v", number=number) for number in (11, 12, 14)]  # one was dropped
    database.run(append_call(events[:3], Bounds(1_000, 1 << 30)))
    spool_of(settings, place).append([*events, *both])
    run_hook(settings, tool_event("mine"), "--wait=2")
    arrived = [tool for tool in tools_of_calls(database, stream) if tool != "Bash"]
    assert arrived == ["t1", "t2", "t3", "t4", "t5", "t11", "t12", "t14"]
    assert [database.command("GET", mark_of(stream, writer)) for writer in "wv"] == [b"5", b"14"]


def test_a_hook_reads_few_spools_of_a_team_of_many_shards(tmp_path: Path) -> None:
    place = SpoolLocation(str(tmp_path / "team"), "origin")
    for shard in range(100):
        Spool(place, f"events.{shard}", max_bytes=1 << 30, chunk=1, shared=True).append([SpooledEvent("s", b"{}")])
    found = _with_events(place, "events.77")
    assert found[0] == "events.77"
    assert len(set(found)) == len(found) == 1 + SPOOLS_SEEN


@pytest.mark.slow
def test_hooks_alone_empty_a_spool(database: Database, layout: Layout, settings: Settings) -> None:
    spool = spool_of(settings, place_of(database, settings))
    for start in range(0, BACKLOG, 500):
        spool.append([event_of(layout, number) for number in range(start, start + 500)])
    hooks = 0
    while list(settings.data_path.rglob("*.spool")):
        hooks += 1
        assert hooks <= BACKLOG // 50, "a hook sends hundreds in its 50 ms on an idle machine"
        run_hook(settings, tool_event(f"toolu_{hooks}"))
    arrived = tools_of_calls(database, stream_of(layout.of("s1"), Family.EVENTS))
    print(f"{BACKLOG} events: {hooks} hooks, {len(arrived)} entries")  # noqa: T201 - the figure in the documents
    assert list(dict.fromkeys(tool for tool in arrived if tool != "Bash")) == [
        f"t{number}" for number in range(BACKLOG)
    ]


@pytest.mark.slow
def test_hooks_that_spool_and_send_and_are_killed_lose_nothing(
    database: Database, layout: Layout, settings: Settings
) -> None:
    rng = random.Random(5)
    expected: set[str] = set()
    place_of(database, settings)
    for start in range(0, 60, 6):
        running: list[tuple[int, subprocess.Popen[bytes]]] = []
        for number in range(start, start + 6):
            env = {"TELLBACK_INTAKE_MAX": "1"} if number % 2 else {}
            running.append((number, start_hook(settings, "--wait=1", given=tool_event(f"toolu_{number}"), env=env)))
        for number, process in running:
            if rng.random() < 0.25:
                process.kill()
            else:
                expected.add(f"toolu_{number}")
            process.communicate(timeout=60)
    last = 0
    while list(settings.data_path.rglob("*.spool")):
        last += 1
        assert last < 30
        run_hook(settings, tool_event(f"last_{last}"), "--wait=1")
    entries = database.command("XRANGE", stream_of(layout.of("s1"), Family.EVENTS), "-", "+")
    ids = {msgspec.json.decode(fields[1]).get("call_id") for _, fields in entries}
    assert expected - ids == set()
    assert quarantined(settings.data_path) == []


def test_a_backlog_of_others_holds_no_first_flush_up(database: Database, layout: Layout, settings: Settings) -> None:
    place = place_of(database, settings)
    spool_of(settings, place).append([event_of(layout, number) for number in range(5_000)])
    # Its thread waits a minute for a batch: else it may send from the backlog before the flush does.
    first = Publisher(database, layout, msgspec.structs.replace(settings, publish_delay=60.0), place)
    first.publish(call("mine"))
    first.flush()
    assert tools(database, layout).index("mine") <= SLICE + settings.publish_batch
    first.close()
    second = Publisher(database, layout, settings, place)
    second.publish(call("mine"))
    wait_until(lambda: not list(settings.data_path.rglob("*.spool")), "its thread sends the rest")
    second.close()
    assert [tool for tool in tools(database, layout) if tool != "mine"] == [f"t{number}" for number in range(5_000)]


def test_programs_that_end_in_an_outage_leave_one_file(database: Database, layout: Layout, settings: Settings) -> None:
    """A cron job that runs `tellback signal` is such a program."""
    place = place_of(database, settings)
    for number in range(20):
        publisher = Publisher(Database(NOWHERE), layout, settings, place)
        publisher.publish(call(f"t{number}"))
        publisher.close()
    assert [path.name for path in settings.data_path.rglob("*.spool")] == ["shared.spool"]
    publisher = Publisher(database, layout, settings, place)
    publisher.publish(call("last"))
    publisher.close()
    expected = [*(f"t{number}" for number in range(20)), "last"]
    assert tools(database, layout) == expected


def left_by_a_dead_process(settings: Settings, place: SpoolLocation, lines: list[bytes]) -> Path:
    """A file with these lines."""
    spool_of(settings, place).append([])
    folder = Path(place.folders(name_of(settings))[0])
    with (folder / "shared.spool").open("ab") as file:
        file.writelines(lines)
    return folder / "shared.spool"


STRANGE: Final = "no intake stream of this team"
BAD: Final[dict[str, tuple[str, Callable[[Layout, bytes], bytes]]]] = {
    "a flipped letter of the key": ("damaged", lambda _, line: line.replace(b"}:in:", b"}:io:")),
    "a flipped letter of the event": ("damaged", lambda _, line: line.replace(b"ToolInvoked", b"ToolInvokee")),
    "another type of key": (
        "no intake stream of this team",
        lambda layout, _: _line(layout.of("s1").key("hist", "s1")),
    ),
    "another team": (STRANGE, lambda _, __: _line("tb:{other.0}:in:events")),
    "another family": (STRANGE, lambda _, __: _line("tb:{default.0}:in:turns")),
    "no shard of the team": (STRANGE, lambda _, __: _line("tb:{default.4}:in:events")),
    "a shard with a zero before": (STRANGE, lambda _, __: _line("tb:{default.01}:in:events")),
}


def _line(stream: str) -> bytes:
    return format_line(SpooledEvent(stream, encode(call("bad"))), 4_000_000_000_000)


@pytest.mark.parametrize("what", BAD)
def test_a_line_that_is_not_what_was_written_is_quarantined_and_the_rest_is_sent(
    what: str, database: Database, layout: Layout, settings: Settings
) -> None:
    reason, spoil = BAD[what]
    sound = [format_line(event_of(layout, number), 4_000_000_000_000) for number in range(3)]
    bad = spoil(layout, sound[1])
    place = place_of(database, settings)
    left_by_a_dead_process(settings, place, [sound[0], bad, sound[2]])
    publisher = Publisher(database, layout, settings, place)
    publisher.publish(call("mine"))
    publisher.flush()
    assert tools(database, layout) == ["t0", "t2", "mine"]
    assert quarantined(settings.data_path) == [(reason, bad.rstrip(b"\n"))]
    found = examine(settings)
    assert found.state == "note"
    assert "1 event that can't be sent is in" in found.found
    publisher.close()
    found_keys = {key.split(b":")[2] for key in database.command("KEYS", "*")}
    assert found_keys <= {b"in", b"team", b"writer", b"notifications"}


@pytest.mark.parametrize("folders", ["one", "two"])  # one without a shard holds events of several streams
@pytest.mark.parametrize("by", ["hook", "client"])
def test_a_stream_whose_key_is_of_another_type_blocks_no_file(
    by: str, folders: str, database: Database, layout: Layout, settings: Settings
) -> None:
    other = next(name for name in map(str, range(99)) if layout.of(name) != layout.of("s1"))
    wrong, right = (stream_of(layout.of(session), Family.EVENTS) for session in (other, "s1"))
    database.command("SET", wrong, "no stream", "EX", 60)
    place = place_of(database, settings)
    events = [event_of(layout, number, ("s1", other)[number % 2]) for number in range(10)]
    for start, session in enumerate(("s1", other)):
        name = "events" if folders == "one" else name_of(settings, session)
        spool_of(settings, place, name).append(events[start::2])
    if by == "hook":
        run_hook(settings, tool_event("mine"), "--wait=1")
        assert "spool.quarantined" in troubles(settings)
    else:
        publisher = Publisher(database, layout, settings, place)
        publisher.publish(call("Bash"))
        publisher.flush()
        publisher.close()
    assert set(tools_of_calls(database, right)) == {*(f"t{number}" for number in range(0, 10, 2)), "Bash"}
    assert [reason for reason, _ in quarantined(settings.data_path)] == ["WRONGTYPE"] * 5
    assert list(settings.data_path.rglob("*.spool")) == []
    database.command("DEL", wrong)


def test_what_is_too_old_is_counted_and_logged(
    database: Database, layout: Layout, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    place = place_of(database, settings)
    left_by_a_dead_process(settings, place, [format_line(event_of(layout, number), 1_000) for number in range(3)])
    publisher = Publisher(database, layout, settings, place)
    publisher.publish(call("mine"))
    publisher.flush()
    publisher.close()
    assert tools(database, layout) == ["mine"]
    assert "spool.dropped" in caplog.text
    assert "events=3" in caplog.text
