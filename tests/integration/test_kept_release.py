"""Messages and states that an earlier release wrote are read by today's code. Requirement A-114."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tellback import RoutingOutcome, Tellback, connect
from tellback.contracts.codec import decode
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.turns import Turns
from tests.support.kept_release import FOLDER, applier, messages_of, restore
from tests.support.signals import Angles, Bench
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

RELEASES = sorted(FOLDER.glob("*.json"))


@pytest.fixture(params=RELEASES, ids=[path.stem for path in RELEASES])
def kept(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The messages and states of one release."""
    path: Path = request.param
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return found


@pytest.fixture
def old(database: Database, kept: list[dict[str, Any]], settings: Settings) -> Iterator[Tellback]:
    """A client of today on the state of that release, before anything of today has written to it."""
    restore(database, kept)
    with connect(settings=settings) as tb:
        yield tb


def test_every_message_is_read(kept: list[dict[str, Any]]) -> None:
    """Each field is kept: otherwise a reader that dropped one would pass."""
    messages = messages_of(kept)
    assert {family for family, _ in messages} == {"events", "commands", "signals", "turns"}
    for family, raw in messages:
        message, expected = decode(raw, family), json.loads(raw)
        del expected["type"]
        # not as today's codec writes it, which leaves out what is the default
        read = {each.encode_name: getattr(message, each.name) for each in msgspec.structs.fields(message)}
        assert msgspec.json.decode(msgspec.json.encode({name: read[name] for name in expected})) == expected


def test_states_are_read_before_anything_is_written(old: Tellback, layout: Layout) -> None:
    assert [call["tool"] for call in old.history("s1") if call["kind"] == "tool_call"] == ["search", "search"]
    used, unhelpful = (old.bank("kept").fact_stats(fact) for fact in ("f1", "f2"))
    assert 0.5 < used.usefulness_score < 0.5901  # 0.59 and 0.4 when they were written; they decay towards 0.5
    assert 0.3999 < unhelpful.usefulness_score < 0.5
    assert (used.signal_breakdown["used"], unhelpful.signal_breakdown["not_helpful"]) == (1, 1)
    turns = {turn.conversation: turn for turn in Turns(old.context.database, layout).newest(10)}
    assert {name: turn.state for name, turn in turns.items()} == {
        "answered": "responded", "open": "open", "finished": "finishing",
    }  # fmt: skip
    (letter,) = old.dead.all_now()
    assert "malformed" in letter.reason
    waiting = old.prompt("s1", "p", evaluation="e1").feedback()
    assert [feedback.summary for feedback in waiting] == ["Tool calls: 1", "Tool calls: 2"]


def test_what_waited_is_applied_once(old: Tellback, settings: Settings, layout: Layout) -> None:
    """This holds if the workers of that release and of today each get it."""
    bench = Bench(settings, layout, Angles())
    apply = applier(settings, old)
    for _ in range(2):
        apply()
        bench.consume()
    bench.close()
    assert len([call for call in old.history("s1") if call["kind"] == "tool_call"]) == 3
    assert old.bank("kept").fact_stats("f1").signal_breakdown["helpful"] == 1
    sent: dict[str, str | None] = {}
    for delivery in old.outbox("web"):
        sent[delivery.conversation] = delivery.response.text
        assert delivery.settle(RoutingOutcome(attempted=True, sent_text=True)) == "delivered"
    assert sent == {"answered": "yes", "finished": "from the intake"}


def test_queued_and_waiting_commands_run(old: Tellback, start_workers: StartWorkers, tmp_path: Path) -> None:
    start_workers(1, queues="commands", env={"TELLBACK_COMMAND_ROOTS": str(tmp_path)})
    wait_until(partial(_has_records, old, 2), "both commands have run")
    ran = {record.command[0]: record for record in old.records("s1")}
    assert (ran["true"].exit_code, ran["false"].exit_code) == (0, 1)
    assert (ran["true"].agent_note, ran["true"].input_command_ids) == ("is queued", ["x"])


def _has_records(tb: Tellback, count: int) -> bool:
    return len(tb.records("s1")) == count


def test_a_new_release_brings_its_own_file(kept: list[dict[str, Any]]) -> None:
    """The files have every loop's state, so that none is forgotten."""
    found = {entry["key"].partition("}:")[2].partition(":")[0] for entry in kept}
    assert {"eval", "mailbox", "job", "turn", "outq", "factscore", "cluster", "dead", "hist", "due", "team"} <= found
