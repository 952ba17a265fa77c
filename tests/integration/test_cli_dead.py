"""`tellback dead` and `tellback history` as a person types them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tellback import Settings
from tellback.cli.app import app
from tellback.contracts.limits import MAX_MESSAGE_BYTES
from tellback.errors import InvalidInput, StateConflict
from tellback.names import Family
from tellback.state.database import Database
from tellback.state.dead_letters import DeadLetters
from tellback.state.intake import Intake
from tellback.state.intake_lease import RawEntry
from tellback.state.keys import Layout, stream_of
from tests.support.commands import tool
from tests.support.intake_entries import read_new
from tests.support.keyleaks import undeclared

RAW = '{"type":"ToolInvoked","v":2,"note":"ünïcode"}'.encode()


@pytest.fixture
def letter(database: Database, layout: Layout) -> str:
    """The id of a dead letter."""
    intake, dead, shard = Intake(database, layout), DeadLetters(database, layout), layout.shard(1)
    database.command("XADD", stream_of(shard, Family.EVENTS), "*", "m", RAW)
    lease = intake.take_lease(shard, Family.EVENTS, 5)
    assert lease is not None
    (entry,) = read_new(intake, lease, 1)
    dead.add(lease, RawEntry(entry.id, entry.raw, 1), "UnsupportedVersion: schema version 2")
    intake.release(lease)
    return dead.newest()[0].id


def test_dead_letters_are_listed_shown_replayed_and_dropped(
    settings: Settings, database: Database, layout: Layout, letter: str
) -> None:
    assert "schema version 2" in " ".join(tool(settings, "dead", "list").stdout.split())
    (listed,) = tool(settings, "dead", "list", "--json").stdout.splitlines()
    assert json.loads(listed)["id"] == letter
    assert json.loads(tool(settings, "dead", "show", letter).stdout)["raw"] == RAW.decode()
    assert tool(settings, "dead", "replay", letter).stdout.startswith("replayed as ")
    assert database.command("XLEN", stream_of(layout.shard(1), Family.EVENTS)) == 1
    (audited,) = tool(settings, "audit", "--json").stdout.splitlines()
    assert (json.loads(audited)["act"], json.loads(audited)["target"]) == ("replay", letter)
    gone = tool(settings, "dead", "drop", letter)
    assert (gone.returncode, gone.stderr) == (
        1,
        f"tellback: no dead letter {letter}; `tellback dead list` shows what there is\n",
    )
    assert tool(settings, "dead", "show", "nonsense").returncode == 2


def test_a_dropped_letter_is_gone(settings: Settings, letter: str) -> None:
    assert tool(settings, "dead", "drop", letter).stdout == f"dropped {letter}\n"
    assert "none" in tool(settings, "dead", "list").stdout


def test_all_that_a_reason_names_goes_back_at_once(
    settings: Settings, database: Database, layout: Layout, letter: str
) -> None:
    """The order within a stream stays; truncated letters, and those that died for another reason, are left."""
    signals = stream_of(layout.shard(2), Family.SIGNALS)
    for number in range(45):
        add_letter(database, layout, signals, f'{{"n":{number}}}'.encode(), "failed 5 times: another model")
    add_letter(database, layout, signals, b"x" * (MAX_MESSAGE_BYTES + 1), "failed 5 times: another model")
    done = tool(settings, "dead", "replay", "--all", "--reason", "another model")
    assert (done.returncode, done.stdout) == (0, "replayed: 45\n")
    why_not = "truncated, of an unknown family, or for a stream that takes none now"
    assert done.stderr == f"tellback: not replayed, because they are {why_not}: 1\n"
    reported = [json.loads(entry[1][1])["n"] for entry in database.command("XRANGE", signals, "-", "+")]
    assert reported == list(range(45))
    left = DeadLetters(database, layout).newest()
    assert {each.id for each in left if each.is_complete} == {letter}
    assert tool(settings, "dead", "replay", "--all").stdout == "replayed: 1\n"


@pytest.mark.parametrize("arguments", [(), ("1:1-0", "--all"), ("1:1-0", "--reason", "x"), ("--reason", "x")])
def test_what_is_to_be_replayed_is_said_in_one_way(settings: Settings, arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["dead", "replay", *arguments, "--redis-url", settings.redis_url])
    assert done.exit_code == 2
    assert "--all" in done.stderr


def add_letter(database: Database, layout: Layout, stream: str, raw: bytes, reason: str) -> None:
    intake, dead = Intake(database, layout), DeadLetters(database, layout)
    family = Family(stream.rpartition(":")[2])
    database.command("XADD", stream, "*", "m", raw)
    lease = intake.take_lease(layout.shard(2), family, 5)
    assert lease is not None
    (entry,) = read_new(intake, lease, 1)
    dead.add(lease, RawEntry(entry.id, entry.raw, 1), reason)
    intake.release(lease)


@pytest.mark.parametrize("id_", ["0:99999999999999999999-0", "0:٣-0", "99:1-0", "0:1", ""])
def test_an_id_that_redis_cannot_read_is_wrong_input(database: Database, layout: Layout, id_: str) -> None:
    with pytest.raises(InvalidInput, match="not the id of a dead letter"):
        DeadLetters(database, layout).get(id_)


def test_a_letter_of_a_family_that_a_newer_release_added_is_kept(database: Database, layout: Layout) -> None:
    key = layout.shard(0).key("dead")
    database.command("XADD", key, "1-1", "family", "dreams", "reason", "r", "bytes", "2", "raw", "{}")
    database.command("PEXPIRE", key, 60_000)
    with pytest.raises(StateConflict, match="'dreams', which this release does not know"):
        DeadLetters(database, layout).replay("0:1-1")
    assert database.command("XLEN", key) == 1


def test_history_merges_the_shards_in_time_order(settings: Settings, database: Database, layout: Layout) -> None:
    """A session's turns and signals live in other shards than its tool calls."""
    for at, index in ((30, 0), (10, 1), (20, 3), (40, 1)):
        key = layout.shard(index).key("hist", "s1")
        database.command("RPUSH", key, json.dumps({"kind": "turn", "at": at, "shard": index}))
        database.command("PEXPIRE", key, 60_000)
    lines = tool(settings, "history", "s1", "--json").stdout.splitlines()
    assert [(json.loads(line)["at"], json.loads(line)["shard"]) for line in lines] == [
        (10, 1),
        (20, 3),
        (30, 0),
        (40, 1),
    ]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("SET", "stray", 1), "stray: not a key of ours"),
        (("SET", "tb:{default.0}:nonsense", 1), "no family 'nonsense' is declared"),
        (("SET", "tb:{default.0}:hist:s", 1), "is a string, declared a list"),
        (("RPUSH", "tb:{default.0}:hist:s", 1), "lives -1 ms, declared 604800 s"),
        (("RPUSH", "tb:{default.0}:hist:s", *range(1_001)), "holds 1001, declared at most 1000"),
    ],
    ids=["stray", "undeclared", "type", "lifetime", "cap"],
)
def test_the_check_of_every_test_finds_what_it_is_for(
    database: Database, command: tuple[str | int, ...], problem: str
) -> None:
    database.command(*command)
    if "at most" in problem:
        database.command("PEXPIRE", str(command[1]), 1_000)
    (found,) = undeclared(database)
    database.command("DEL", str(command[1]))
    assert problem in found
