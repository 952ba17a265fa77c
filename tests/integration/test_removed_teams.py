"""Acts on teams: the row that each prints, and the log of removals, which outlives the log of a team."""

from __future__ import annotations

import json
from typing import Any

from celery import Celery

from tellback import Settings, Tellback
from tellback.names import Family, Task
from tellback.state.database import Database
from tellback.state.keys import FLEET, Layout
from tellback.state.presence import Presence
from tests.support.cli import teams
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers


def test_who_removed_a_team_is_known_after_its_own_log_is_gone(settings: Settings, database: Database) -> None:
    """Requirement C-169."""
    teams(settings, "create", "acme", "--shards", "1")
    assert teams(settings, "remove", "acme", "--yes", "--by", "b" * 10_000)[0] != 0, "its author can't be logged"
    assert database.command("EXISTS", Layout("acme", 1).shard(0).key("team"))
    assert teams(settings, "remove", "acme", "--yes", "--by", "ann", "--why", "customer left")[0] == 0
    assert teams(settings, "remove", "acme", "--yes", "--by", "bob")[0] != 0, "there is none any more"
    [entry] = [json.loads(line) for line in teams(settings, "removed", "--json")[1].splitlines()]
    assert [entry[name] for name in ("act", "target", "by", "reason")] == ["remove", "acme", "ann", "customer left"]
    assert database.command("TTL", FLEET.key("audit")) > 0


def test_a_log_of_removals_that_somebody_changed_by_hand_ends_no_removal(
    settings: Settings, database: Database
) -> None:
    """Requirement A-663. What it held is kept for a person to look at."""
    teams(settings, "create", "acme", "--shards", "1")
    database.command("SET", FLEET.key("audit"), "by hand")
    assert "another type" in teams(settings, "removed")[1]
    code, output = teams(settings, "remove", "acme", "--yes", "--by", "ann")
    assert code == 0, output
    assert [json.loads(line)["by"] for line in teams(settings, "removed", "--json")[1].splitlines()] == ["ann"]
    assert database.command("GET", FLEET.key("quarantine", "audit")) == b"by hand"


def test_each_act_prints_the_teams_row_as_the_list_has_it(settings: Settings) -> None:
    """Requirement C-170. A removal prints the row of before it, and asks nothing in the midst of JSON."""

    def row(*arguments: str) -> Any:
        code, output = teams(settings, *arguments, "--json")
        assert code == 0, output
        [line] = output.splitlines()
        return json.loads(line)

    acts = (("create", "--shards", "2"), ("limit", "--banks", "3"), ("suspend",), ("suspend",), ("resume",))
    for act, *options in acts:
        assert row(act, "beta", *options) == row("list", "beta")
    assert row("suspend", "beta")["state"] == "suspended"
    before = row("list", "beta")
    code, output = teams(settings, "remove", "beta", "--json")
    assert code != 0
    assert "--yes" in output
    assert row("remove", "beta", "--yes") == before


def test_a_wakeup_that_outlived_its_team_is_no_rejected_message(
    tb: Tellback, app: Celery, database: Database, start_workers: StartWorkers
) -> None:
    """Requirement A-606. `tellback doctor` said that something else writes to the broker."""
    presence = Presence(database, tb.context.layout.team)
    for name, shard in (("removed", 0), (tb.context.layout.team, 99)):
        app.send_task(Task.CONSUME, (Family.EVENTS, [(name, shard)]), queue=Family.EVENTS, ignore_result=True)
    workers = start_workers(1, pool="threads")
    wait_until(lambda: "there is no team removed" in workers.log(), "the team is not found")
    wait_until(lambda: "there is no shard 99" in workers.log(), "nor is the shard")
    wait_until(lambda: any(worker.rejected for worker in presence.workers()), "a message is rejected")
    assert [worker.rejected for worker in presence.workers()] == [1], "the shard's"
