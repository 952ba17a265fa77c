"""The facts that a bank holds get another model with it: recalls continue, nothing store_texts meanwhile is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tellback import Tellback
from tellback.embedding.recall import FactSearch
from tellback.embedding.reembedding import Reembedding
from tellback.errors import ConfigurationError
from tellback.settings import Settings
from tellback.signals.matching import Vectors
from tellback.state import bank_models
from tellback.state.database import Database
from tellback.state.keys import Layout
from tellback.state.stored_facts import FactStore
from tests.support.clocks import later
from tests.support.lost_tail import restore, snapshot
from tests.support.redis_server import RedisServer
from tests.support.signals import Angles, Bench, Raced, Wider, interrupt, item, recall, serving, signal
from tests.support.vector_sets import KINDS, settings_with


@pytest.fixture(params=list(KINDS))
def settings(redis_server: RedisServer, settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """Of a server that has vector sets, and of one that does not let us use them."""
    return settings_with(redis_server, settings, str(request.param))


def job(tb: Tellback, layout: Layout, model: Angles | None = None) -> Reembedding:
    return Reembedding(tb.context.database, layout.of("b"), "b", model or Wider())


def store_texts(tb: Tellback, bench: Bench, facts: dict[str, str | None]) -> None:
    """Have bank `b` hold facts, and no longer those without a text."""
    for fact_id, text in facts.items():
        if text is None:
            tb.bank("b").forget(fact_id)
        else:
            tb.bank("b").remember(fact_id, text)
    tb.flush()
    bench.consume()


def found(tb: Tellback, bench: Bench, query: str) -> list[tuple[str, str | None]]:
    with serving(bench):
        return [(hit.fact_id, hit.text) for hit in tb.bank("b").recall(query, wait=20)]


def leftovers(tb: Tellback, layout: Layout) -> int:
    names = ("next", "nextvec", "lastvec", "factnext", "factnextvec", "factnextset")
    return int(tb.context.database.command("EXISTS", *(layout.of("b").key(name, "b") for name in names)))


def once(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> list[bool]:
    """Do this a moment before the first switch; how each of them went."""
    original, switches = bank_models.ModelSwitch.switch, list[bool]()

    def raced(self: Any, part: Any, held: Any) -> bool:
        if not switches:
            meanwhile()
        switches.append(original(self, part, held))
        return switches[-1]

    monkeypatch.setattr(bank_models.ModelSwitch, "switch", raced)
    return switches


def test_stored_facts_and_clusters_change_together(tb: Tellback, bench: Bench, new: Bench, layout: Layout) -> None:
    store_texts(tb, bench, {"near": "x@10", "far": "x@60", "gone": "x", "gone again": "y"})
    store_texts(tb, bench, {"gone": None})
    signal(tb, bench, [item("far", "x@0", "helpful")])
    seen: list[tuple[int, int]] = []
    done = job(tb, layout).run(progress=lambda at, of: seen.append((at, of)))
    assert (done.former_model, done.clusters, done.facts, done.changed) == ("angles", 1, 3, True)
    assert seen == [(1, 4), (4, 4)]
    assert found(tb, new, "x@0") == [("near", "x@10"), ("far", "x@60"), ("gone again", "y")]
    [hit] = recall(new, tb.bank("b"), "x@0", [("far", 0.5)])
    assert (hit.scope, round(hit.usefulness, 6)) == ("cluster", 0.65)
    store_texts(tb, new, {"late": "x@5", "far": None})
    assert found(tb, new, "x@0") == [("late", "x@5"), ("near", "x@10"), ("gone again", "y")]
    assert leftovers(tb, layout) == 0
    database, shard = tb.context.database, layout.of("b")
    for family in ("factinfo", "facttext", "factver", "factset", "factvec"):
        assert database.command("PTTL", shard.key(family, "b")) in {-1, -2}, "they stay"


def test_until_the_switch_all_goes_on_with_the_old_model(
    tb: Tellback, bench: Bench, new: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts stored, stored again and forgotten a moment before the switch are the same after it."""
    store_texts(tb, bench, {"stays": "x@1", "moves": "x@2", "goes": "x@3"})
    assert [fact for fact, _ in found(tb, bench, "x")] == ["stays", "moves", "goes"]

    def meanwhile() -> None:
        store_texts(tb, bench, {"late": "x@4", "moves": "y", "goes": None})
        assert [fact for fact, _ in found(tb, bench, "x")] == ["stays", "late", "moves"]

    switches = once(monkeypatch, meanwhile)
    assert job(tb, layout).run().facts == 3
    assert switches == [False, True]
    assert found(tb, new, "x") == [("stays", "x@1"), ("late", "x@4"), ("moves", "y")]
    assert found(tb, new, "y")[0] == ("moves", "y")


def test_a_fact_that_is_forgotten_while_its_bank_gets_another_model_does_not_come_back(
    tb: Tellback, bench: Bench, new: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old model's worker could not store it, forgot it, and left it to be stored by the new one's."""
    store_texts(tb, bench, {"other": "y"})
    encode, switched = Angles.encode, list[bool]()

    def meanwhile(self: Angles, texts: Sequence[str]) -> Vectors:
        if not switched:
            switched.append(True)
            job(tb, layout).run()
        return encode(self, texts)

    monkeypatch.setattr(Angles, "encode", meanwhile)
    bank = tb.bank("b")
    bank.remember("f", "x")
    bank.forget("f")
    tb.flush()
    bench.consume()
    new.consume()
    assert switched
    assert [fact.fact_id for fact in FactStore(tb.context.database, layout.of("b"), "b").newest(9)] == ["other"]


def test_a_text_that_is_stored_again_before_the_switch_is_embedded_again(
    tb: Tellback, bench: Bench, new: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of facts stays the same, so it cannot show the change."""
    store_texts(tb, bench, {"stays": "x@1", "moves": "x@2"})
    switches = once(monkeypatch, lambda: store_texts(tb, bench, {"moves": "y"}))
    wider = Wider()
    job(tb, layout, wider).run()
    assert (switches, [sorted(call) for call in wider.calls]) == ([False, True], [["x@1", "x@2"], ["y"]])
    assert found(tb, new, "y")[0] == ("moves", "y")


def test_two_at_once_do_it_once(
    tb: Tellback, bench: Bench, new: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one embeds, the other continues and is killed: what the first then brings late counts for nothing."""
    monkeypatch.setattr(bank_models, "TEXT_BATCH", 2)
    store_texts(tb, bench, {f"f{i}": f"x@{i}" for i in range(6)})

    first = Raced(lambda: interrupt(job(tb, layout), 4))
    assert job(tb, layout, first).run().changed
    assert first.calls == [["x@0", "x@1"], ["x@4", "x@5"]]
    assert [fact for fact, _ in found(tb, new, "x")] == [f"f{i}" for i in range(6)]


def test_what_changes_while_it_is_embedded_is_not_kept_as_it_was(
    tb: Tellback, bench: Bench, new: Bench, layout: Layout
) -> None:
    """A fact that is forgotten between its reading and its new vector does not come back."""
    store_texts(tb, bench, {"stays": "x@1", "goes": "x@3", "moves": "x@2"})

    raced = Raced(lambda: store_texts(tb, bench, {"goes": None, "moves": "y"}))
    assert job(tb, layout, raced).run().facts == 2
    assert [sorted(call) for call in raced.calls] == [["x@1", "x@2", "x@3"], ["y"]]
    assert found(tb, new, "x") == [("stays", "x@1"), ("moves", "y")]


def test_a_text_of_a_lost_tail_is_not_embedded(
    tb: Tellback, bench: Bench, new: Bench, layout: Layout, database: Database
) -> None:
    """Redis comes back without its last second while that is embedded, and its version is another text's now."""
    store_texts(tb, bench, {"stays": "x@1"})

    interrupt(job(tb, layout))
    kept = snapshot(database)
    store_texts(tb, bench, {"moves": "x@2"})

    def lose() -> None:
        restore(database, kept)
        store_texts(tb, bench, {"moves": "y"})

    assert job(tb, layout, Raced(lose)).run().facts == 2
    with serving(new):
        assert [hit.semantic for hit in tb.bank("b").recall("y", wait=20)] == pytest.approx([1.0, 0.0], abs=1e-6)


def test_killed_it_goes_on_where_it_was(
    tb: Tellback, bench: Bench, new: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed in the middle of the facts; nothing is embedded twice, and a third model starts over."""
    monkeypatch.setattr(bank_models, "TEXT_BATCH", 4)
    store_texts(tb, bench, {f"f{i}": f"x@{i}" for i in range(10)})
    signal(tb, bench, [item("f1", "x")])
    wider = Wider()

    interrupt(job(tb, layout, wider), 9)
    assert [fact for fact, _ in found(tb, bench, "x@0")][:2] == ["f0", "f1"], "the old model's recalls continue"
    store_texts(tb, bench, {"f0": None})
    assert job(tb, layout, wider).run().facts == 9
    assert [len(call) for call in wider.calls] == [1, 4, 4, 2]
    assert [fact for fact, _ in found(tb, new, "x")] == [f"f{i}" for i in range(1, 10)]
    interrupt(job(tb, layout, Angles()), 9)
    third = Wider()
    third.model, third.weights, third.dimension = "third", "0000000000000000", 70
    assert job(tb, layout, third).run().former_model == "wider"
    assert [len(call) for call in third.calls] == [1, 4, 4, 1]
    assert leftovers(tb, layout) == 0


def test_a_bank_that_only_holds_facts_gets_another_model(
    tb: Tellback, bench: Bench, new: Bench, layout: Layout
) -> None:
    store_texts(tb, bench, {"f": "x"})
    done = job(tb, layout).run()
    assert (done.former_model, done.clusters, done.facts, done.changed) == ("angles", 0, 1, True)
    assert found(tb, new, "x") == [("f", "x")]
    wider = Wider()
    assert not job(tb, layout, wider).run().changed
    assert wider.calls == []
    assert leftovers(tb, layout) == 0


def test_facts_that_stayed_behind_follow(tb: Tellback, bench: Bench, new: Bench, layout: Layout) -> None:
    """Only facts are embedded if signals have begun clusters with the new model; the threshold stays."""
    store_texts(tb, bench, {"f": "x"})
    signal(tb, new, [item("f", "x")])
    with pytest.raises(ConfigurationError, match="tellback bank reembed b"):
        found(tb, new, "x")
    wider = Wider()
    done = job(tb, layout, wider).run(threshold=0.5)
    assert (done.former_model, done.changed, done.threshold) == ("angles", True, tb.bank("b").stats().threshold)
    assert wider.calls == [["x"]]
    assert found(tb, new, "x") == [("f", "x")]


def test_new_vectors_that_are_lost_are_embedded_again(
    tb: Tellback, bench: Bench, new: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_texts(tb, bench, {"f": "x", "g": "y"})
    shard = layout.of("b")
    lost = [shard.key(name, "b") for name in ("factnextvec", "factnextset")]
    switches = once(monkeypatch, lambda: tb.context.database.command("UNLINK", *lost))
    assert job(tb, layout).run().facts == 2
    assert switches == [False, True]
    assert found(tb, new, "y")[0] == ("g", "y")


def test_a_search_that_the_switch_overtakes_is_made_again(
    tb: Tellback, bench: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old vectors are never compared with new ones: the recall of the old model is refused instead."""
    store_texts(tb, bench, {"f": "x"})
    search, query = FactSearch(bench.runtime.database, bench.encoder), Angles().encode(["x"])[0]
    assert [fact for fact, _ in search.nearest(layout.of("b"), "b", query, 1)] == ["f"]
    original, calls = FactStore.info, list[int]()

    def overtaken(self: FactStore) -> Any:
        info = original(self)
        calls.append(1)
        if len(calls) == 1:
            job(tb, layout).run()
        return info

    monkeypatch.setattr(FactStore, "info", overtaken)
    with pytest.raises(ConfigurationError, match="wider"):
        search.nearest(layout.of("b"), "b", query, 1)


def test_other_files_under_the_same_name_are_another_model(
    tb: Tellback, settings: Settings, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same files under another name are the same model."""
    first, changed, moved = Angles(), Angles(), Angles()
    first.weights = moved.weights = "0123456789abcdef"
    changed.weights, moved.model = "fedcba9876543210", "/elsewhere/angles"
    workers = [Bench(settings, layout, model) for model in (first, changed, moved)]
    store_texts(tb, workers[0], {"f": "x"})
    with pytest.raises(ConfigurationError, match=r"files 0123456789abcdef.*files fedcba9876543210"):
        found(tb, workers[1], "x")
    store_texts(tb, workers[1], {"g": "x"})
    assert FactStore(tb.context.database, layout.of("b"), "b").count() == 1
    store_texts(tb, workers[2], {"h": "x"})
    assert [fact for fact, _ in found(tb, workers[2], "x")] == ["f", "g", "h"], "what was refused has waited"
    assert job(tb, layout, changed).run().changed
    store_texts(tb, workers[2], {"late": "x"})
    later(monkeypatch, 1.1)  # what a worker has found of a bank a moment ago it does not ask again
    workers[1].consume()
    assert [fact for fact, _ in found(tb, workers[1], "x")] == ["f", "g", "h", "late"]
    for worker in workers:
        worker.close()
