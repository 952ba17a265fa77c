"""Fleet-wide tool health: what begins, prolongs and ends a cool-down, on a real Redis."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tellback import Prompt, Tellback, connect
from tellback.contracts.guidance import CallStatus, Offer, Outcome, OutcomeCode, ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.errors import Unavailable
from tellback.guidance.state import BatchEffects, new_evaluation
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId, LoadedEvaluation
from tellback.state.evaluations import EvaluationChange
from tellback.state.intake_lease import IntakeEntry
from tellback.state.keys import FAMILIES, Layout
from tellback.state.script_calls import ScriptCall
from tellback.state.tool_health import FleetHealth, ToolHealth, ToolSighting
from tellback_workers.loops.guidance import HealthReport
from tellback_workers.runtime import Runtime
from tests.support.examples import examples
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

DEFAULT = 30.0
HOUR = 3_600


def refusal(at: int, wait: float | None = None, tool: str = "t") -> ToolSighting:
    return ToolSighting(tool, at, at, refused=True, wait_ms=None if wait is None else round(wait * 1000))


def answer(at: int, began: int | None = None, tool: str = "t") -> ToolSighting:
    return ToolSighting(tool, at, at if began is None else began, refused=False)


def left(health: ToolHealth, tool: str = "t") -> float:
    return health.cooling([tool]).get(tool, 0.0)


def test_a_refusal_holds_until_its_retry_after(health: ToolHealth, now: int) -> None:
    health.note([refusal(now, 90), refusal(now, 7, "u")], DEFAULT)
    found = health.cooling(["t", "u", "never-seen"])
    assert found.keys() == {"t", "u"}
    assert 85 < found["t"] <= 90
    assert 2 < found["u"] <= 7
    health.note([refusal(now, 40, "v")], DEFAULT)
    assert [each.tool for each in health.in_force()] == ["t", "v", "u"], "the longest first"


def test_the_longest_wait_of_many_counts_whatever_their_order(health: ToolHealth, now: int) -> None:
    health.note([refusal(now, 20), refusal(now + 1, 90), refusal(now + 2, 5)], DEFAULT)
    health.note([refusal(now - 5, 10)], DEFAULT)
    assert 85 < left(health) <= 90.1


def test_a_crowd_that_is_refused_at_once_is_one_refusal(health: ToolHealth, now: int) -> None:
    health.note([refusal(now + n % 7) for n in range(2_000)], DEFAULT)
    (one,) = health.in_force()
    assert one.refusals == 1
    assert 25 < one.seconds_left <= 30.01


def test_repeated_refusals_without_a_time_wait_longer_up_to_ten_minutes(health: ToolHealth, now: int) -> None:
    waits: list[float] = []
    at = now - HOUR * 1000
    for _ in range(10):
        health.note([refusal(at)], DEFAULT)
        ends = round(kept(health)["ends"])
        waits.append((ends - at) / 1000)
        at = ends
    assert waits == [30, 60, 120, 240, 480, 600, 600, 600, 600, 600]


def kept(health: ToolHealth, tool: str = "t") -> dict[str, Any]:
    """Return the stored health of a tool; empty if the tool is not known."""
    raw = health._db.command("HGET", health._layout.of(tool).key("health"), tool)
    return {} if raw is None else msgspec.json.decode(raw, type=dict[str, Any])


def test_a_tool_that_was_long_in_peace_starts_over(health: ToolHealth, now: int) -> None:
    health.note([refusal(now - HOUR * 1000), refusal(now - HOUR * 1000 + 31_000), refusal(now)], DEFAULT)
    (one,) = health.in_force()
    assert one.refusals == 1


def test_no_wait_is_longer_than_an_hour_or_shorter_than_a_second(health: ToolHealth, now: int) -> None:
    health.note([refusal(now, 86_400), refusal(now + 1_000, 0, "u")], DEFAULT)
    assert HOUR - 5 < left(health) <= HOUR
    assert kept(health, "u")["ends"] == now + 2_000


def test_an_answer_to_a_call_that_began_after_the_refusal_ends_it(health: ToolHealth, now: int) -> None:
    health.note([refusal(now, 90), answer(now + 50, began=now - 10)], DEFAULT)
    assert left(health) > 80, "that call was under way before the refusal"
    health.note([answer(now + 60, began=now + 1)], DEFAULT)
    assert left(health) == 0
    health.note([refusal(now, 90)], DEFAULT)
    assert left(health) == 0, "a refusal from before the answer, reported late"
    health.note([refusal(now + 100)], DEFAULT)
    assert [each.refusals for each in health.in_force()] == [1], "an answer forgets the refusals before it"


def seen_at(at: int, *, refused: bool, wait: int | None, by: str) -> ToolSighting:
    return ToolSighting("t", at, at, refused, wait if refused else None, doubted_by=by if refused else "")


SIGHTINGS = st.lists(
    st.builds(
        seen_at,
        st.integers(0, 200_000),
        refused=st.booleans(),
        wait=st.none() | st.integers(0, 100_000),
        by=st.sampled_from(["", "a", "b"]),
    ),
    max_size=12,
)


@hypothesis_settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SIGHTINGS)
def test_noting_the_same_again_changes_nothing(health: ToolHealth, seen: list[ToolSighting]) -> None:
    """A worker that died after it had reported, and before it committed, reports the whole batch again."""
    start = health._db.now_ms() - 100_000
    batch = [s._replace(at=s.at + start, began=s.began + start) for s in sorted(seen, key=lambda s: s.at)]
    health._db.command("DEL", health._layout.of("t").key("health"))
    health.note(batch, DEFAULT)
    once = kept(health)
    health.note(batch, DEFAULT)
    assert kept(health) == once


def test_a_flood_of_tool_names_is_capped_and_the_longest_waits_stay(
    health: ToolHealth, layout: Layout, database: Database, now: int
) -> None:
    health.note([refusal(now, 3_000, "kept")], DEFAULT)
    health.note([refusal(now, 60, f"flood-{n}") for n in range(10_000)], DEFAULT)
    cap = FAMILIES["health"].cap or 0
    lengths = [database.command("HLEN", shard.key("health")) for shard in layout.all]
    assert max(lengths) <= cap
    assert sum(lengths) > cap
    assert left(health, "kept") > 2_900


def test_no_script_takes_more_than_a_part_of_a_large_batch(
    health: ToolHealth, database: Database, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 in one script take a millisecond or two of the server; it must not be held for more."""
    sizes: list[int] = []
    run_all = database.run_all

    def recording(calls: Sequence[ScriptCall]) -> list[Any]:
        sizes.extend(len(msgspec.json.decode(cast("bytes", each.args[1]), type=list[Any])) for each in calls)
        return run_all(calls)

    monkeypatch.setattr(database, "run_all", recording)
    health.note([refusal(now) for _ in range(1_234)], DEFAULT)
    assert sizes == [500, 500, 234]


# --- what workers tell -------------------------------------------------------------------------------------------


def call(code: OutcomeCode | None, *, tool: str = "t", wait: float | None = None, session: str = "s") -> ToolInvoked:
    status: CallStatus = "error" if code in ("rate_limited", "unavailable", "error") else "success"
    outcome = None if code is None else Outcome(status=status, code=code, retry_after=wait, offered=(Offer("retry"),))
    return ToolInvoked(
        event_id=new_event_id(), session=session, prompt="p", evaluation="e", tool=tool, status=status, outcome=outcome
    )


@pytest.mark.parametrize("code", ["rate_limited", "unavailable"])
def test_a_refusal_that_one_agent_saw_is_known_to_another(
    tb: Tellback, settings: Settings, consume: Callable[[], None], code: OutcomeCode
) -> None:
    tb.context.publisher.publish(call(code, tool="search", wait=45))
    consume()
    with connect(settings=settings) as other:
        assert 40 < other.context.health.cooling(["search", "wikipedia"])["search"] <= 45
        assert other.context.health.cooling(["wikipedia"]) == {}


def test_an_answer_of_a_cooling_tool_ends_its_cool_down_for_all(
    tb: Tellback, health: ToolHealth, consume: Callable[[], None]
) -> None:
    tb.context.publisher.publish(call("rate_limited", wait=45))
    consume()
    assert left(health) > 40
    under_way = msgspec.structs.replace(call("ok", session="another"), duration_ms=20_000)
    tb.context.publisher.publish(under_way)
    consume()
    assert left(health) > 30, "a call that began before the refusal says nothing of what came after"
    tb.context.publisher.publish(call("ok", session="another"))
    consume()
    assert left(health) == 0


@pytest.mark.parametrize("code", [None, "ok", "no_results", "error", "denied", "invalid_arguments", "unknown_tool"])
def test_other_calls_leave_no_trace(
    tb: Tellback, database: Database, layout: Layout, consume: Callable[[], None], code: OutcomeCode | None
) -> None:
    tb.context.publisher.publish(call(code))
    consume()
    assert [database.command("EXISTS", shard.key("health")) for shard in layout.all] == [0] * len(layout.all)


def test_what_was_published_before_a_commit_that_never_came_counts_once(
    tb: Tellback, health: ToolHealth, consume: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dying:

        def dies(*_: object) -> None:
            raise Unavailable("the worker is gone")

        dying.setattr("tellback_workers.loops.guidance.commit_each", dies)
        tb.context.publisher.publish(call("rate_limited", wait=45))
        with pytest.raises(Unavailable):
            consume()
    before = kept(health)
    assert before["strikes"] == 1, "reported, though nothing is committed"
    consume()
    assert kept(health) == before
    assert len(tb.history("s")) == 1


def test_a_duplicate_that_comes_when_the_tool_answers_again_is_no_refusal(
    tb: Tellback, health: ToolHealth, consume: Callable[[], None]
) -> None:
    event = call("rate_limited", wait=45)
    for message in (event, call("ok"), event):
        tb.context.publisher.publish(message)
        consume()
    assert left(health) == 0


def test_answers_of_tools_that_are_well_cost_no_script(
    tb: Tellback, consume: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[Sequence[ToolSighting]] = []

    def note(_health: ToolHealth, seen: Sequence[ToolSighting], _cooldown: float) -> None:
        noted.append(seen)

    monkeypatch.setattr(ToolHealth, "note", note)
    for code in ("ok", "no_results", "error", None):
        tb.context.publisher.publish(call(code))
    consume()
    assert noted == []
    tb.context.publisher.publish(call("rate_limited"))
    consume()
    assert [[each.tool for each in seen] for seen in noted] == [["t"]]


def test_a_batch_goes_on_where_only_the_tools_shard_is_away(layout: Layout) -> None:
    runtime = Runtime(Settings(redis_url="redis://127.0.0.1:1/0"))
    patched: Any = runtime
    patched.layout = {"default": layout}.__getitem__
    event = call("rate_limited")
    change = EvaluationChange(
        EvaluationId("s", "p", "e"),
        LoadedEvaluation(b"0", None, frozenset()),
        new_evaluation("s", "p", "e", 1),
        [IntakeEntry("1-1", event, 1)],
        [event.event_id],
        BatchEffects(),
    )
    HealthReport(runtime, "default").report([change])


@pytest.mark.parametrize("code", ["rate_limited", "ok"])
def test_a_key_that_is_not_as_we_wrote_it_costs_no_event(
    tb: Tellback, database: Database, layout: Layout, consume: Callable[[], None], code: OutcomeCode
) -> None:
    key = layout.of("t").key("health")
    database.command("HSET", key, "t", "not JSON")
    tb.context.publisher.publish(call(code))
    consume()
    assert [entry["tool"] for entry in tb.history("s")] == ["t"]
    assert tb.context.health.cooling(["t"]) == {}
    database.command("DEL", key)


# --- what agents read --------------------------------------------------------------------------------------------


class CountingHealth(ToolHealth):
    """Counts the questions."""

    questions = 0

    def cooling(self, tools: Any) -> dict[str, float]:
        self.questions += 1
        return super().cooling(tools)


def test_a_process_asks_once_a_second_whatever_its_threads_do(
    database: Database, layout: Layout, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = CountingHealth(database, layout)
    asked.note([refusal(now, 600)], DEFAULT)
    cooling = FleetHealth(asked)
    assert cooling.cooling(["t"])
    threads = [threading.Thread(target=lambda: [cooling.cooling(["t", "t"]) for _ in range(200)]) for _ in range(4)]
    at = [time.monotonic()]
    monkeypatch.setattr("tellback.clock.monotonic", lambda: at[0])
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked.questions == 1
    at[0] += 2.0
    assert 590 < cooling.cooling(["t"])["t"] <= 600
    assert asked.questions == 2


def test_names_that_nobody_can_call_are_passed_over(health: ToolHealth, now: int) -> None:
    health.note([refusal(now, 60)], DEFAULT)
    assert FleetHealth(health).cooling(["\udcff", "t", ""]).keys() == {"t"}
    assert FleetHealth(health).cooling([]) == {}


def test_the_memory_of_a_process_is_bounded(health: ToolHealth) -> None:
    cooling = FleetHealth(health)
    for start in range(0, 20_000, 500):
        cooling.cooling([f"tool-{n}" for n in range(start, start + 500)])
    assert len(cooling._known) <= 4_096


@pytest.mark.faults
def test_an_agent_is_not_held_up_when_redis_is_stopped_or_gone(own_redis: RedisServer, tmp_path: Path) -> None:
    settings = Settings(redis_url=own_redis.url, data_dir=str(tmp_path / "data"), feedback_deadline=0.3)
    with connect(settings=settings) as tb:
        health = tb.context.health
        store = ToolHealth(tb.context.database, tb.context.layout)
        store.note([refusal(tb.context.database.now_ms(), 600)], DEFAULT)
        own_redis.suspend()
        try:
            asked = CountingHealth(tb.context.health._health._db, tb.context.layout)
            for memory in (health, again := FleetHealth(asked), again):
                assert memory.cooling(["t"]) == {}
            assert asked.questions == 1, "the wait is not paid again at once"
        finally:
            own_redis.resume()
        wait_until(lambda: health.cooling(["t"]), "what is known when Redis answers again")
        own_redis.kill()
        assert "t" in health.cooling(["t", "u"]), "what was known holds"
        own_redis.launch()


def test_each_client_has_one_memory_for_its_prompts(tb: Tellback) -> None:
    prompts: list[Prompt] = [tb.prompt("s", "p"), tb.prompt("s", "q")]
    assert len({id(prompt._context.health) for prompt in prompts}) == 1
