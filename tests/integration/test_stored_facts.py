"""Facts that a bank holds: remembered, recalled, forgotten, on a server with vector sets and on one without."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tellback import SignalItem, Tellback
from tellback.client.client_context import MAX_NAMES
from tellback.contracts.codec import decode
from tellback.contracts.limits import MAX_FIELD_BYTES
from tellback.contracts.signal_types import SignalType
from tellback.embedding.recall import FactSearch
from tellback.errors import InvalidInput, Timeout, Unavailable
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout, stream_of
from tellback.state.stored_facts import FactStore
from tests.support.busy_server import kept_busy
from tests.support.redis_server import RedisServer
from tests.support.signals import Angles, Bench, serving, signal
from tests.support.stored_facts import found, ids, remembered, store
from tests.support.vector_sets import KINDS, settings_with


@pytest.fixture
def settings(redis_server: RedisServer, settings: Settings, vector_sets: str) -> Settings:
    """Of a server that has vector sets, and of one that does not let us use them."""
    return settings_with(redis_server, settings, vector_sets)


def test_the_nearest_facts_come_first_with_their_texts(tb: Tellback, bench: Bench, vector_sets: str) -> None:
    remembered(tb, bench, {"far": "x@60", "near": "x@10", "same": "x@0", "other": "y"})
    info = store(tb).info()
    assert info is not None
    assert (info.kind, info.model, info.dimension) == (KINDS[vector_sets], "angles", 52)
    hits = found(tb, bench, "x@0")
    assert [(hit.fact_id, hit.text) for hit in hits] == [
        ("same", "x@0"), ("near", "x@10"), ("far", "x@60"), ("other", "y"),
    ]  # fmt: skip
    assert [hit.semantic for hit in hits] == pytest.approx([1.0, 0.98481, 0.5, 0.0], abs=1e-5)
    assert [hit.score for hit in hits] == [hit.semantic for hit in hits]
    assert not any(hit.degraded or hit.explored for hit in hits)
    assert ids(found(tb, bench, "x@0", limit=2)) == ["same", "near"]


def test_facts_as_near_as_each_other_come_in_the_order_of_their_ids(tb: Tellback, bench: Bench) -> None:
    remembered(tb, bench, dict.fromkeys(("c", "a", "d", "b"), "x"))
    assert ids(found(tb, bench, "x", limit=3)) == ["a", "b", "c"]


def test_banks_store_facts_of_their_own(tb: Tellback, bench: Bench) -> None:
    remembered(tb, bench, {"f": "x"})
    remembered(tb, bench, {"g": "x"}, bank="other")
    assert ids(found(tb, bench, "x")) == ["f"]
    assert ids(found(tb, bench, "x", bank="other")) == ["g"]


def test_a_bank_that_holds_nothing_recalls_nothing_and_asks_no_worker(tb: Tellback) -> None:
    assert tb.bank("empty").recall("x", wait=20) == []


def test_remembered_again_a_fact_has_its_new_text_alone(tb: Tellback, bench: Bench) -> None:
    remembered(tb, bench, {"f": "x", "g": "x@40"})
    assert ids(found(tb, bench, "x")) == ["f", "g"]
    remembered(tb, bench, {"f": "y"})
    hits = found(tb, bench, "x")
    assert [(hit.fact_id, hit.text) for hit in hits] == [("g", "x@40"), ("f", "y")]
    assert hits[1].semantic == pytest.approx(0, abs=1e-6)
    assert store(tb).count() == 2


def test_a_forgotten_fact_is_gone_and_its_scores_stay(tb: Tellback, bench: Bench, database: Database) -> None:
    remembered(tb, bench, {"f": "x", "g": "x@10"})
    signal(tb, bench, [SignalItem(fact_id="f", signal_type="helpful", query="x")])
    assert ids(found(tb, bench, "x")) == ["f", "g"]
    tb.bank("b").forget("f")
    tb.bank("b").forget("never held")
    tb.flush()
    bench.consume()
    assert ids(found(tb, bench, "x")) == ["g"]
    assert store(tb).texts(["f", "g"]) == {"g": "x@10"}
    assert tb.bank("b").fact_stats("f").usefulness_score == pytest.approx(0.65, abs=1e-6)
    remembered(tb, bench, {"f": "x"})
    [hit] = found(tb, bench, "x", limit=1)
    assert (hit.fact_id, hit.scope) == ("f", "cluster")
    assert hit.usefulness == pytest.approx(0.65, abs=1e-6)
    for fact_id in ("f", "g"):
        tb.bank("b").forget(fact_id)
    tb.flush()
    bench.consume()
    shard = tb.context.layout.of("b")
    kept = [name for name in ("factinfo", "facttext", "factver", "factset", "factvec", "factdeleted")
            if database.command("EXISTS", shard.key(name, "b"))]  # fmt: skip
    assert kept == []


def test_usefulness_boosts_and_filters_what_the_bank_holds(tb: Tellback, bench: Bench) -> None:
    """Requirement S-33, over facts of the bank's own."""
    remembered(tb, bench, {"A": "x@37", "B": "x@26"})  # cosines with x@0 of 0.80 and 0.90
    kinds: list[tuple[str, SignalType]] = [
        ("A", "helpful"),
        ("A", "helpful"),
        ("A", "used"),
        ("B", "not_helpful"),
        ("B", "not_helpful"),
    ]
    signal(tb, bench, [SignalItem(fact_id=f, signal_type=kind, query="x@0") for f, kind in kinds])
    assert ids(found(tb, bench, "x@0")) == ["B", "A"]
    hits = found(tb, bench, "x@0", boost_by_usefulness=True)
    assert [(hit.fact_id, hit.scope) for hit in hits] == [("A", "cluster"), ("B", "cluster")]
    assert [hit.score for hit in hits] == pytest.approx([0.829, 0.719], abs=1e-3)
    assert ids(found(tb, bench, "x@0", min_usefulness=0.5)) == ["A"]


def test_a_useful_fact_passes_nearer_ones_that_fill_the_limit(tb: Tellback, bench: Bench) -> None:
    remembered(tb, bench, {f"near{i}": f"x@{i}" for i in range(10)} | {"proven": "x@30"})
    signal(tb, bench, [SignalItem(fact_id="proven", signal_type="helpful", query="x")] * 4)
    assert "proven" not in ids(found(tb, bench, "x", limit=3))
    assert ids(found(tb, bench, "x", limit=3, boost_by_usefulness=True))[0] == "proven"


def test_new_facts_surface_where_exploration_keeps_places_for_them(tb: Tellback, bench: Bench) -> None:
    """Proven facts fill every place at a high weight; with exploration the most relevant new one has the last."""
    remembered(tb, bench, {f"proven{i}": f"x@{i}" for i in range(5)} | {"new": "x@20", "newer": "x@25"})
    proven = [SignalItem(fact_id=f"proven{i}", signal_type="used", query="x") for i in range(5)]
    signal(tb, bench, proven * 5)
    options: dict[str, Any] = {"limit": 5, "boost_by_usefulness": True, "usefulness_weight": 0.6}
    assert set(ids(found(tb, bench, "x", **options))) == {f"proven{i}" for i in range(5)}
    hits = found(tb, bench, "x", exploration=0.2, **options)
    assert [(hit.fact_id, hit.explored) for hit in hits][-2:] == [("proven3", False), ("new", True)]
    assert ids(found(tb, bench, "x", exploration=0.4, **options))[-2:] == ["new", "newer"]


def test_a_recall_sees_what_its_client_has_stored(tb: Tellback, bench: Bench) -> None:
    """Nothing is flushed, and the worker comes only while the recall waits."""
    bank = tb.bank("b")
    bank.remember("f", "x")
    with serving(bench, Family.SIGNALS, Family.RECALLS):
        assert ids(bank.recall("x", wait=20)) == ["f"]
        tb.bank("b").forget("f")
        tb.bank("b").remember("g", "x@10")
        assert ids(bank.recall("x", wait=20)) == ["g"]


def test_a_recall_does_not_wait_beyond_its_time_for_stored_facts(tb: Tellback, bench: Bench) -> None:
    """The next one waits again."""
    remembered(tb, bench, {"f": "x"})
    tb.bank("b").remember("g", "x")
    with serving(bench), pytest.raises(Timeout):  # all of the time went by waiting for an absent worker
        tb.bank("b").recall("x", wait=0.05)
    with serving(bench, Family.SIGNALS, Family.RECALLS):
        assert ids(tb.bank("b").recall("x", wait=20)) == ["f", "g"]


def test_a_first_recall_is_never_empty_because_its_fact_is_on_its_way(tb: Tellback, bench: Bench) -> None:
    """A bank that holds nothing yet looks like one without facts: under load the recall came back empty."""
    tb.bank("b").remember("f", "x")
    with (
        serving(bench),
        pytest.raises(Timeout, match=r"was not applied within 0\.05 s: start a worker for the queue signals"),
    ):
        tb.bank("b").recall("x", wait=0.05)


def test_recalls_in_several_threads_all_wait(tb: Tellback, bench: Bench) -> None:
    """The first to wait took the note away, and a second one did not wait."""
    bank = tb.bank("b")
    bank.remember("f", "x")
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(bank.recall, "x", wait=20) for _ in range(8)]
        with serving(bench, Family.SIGNALS, Family.RECALLS):
            assert [ids(each.result()) for each in waiting] == [["f"]] * 8


def test_what_a_client_waits_for_is_bounded_and_ends_with_its_effect(tb: Tellback, bench: Bench) -> None:
    """A client of many banks kept two ids for each of them for ever. Requirement A-445."""
    awaited = tb.context.awaited_events
    for number in range(MAX_NAMES + 1):
        awaited.note(f"b{number}", "1")
    awaited.note("b1", "2")
    awaited.note("other", "3")
    assert [awaited.of(bank) for bank in ("b0", "b1", "b2", "b3")] == [None, "2", None, "1"]
    awaited.forget("b1", "1")
    assert awaited.of("b1") == "2", "an earlier event was applied"
    tb.bank("b").remember("f", "x")
    with serving(bench, Family.SIGNALS, Family.RECALLS):
        assert ids(tb.bank("b").recall("x", wait=20)) == ["f"]
    assert awaited.of("b") is None


def test_without_a_worker_a_recall_of_stored_facts_says_so(tb: Tellback, bench: Bench) -> None:
    remembered(tb, bench, {"f": "x"})
    awaited = tb.context.awaited_events
    awaited.forget("b", awaited.of("b") or "")
    with pytest.raises(Timeout, match=r"no worker has answered within 0\.01 s: start one for the queue recalls"):
        tb.bank("b").recall("x", wait=0.01)


def test_secrets_do_not_reach_redis_and_texts_are_cut(tb: Tellback, bench: Bench, encoder: Angles) -> None:
    secret = "ghp_" + "a1B2" * 9
    tb.bank("b").remember("s", f"x\ntoken: {secret}")
    tb.bank("b").remember("long", "x" + "ü" * MAX_FIELD_BYTES)
    tb.flush()
    shard = tb.context.layout.of("b")
    waiting = tb.context.database.command("XRANGE", stream_of(shard, Family.SIGNALS), "-", "+")
    assert secret.encode() not in repr(waiting).encode()
    encoder.dimension = 52
    texts = [decode(fields[1], Family.SIGNALS) for _, fields in waiting]
    assert all(len(getattr(each, "text", "").encode()) <= MAX_FIELD_BYTES for each in texts)
    bench.consume()
    kept = store(tb).texts(["s", "long"])
    assert secret not in kept["s"]
    assert kept["s"].startswith("x\n")
    assert len(kept["long"].encode()) == MAX_FIELD_BYTES - 1  # a character is not parted


@pytest.mark.parametrize(
    ("fact_id", "text", "message"),
    [
        ("", "x", "fact_id is empty"),
        ("f" * 513, "x", "fact_id has 513 characters: use at most 512"),
        (7, "x", "fact_id is 7: use text"),
        ("f", "", "text is blank"),
        ("f", " \n", "text is blank"),
        ("f", None, "text is None: use text"),
        ("f", "\ud800", "text holds half a surrogate pair"),
        ("f", " " * MAX_FIELD_BYTES + "x", "text is blank"),
    ],
)
def test_what_is_no_fact_is_refused(tb: Tellback, fact_id: Any, text: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        tb.bank("b").remember(fact_id, text)
    assert tb.context.awaited_events.of("b") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 1001}, "limit is 1001: a recall of stored facts gives at most 1000"),
        ({"limit": 0}, "limit is 0"),
        ({"exploration": 1.5}, "exploration is 1.5: use a number from 0 to 1"),
        ({"exploration": float("nan")}, "exploration is nan"),
        ({"penalty_floor": -1}, "penalty_floor is -1"),
        ({"penalty_after": 1.5}, "penalty_after is 1.5: use 0 or more"),
        ({"penalty_after": True}, "penalty_after is True"),
        ({"wait": 61}, "wait is 61"),
    ],
)
def test_a_recall_names_the_argument_that_is_wrong(tb: Tellback, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        tb.bank("b").recall("x", **options)


def test_the_search_agrees_with_a_recomputation_from_all_texts(tb: Tellback, bench: Bench, encoder: Angles) -> None:
    """After many writes, in whatever order, the hits are those of an exact product over what is held."""
    rng = random.Random(7)
    held: dict[str, str] = {}
    search = FactSearch(bench.runtime.database, encoder)
    for _ in range(6):
        for _ in range(40):
            fact_id = f"f{rng.randrange(60)}"
            if rng.random() < 0.3:
                tb.bank("b").forget(fact_id)
                held.pop(fact_id, None)
            else:
                held[fact_id] = f"{rng.choice('xyz')}@{rng.randrange(360)}"
                tb.bank("b").remember(fact_id, held[fact_id])
        tb.flush()
        bench.consume()
        query = encoder.encode(["y@45"])[0]
        near = search.nearest(tb.context.layout.of("b"), "b", query, 10)
        rows = encoder.encode(list(held.values()))
        exact = dict(zip(held, (rows @ query).tolist(), strict=True))
        assert [cosine for _, cosine in near] == pytest.approx(sorted(exact.values(), reverse=True)[:10], abs=1e-6)
        assert all(cosine == pytest.approx(exact[fact_id], abs=1e-6) for fact_id, cosine in near)


def test_a_search_of_a_server_that_is_busy_is_unavailable(database: Database, redis_server: RedisServer) -> None:
    """It counted as one of facts that another model has, and was made again and again."""
    store_of_b = FactStore(database, Layout("default", 1).of("b"), "b")
    with kept_busy(redis_server.url), pytest.raises(Unavailable):
        store_of_b.nearest("id", b"", 1)


def test_a_recall_waits_for_the_newest_fact_whichever_thread_remembered_it(
    tb: Tellback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread's fact is accepted after this one's, before the call for this one goes on."""
    bank, publish = tb.bank("b"), tb.context.publisher.publish

    def interrupted(*given: Any, **options: Any) -> None:
        publish(*given, **options)
        monkeypatch.undo()
        bank.remember("newer", "y")

    monkeypatch.setattr(tb.context.publisher, "publish", interrupted)
    bank.remember("older", "x")
    tb.flush()
    stream = stream_of(tb.context.layout.of("b"), Family.SIGNALS)
    (_, (_, raw)), (_, (_, earlier)) = tb.context.database.command("XREVRANGE", stream, "+", "-")
    assert b"older" in earlier
    assert tb.context.awaited_events.of("b") == decode(raw, Family.SIGNALS).event_id
