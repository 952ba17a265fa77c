"""A team is removed and made again with another number of shards, while workers run that knew the former one."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cachetools import LRUCache
from typer.testing import CliRunner, Result

from tellback import Tellback, clock, connect
from tellback.cli.app import app as cli
from tellback.contracts.signals import SignalItem
from tellback.errors import NotFound
from tellback.messaging.team_renewal import TeamRenewal
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.audit import Author
from tellback.state.database import Database
from tellback.state.intake import StreamRef
from tellback.state.keys import Layout, stream_of
from tellback.state.steady import observe
from tellback.state.team import existing_layouts
from tellback.state.teams import Teams
from tellback_workers.loops import loop_of
from tellback_workers.runtime import Runtime
from tellback_workers.scheduler import TeamScheduler
from tests.support.clocks import later
from tests.support.lingering import LingerBench
from tests.support.turns import deadline_passes, opened, state
from tests.support.waiting import wait_until

TEAM = "acme"


@pytest.mark.parametrize("before", [2, 8])
def test_workers_serve_each_shard_of_a_team_that_was_made_again(
    settings: Settings, database: Database, before: int
) -> None:
    """Its scheduler does, and so does a process of its pool, which learns of the team by its tasks alone."""
    runtime, pool, woken = Runtime(settings), Runtime(settings), list[StreamRef]()
    scheduler = TeamScheduler(runtime, woken.extend)
    loops = list[object]()
    for shards in (before, 10 - before):
        with connect(settings=msgspec.structs.replace(settings, team=TEAM, shards=shards)) as tb:
            last = tb.context.layout.shard(shards - 1)
            bank = next(name for name in map(str, range(99)) if tb.context.layout.of(name) == last)
            tb.bank(bank).signal([SignalItem(fact_id="f", signal_type="used", query="x")])
            tb.flush()
            names = map(str, range(99))
            conversation = next(name for name in names if tb.context.layout.of_turn("chat", name) == last)
            turn = opened(tb, conversation=conversation)
            deadline_passes(tb, turn)
            scheduler.run(0.0)
            assert (last, Family.SIGNALS) in woken
            assert state(turn) == "fallback"
            assert pool.shard(TEAM, last.index) == last
            assert runtime.intake(TEAM).lengths().keys() >= {(last, Family.SIGNALS)}
            loops.append(loop_of(runtime, TEAM, Family.TURNS))
        list(Teams(database).remove(TEAM))
        scheduler.run(0.0)
        assert TEAM not in database.command("ZRANGE", "tb:{_fleet.0}:teams", 0, -1)
    assert loops[0] is not loops[1], "it was made for the former shards"
    for each in (runtime, pool):
        each.database.close()


class Watched(LRUCache[str, Layout]):
    """The layouts that a process knows, and the teams that were taken out."""

    def __init__(self) -> None:
        super().__init__(100)
        self.taken: list[str] = []

    def pop(self, key: str, default: Any = None) -> Any:
        self.taken.append(key)
        return super().pop(key, default)


def test_a_team_stays_known_while_the_teams_are_read_again(settings: Settings, database: Database) -> None:
    """The scheduler took it out and put it back; a task of another thread took its own message for a forged one."""
    runtime = Runtime(settings)
    known = runtime._layouts = Watched()
    layout = runtime.layout(TEAM)
    assert runtime.current_layouts([TEAM]) == {TEAM: layout}
    assert known.taken == []
    database.command("DEL", layout.shard(0).key("team"))
    assert runtime.current_layouts([TEAM]) == {}
    assert known.taken == [TEAM]
    runtime.database.close()


def test_nobody_waits_for_the_renewal_of_a_team(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster whose node with the team's own key hangs it takes five seconds, and calls of other nodes did too."""
    renewing, answered = threading.Event(), threading.Event()

    def renew(_: TeamRenewal) -> None:
        renewing.set()
        answered.wait(10)

    monkeypatch.setattr(TeamRenewal, "renew", renew)
    later(monkeypatch, TeamRenewal.EVERY)
    prompt = tb.prompt("s1", "n:p")
    prompt.tool_invoked("read", params={}, status="success", result="x")
    assert renewing.wait(5)
    prompt.tool_invoked("read", params={}, status="success", result="y")
    began = clock.monotonic()
    tb.flush()
    assert clock.monotonic() - began < 9, "it did not wait for the renewal"
    answered.set()


def test_a_client_that_is_closed_stores_no_team_again(
    tb: Tellback, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was due did so as it ended: a team that was removed before the close came back."""
    tb.prompt("s1", "n:p").tool_invoked("read", params={}, status="success", result="x")
    tb.flush()
    thread = tb.context.publisher._thread
    assert thread
    list(Teams(database).remove(tb.context.layout.team))
    later(monkeypatch, TeamRenewal.EVERY)
    tb.close()
    thread.join(5)
    assert not thread.is_alive()
    assert not database.command("EXISTS", tb.context.layout.shard(0).key("team"))


def test_the_hosts_of_a_team_that_redis_lost_store_it_again(
    tb: Tellback, settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers visit only teams that are stored: the event waited for ever, and the user got no fallback."""
    runtime, woken = Runtime(settings), list[StreamRef]()
    scheduler = TeamScheduler(runtime, woken.extend)
    layout = tb.context.layout

    def loses_all() -> None:
        database.command("FLUSHALL")
        scheduler.run(0.0)
        later(monkeypatch, TeamRenewal.EVERY)

    opened(tb, conversation="before")
    loses_all()
    turn = opened(tb, conversation="after")
    deadline_passes(tb, turn)
    scheduler.run(0.0)
    assert state(turn) == "fallback"
    loses_all()
    tb.prompt("s", "p").tool_invoked("t")
    wait_until(lambda: existing_layouts(database, [layout.team]) == [layout], "the publisher stored the team again")
    scheduler.run(0.0)
    assert (layout.of("s"), Family.EVENTS) in woken
    runtime.database.close()


def test_a_host_that_uses_another_number_of_shards_logs_that(
    tb: Tellback, database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The team was removed and made again while it stayed connected; nobody reads some of its streams."""
    layout = tb.context.layout
    list(Teams(database).remove(layout.team))
    made_again = Teams(database).create(layout.team, layout.shards - 1)
    later(monkeypatch, TeamRenewal.EVERY)
    opened(tb)
    assert existing_layouts(database, [layout.team]) == [made_again]
    assert f"team.other_shards team='default' stored={layout.shards - 1} used={layout.shards}" in caplog.text
    assert "restart this process" in caplog.text


def test_what_workers_still_do_for_a_removed_team_leaves_no_key(database: Database) -> None:
    """It would stay for ever: nothing lists such a team, and no command removes it."""
    layout = Teams(database).create(TEAM, 2)
    bench = LingerBench(database, layout)
    bench.others = Teams(database).create("zoo", 1).all
    with bench.lingering():
        bench.append(0, "a")
        bench.append(1, "b")
        wait_until(lambda: len(bench.recorder.tools) == 2, "each is applied")
        removal = Teams(database).remove(TEAM)
        next(removal)
        observe(database, layout.all)  # in a visit that began before
        list(removal)
        wait_until(partial(bench.has_checked, bench.checks + 1), "it has looked for streams that are free")
    bench.consumer.consume(layout.shard(0), Family.EVENTS)  # for a wake-up from before
    assert [keys for keys in database.scan("tb:{acme.*", 1000) if keys] == []


def test_what_a_connected_host_wrote_after_the_removal_is_removed_by_a_second_one(
    settings: Settings, database: Database
) -> None:
    """It was refused, since there was no such team; hosts store it again within 20 s, and these ended before."""
    environment = {"TELLBACK_REDIS_URL": settings.redis_url, "TELLBACK_DATA_DIR": settings.data_dir}

    def remove(answer: str) -> Result:
        return CliRunner().invoke(cli, ["teams", "remove", TEAM], input=answer, env=environment)

    with connect(settings=msgspec.structs.replace(settings, team=TEAM)) as tb:
        prompt = tb.prompt("s", "p")
        assert remove("y").exit_code == 0
        prompt.tool_invoked("search")
    said = remove("y")
    assert (said.exit_code, "There is no team acme, but keys of it" in said.output) == (0, True)
    assert [keys for keys in database.scan("tb:{acme.*", 1000) if keys] == []
    said = remove("")
    assert (said.exit_code, "there is no team acme" in said.stderr) == (1, True)
    with pytest.raises(NotFound):
        list(Teams(database).remove(TEAM))


def test_events_spooled_for_a_removed_team_are_named_and_go_to_the_next_of_its_name(
    settings: Settings, database: Database
) -> None:
    """They passed unnoticed: nobody sends them, nor looks for them, until the name is used again."""
    teams, own = Teams(database), msgspec.structs.replace(settings, team=TEAM)
    folder = Path(own.data_dir) / "spool" / TEAM

    def remove() -> str:
        environment = {"TELLBACK_REDIS_URL": own.redis_url, "TELLBACK_DATA_DIR": own.data_dir}
        return CliRunner().invoke(cli, ["teams", "remove", TEAM, "--yes"], env=environment).stderr

    teams.create(TEAM, 1)
    assert remove() == ""
    teams.create(TEAM, 1)
    teams.limits(TEAM).change(Author.of("tests"), suspended=True)
    with connect(settings=own) as tb:
        tb.prompt("s", "p").tool_invoked("search")
    size = sum(path.stat().st_size for path in folder.rglob("*.spool"))
    assert remove() == (
        f"tellback: {size} bytes spooled on this host would go to a new team of this name: delete {folder}\n"
    )
    with connect(settings=own) as tb:
        tb.prompt("s", "p").tool_invoked("search")
        tb.flush()
        lengths = [database.command("XLEN", stream_of(shard, Family.EVENTS)) for shard in tb.context.layout.all]
    assert sum(lengths) == 4, "the beginning of each evaluation, and its call"
    assert not list(folder.rglob("*.spool"))


@pytest.mark.parametrize("existed", [False, True])
def test_a_team_that_is_created_while_a_removal_asks_stays(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch, *, existed: bool
) -> None:
    """It was deleted by an answer about the keys, or the team, that were there before. Requirement A-552."""
    named = msgspec.structs.replace(settings, team="acme")
    with connect(settings=named) as tb:
        opened(tb)
        if not existed:  # what a host that stayed connected leaves after a removal
            database.command("DEL", tb.context.layout.shard(0).key("team"))

    def confirm(question: str, **_: object) -> bool:
        if existed:
            list(Teams(database).remove("acme"))
        connect(settings=named).close()
        return True

    monkeypatch.setattr("typer.confirm", confirm)
    done = CliRunner().invoke(cli, ["teams", "remove", "acme", "--redis-url", settings.redis_url])
    assert (done.exit_code, "was created meanwhile" in done.stderr) == (1, True)
    assert Teams(database).layout("acme").team == "acme"
