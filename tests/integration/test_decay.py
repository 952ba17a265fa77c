"""The weekly decay: nothing that a reader sees, once a week, from where it stood, whatever the clock does."""

from __future__ import annotations

from datetime import datetime
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.exceptions import OperationalError

from tellback import Tellback
from tellback.names import SWEEPS_QUEUE, Task
from tellback.settings import Settings
from tellback.state import decay as decaying
from tellback.state.bank_stats import BankStatistics
from tellback.state.database import Database
from tellback.state.decay import Decay, week_name
from tellback.state.keys import Layout, Shard
from tellback_workers import decay as decay_task
from tellback_workers import wakeups
from tellback_workers.decay import run_for
from tellback_workers.runtime import Runtime
from tests.support.clocks import DAY_MS, WEEK_MS, ServerClock, SteppedServer, faketime_library
from tests.support.redis_server import RedisServer
from tests.support.scores import Score, build_bank, scores
from tests.support.signals import Angles, Bench, item, signal

pytestmark = pytest.mark.usefixtures("one_day")

FOREVER = 3_600.0


@pytest.fixture
def store(database: Database, layout: Layout) -> Decay:
    return Decay(database, layout)


@pytest.fixture
def shard(layout: Layout) -> Shard:
    return layout.of("b")


def week(database: Database) -> float:
    return decaying.monday(database.now_ms()).timestamp() * 1000


def same_to_a_reader(before: dict[str, Score], after: dict[str, Score], now: float) -> None:
    assert before.keys() == after.keys()
    for at in (now, now + DAY_MS, now + 52 * WEEK_MS):
        for name, score in before.items():
            assert after[name].at(at) == pytest.approx(score.at(at), abs=1e-9), name


def test_every_score_is_written_back_as_a_reader_sees_it(database: Database, store: Decay, shard: Shard) -> None:
    """This holds for global scores and those of clusters; the time of the last signal stays."""
    build_bank(database, shard, "b", facts=1_500, clusters=40, each=30, age_ms=30 * DAY_MS)
    before = scores(database, shard, "b")
    assert store.due_shards() == [shard]
    assert run_for(store, "t", FOREVER)
    after, now = scores(database, shard, "b"), database.now_ms()
    same_to_a_reader(before, after, now)
    for name, score in after.items():
        assert score.scored_at >= now - 60_000, name
        assert score.last_signal_at == before[name].last_signal_at, name
        assert abs(score.score - 0.5) < abs(before[name].score - 0.5), name
    assert store.due_shards() == []
    [state] = store.states()
    assert (state.scores, state.written, state.running) == (2_700, 2_700, False)
    assert state.done == week_name(now)


def test_a_second_run_finds_nothing_to_do(database: Database, store: Decay, shard: Shard) -> None:
    build_bank(database, shard, "b", facts=700, clusters=3, each=10, age_ms=30 * DAY_MS)
    assert run_for(store, "t", FOREVER)
    after = scores(database, shard, "b")
    assert store.run(shard, "again", lambda: False) == "held"
    database.command("HDEL", shard.key("decay"), "done")  # as if nobody knew that it was done
    assert run_for(store, "again", FOREVER)
    assert scores(database, shard, "b") == after
    assert store.states()[0].written == 0


def test_what_was_signalled_this_week_is_left_alone(tb: Tellback, database: Database, settings: Settings) -> None:
    bench = Bench(settings, tb.context.layout, Angles())
    signal(tb, bench, [item("f", "a", "helpful")])
    shard = bench.layout.of("b")
    before = scores(database, shard, "b")
    assert run_for(Decay(database, bench.layout), "t", FOREVER)
    assert scores(database, shard, "b") == before
    bench.close()


def test_a_pass_goes_on_from_where_it_stood(database: Database, store: Decay, shard: Shard) -> None:
    """Each run does one call and dies with the lease; none starts over, since every score is counted once."""
    build_bank(database, shard, "b", facts=2_500, clusters=9, each=300, age_ms=30 * DAY_MS)
    build_bank(database, shard, "b2", facts=100, clusters=2, each=5, age_ms=30 * DAY_MS)
    shards = {shard, *(each for each in store.due_shards())}
    runs = 0
    for runs in count(1):
        assert runs < 100
        if store.run(shard, "t", lambda: True) == "done":
            break
    assert runs > 10
    assert store.states()[0].scores == 2_500 + 2_700 + 110
    assert {score.scored_at >= week(database) for score in scores(database, shard, "b").values()} == {True}
    assert shards == {shard}


def test_one_at_a_time(database: Database, store: Decay, shard: Shard, clock: ServerClock) -> None:
    """Another finds it held; who comes again continues at once; the lease of one that died runs out."""
    build_bank(database, shard, "b", facts=2_500, age_ms=30 * DAY_MS)
    assert store.run(shard, "one", lambda: True) == "more"
    assert store.run(shard, "two", lambda: True) == "held"
    assert store.run(shard, "one", lambda: True) == "more"
    clock.step(decaying.LEASE_MS + 1)
    assert store.run(shard, "two", lambda: True) == "more"
    assert store.run(shard, "one", lambda: True) == "held"
    assert store.run(shard, "two", lambda: False) == "done"
    assert store.states()[0].scores == 2_500


def test_who_has_lost_the_pass_writes_nothing(database: Database, store: Decay, shard: Shard) -> None:
    build_bank(database, shard, "b", facts=2_500, age_ms=30 * DAY_MS)

    def taken() -> bool:
        database.command("HSET", shard.key("decay"), "owner", "another")
        return False

    assert store.run(shard, "t", taken) == "held"
    done = [score.scored_at >= week(database) for score in scores(database, shard, "b").values()]
    assert 0 < sum(done) < 2_500
    assert store.due_shards() == [shard]


def test_a_new_week_in_the_middle_starts_over(
    database: Database, store: Decay, shard: Shard, clock: ServerClock
) -> None:
    build_bank(database, shard, "b", facts=2_500, age_ms=30 * DAY_MS)
    assert store.run(shard, "t", lambda: True) == "more"
    clock.step(WEEK_MS)
    assert run_for(store, "t", FOREVER)
    assert store.states()[0].scores == 2_500
    assert {score.scored_at >= week(database) for score in scores(database, shard, "b").values()} == {True}


def test_a_new_week_between_two_calls_ends_the_run(
    database: Database, store: Decay, shard: Shard, clock: ServerClock
) -> None:
    """The next week's pass does what this one has left: no score is written for a week that is over."""
    build_bank(database, shard, "b", facts=2_500, age_ms=30 * DAY_MS)

    def later() -> bool:
        clock.step(WEEK_MS)
        return False

    assert store.run(shard, "t", later) == "held"
    assert store.states()[0].scores < 2_500
    assert run_for(store, "t", FOREVER)
    assert store.states()[0].scores == 2_500


def test_ten_days_of_downtime(database: Database, store: Decay, shard: Shard, clock: ServerClock) -> None:
    """One pass after the return makes up for all of it; readers see the scores that they would have seen without it."""
    build_bank(database, shard, "b", facts=600, clusters=2, each=10, age_ms=3 * DAY_MS)
    assert run_for(store, "t", FOREVER)
    before = scores(database, shard, "b")
    clock.step(10 * DAY_MS)
    assert store.due_shards() == [shard]
    assert run_for(store, "t", FOREVER)
    assert store.due_shards() == []
    same_to_a_reader(before, scores(database, shard, "b"), database.now_ms())


@pytest.mark.parametrize(
    ("at_text", "name"),
    [
        ("2026-11-22T23:59:59.999", "2026-W47"),
        ("2026-11-23T00:00:00.000", "2026-W48"),
        ("2027-01-01T12:00:00.000", "2026-W53"),
        ("2024-12-30T00:00:00.000", "2025-W01"),
        ("1970-01-01T00:00:00.000", "1970-W01"),
        ("2038-01-19T03:14:08.000", "2038-W03"),
    ],
)
def test_a_week_is_that_of_iso_8601(
    database: Database, store: Decay, shard: Shard, clock: ServerClock, at_text: str, name: str
) -> None:
    """It runs from Monday to Sunday in UTC; script and store count alike."""
    at = round(datetime.fromisoformat(f"{at_text}+00:00").timestamp() * 1000)
    clock.stand_still(at)
    build_bank(database, shard, "b", facts=1, age_ms=30 * DAY_MS)
    assert run_for(store, "t", FOREVER)
    assert store.due_shards() == []
    assert (store.states()[0].done, week_name(at)) == (name, name)
    for ahead in (-1, 0, 7 * DAY_MS - 1, 7 * DAY_MS):
        clock.stand_still(round(decaying.monday(at).timestamp() * 1000) + ahead)
        assert bool(store.due_shards()) == (not 0 <= ahead < 7 * DAY_MS)


@pytest.mark.parametrize("steps", [[-10 * DAY_MS, 10 * DAY_MS], [520 * WEEK_MS, -520 * WEEK_MS], [-3_600_000] * 3])
def test_a_clock_that_steps(
    database: Database, store: Decay, shard: Shard, clock: ServerClock, steps: list[float]
) -> None:
    """No score grows, no week is passed over for ever, and each pass ends."""
    build_bank(database, shard, "b", facts=600, clusters=2, each=10, age_ms=30 * DAY_MS)
    assert run_for(store, "t", FOREVER)
    for step in steps:
        before = scores(database, shard, "b")
        clock.step(step)
        for _ in range(2):
            assert run_for(store, "t", FOREVER)
        assert store.due_shards() == []
        for name, score in scores(database, shard, "b").items():
            assert abs(score.score - 0.5) <= abs(before[name].score - 0.5), name
            assert score.scored_at >= before[name].scored_at, name
    clock.step(WEEK_MS)
    assert store.due_shards() == [shard], "the next week is due, though a later one was done"


def test_a_lease_of_a_clock_that_went_back_holds_nothing(
    database: Database, store: Decay, shard: Shard, clock: ServerClock
) -> None:
    build_bank(database, shard, "b", facts=2_500, age_ms=30 * DAY_MS)
    assert store.run(shard, "one", lambda: True) == "more"
    clock.step(-DAY_MS)
    assert store.run(shard, "two", lambda: False) == "done"


def test_a_cursor_of_a_server_that_restarted_counts_for_nothing(tmp_path: Path) -> None:
    """Hashes are seeded again with each start, so that continuing from a cursor would miss facts."""
    with RedisServer.start(tmp_path) as server:
        database = Database(server.url)
        layout = Layout("default", 1)
        store, shard = Decay(database, layout), layout.shard(0)
        build_bank(database, shard, "b", facts=9_000, age_ms=30 * DAY_MS)
        for _ in range(15):
            assert store.run(shard, "t", lambda: True) == "more"
        server.restart()
        assert run_for(store, "t", FOREVER)
        assert {score.scored_at >= week(database) for score in scores(database, shard, "b").values()} == {True}
        database.close()


def test_what_is_no_record_is_passed_over(database: Database, store: Decay, shard: Shard) -> None:
    """A record cut short, or a bank of which only the name is left, does not hold up the rest."""
    build_bank(database, shard, "b", facts=3, age_ms=30 * DAY_MS)
    database.command("HSET", shard.key("factscore", "b"), "torn", b"123")
    database.command("ZADD", shard.key("banks"), 1, "ghost")
    assert run_for(store, "t", FOREVER)
    assert database.command("HGET", shard.key("factscore", "b"), "torn") == b"123"
    assert store.states()[0].written == 3


def test_signals_between_the_calls_lose_nothing(
    tb: Tellback, database: Database, settings: Settings, clock: ServerClock
) -> None:
    """Facts are signalled, clusters begin and go, while the decay stands between two calls."""
    bench = Bench(Settings(redis_url=settings.redis_url, bank_clusters=12), tb.context.layout, Angles())
    shard = bench.layout.of("b")
    signal(tb, bench, [item(f"f{i}", "abcdefgh"[i % 8]) for i in range(1_000)])
    clock.step(3 * WEEK_MS)
    numbers = count()

    def meanwhile() -> bool:
        n = next(numbers)
        signal(tb, bench, [item(f"f{n}", "ijklmnopqr"[n % 10], "helpful"), item(f"new{n}", "a")])
        return False

    store = Decay(database, bench.layout)
    assert store.run(shard, "t", meanwhile) == "done"
    calls = next(numbers)
    assert calls >= 4
    found, now = scores(database, shard, "b"), database.now_ms()
    assert {score.scored_at >= week(database) for score in found.values()} == {True}
    for n in range(1_000):
        faded = 0.5 + 0.1 * 0.95**3
        expected = faded + 0.15 if n < calls else faded
        assert found[f"f{n}"].at(now) == pytest.approx(expected, abs=1e-5), n  # the test takes time itself
    assert BankStatistics(database, shard, "b").stats().facts == 1_000 + calls
    bench.close()


class SentTasks:
    """In place of Celery's app: what a task sent."""

    conf = SimpleNamespace(broker_url="")

    def __init__(self, *, away: bool = False) -> None:
        self.args: list[tuple[str, str]] = []
        self._away = away

    def send_task(self, name: str, args: tuple[str, str], *, queue: str, ignore_result: bool, **_: Any) -> None:
        assert (name, queue, ignore_result) == (Task.DECAY, SWEEPS_QUEUE, True)
        if self._away:
            raise OperationalError("the broker is away")
        self.args.append(args)


def test_a_run_that_cannot_send_the_next_leaves_the_rest_to_the_scheduler(
    database: Database, settings: Settings, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_bank(database, layout.of("b"), "b", facts=1_200, age_ms=30 * DAY_MS)
    runtime = Runtime(settings)
    monkeypatch.setattr(decay_task, "current_runtime", lambda: runtime)
    monkeypatch.setattr(wakeups, "default_app", SentTasks(away=True))
    monkeypatch.setattr(decay_task, "SECONDS", 0)
    decay_task.decay("default")
    assert Decay(database, layout).due_shards()


def test_a_run_that_is_not_through_sends_the_next(
    database: Database, store: Decay, settings: Settings, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It continues under the same token; what beat sends meanwhile finds it at work, and does and sends nothing."""
    for bank in ("b", "c", "d"):
        build_bank(database, layout.of(bank), bank, facts=1_200, age_ms=30 * DAY_MS)
    sent, runtime = SentTasks(), Runtime(settings)
    monkeypatch.setattr(decay_task, "current_runtime", lambda: runtime)
    monkeypatch.setattr(wakeups, "default_app", sent)
    monkeypatch.setattr(decay_task, "SECONDS", 0)
    decay_task.decay("default")
    tokens = [args[1] for args in sent.args]
    runs = 1
    while sent.args:
        before, (team, token) = store.states(), sent.args.pop()
        decay_task.decay(team)
        assert (store.states(), sent.args) == (before, [])
        decay_task.decay(team, token)
        tokens += [args[1] for args in sent.args]
        runs += 1
    assert len(set(tokens)) == 1
    assert runs > 6
    assert store.due_shards() == []
    assert sum(state.scores for state in store.states()) == 3_600
    runtime.database.close()


def test_a_shard_that_fails_does_not_hold_up_the_others(database: Database, store: Decay, layout: Layout) -> None:
    """Its list of banks is of another type: it stays due, all others are done."""
    banks = {layout.of(name): name for name in "abcdefgh"}
    assert len(banks) > 2
    for shard, bank in banks.items():
        build_bank(database, shard, bank, facts=10, age_ms=30 * DAY_MS)
    spoilt = min(banks, key=lambda shard: shard.index)
    database.command("SET", spoilt.key("banks"), "no list of banks")
    assert run_for(store, "t", FOREVER)
    assert store.due_shards() == [spoilt]
    database.command("DEL", spoilt.key("banks"))


def test_no_call_takes_more_than_it_may(
    database: Database, store: Decay, shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call reads a bounded number of scores, whatever the sizes of clusters; `make bench` measures its time."""
    monkeypatch.setattr(decaying, "SCORE_BATCH", 100)
    build_bank(database, shard, "b", facts=3_000, clusters=300, each=7, age_ms=30 * DAY_MS)
    build_bank(database, shard, "b2", facts=0, clusters=3, each=400, age_ms=30 * DAY_MS)
    seen = [0]

    def note_scores() -> bool:
        seen.append(store.states()[0].scores)
        return False

    assert store.run(shard, "t", note_scores) == "done"
    done = [after - before for before, after in pairwise(seen)]
    assert sum(done) == 3_000 + 2_100 + 1_200
    assert {each for each in done if each > 200} == {400}, "a cluster is done whole, and has a cap of its own"


@pytest.mark.skipif(faketime_library() is None, reason="needs the library of the package `faketime`")
def test_a_server_whose_clock_really_steps(tmp_path: Path) -> None:
    """A real redis-server gets a faked clock of its process: ten days on, ten years on, and back again."""
    with SteppedServer.start(tmp_path) as server:
        database = Database(server.url)
        layout = Layout("default", 1)
        store, shard = Decay(database, layout), layout.shard(0)
        build_bank(database, shard, "b", facts=800, clusters=2, each=10, age_ms=30 * DAY_MS)
        assert run_for(store, "t", FOREVER)
        for seconds in (10 * 86_400, 0, 3_650 * 86_400, 0, -20 * 86_400):
            before = scores(database, shard, "b")
            server.step_to(seconds)
            assert store.due_shards() == [shard], "another week than the one that was done"
            assert run_for(store, "t", FOREVER)
            assert store.due_shards() == []
            for name, score in scores(database, shard, "b").items():
                assert abs(score.score - 0.5) <= abs(before[name].score - 0.5), name
        database.close()
