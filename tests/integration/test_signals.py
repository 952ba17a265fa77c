"""Signals and recalls through real worker processes with the real model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tellback import SignalItem, Tellback, connect
from tellback.contracts.signal_types import SignalType
from tellback.contracts.signals import MAX_WAIT, RecallHit
from tellback.doctor.examination import run_checks
from tellback.names import Family
from tellback.settings import Settings
from tellback.signals.models import PACKAGE
from tellback.state.banks import bank_names
from tellback.state.database import Database
from tellback.state.embeddings import Encoders
from tellback.state.intake import Intake
from tests.support.keyleaks import undeclared
from tests.support.redis_server import RedisServer
from tests.support.signals import counted
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers, environment

pytestmark = [pytest.mark.model, pytest.mark.slow]

QUEUES = "signals,recalls"
LOADING = 100.0  # seconds for a worker to load the model on a busy machine

HOST = """
import sys, tellback
with tellback.connect() as tb:
    bank = tb.bank("fleet")
    for i in range(100):
        item = tellback.SignalItem(fact_id="shared", signal_type="used", query="How do we rotate keys?")
        bank.signal([item], session=sys.argv[1])
        tb.flush()
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A Redis and two workers for all tests of this module: the model is loaded twice. Banks keep the tests apart."""
    folder = tmp_path_factory.mktemp("signals")
    with RedisServer.start(folder) as server:
        settings = Settings(redis_url=server.url, data_dir=str(folder / "data"))
        workers = Workers(settings, folder, queues=QUEUES, pool="threads", concurrency=4)
        try:
            workers.start(2)
            yield settings
        finally:
            workers.stop()
        database = Database(server.url)
        problems = undeclared(database)
        database.close()
        assert not problems, problems


@pytest.fixture
def host(system: Settings) -> Iterator[Tellback]:
    with connect(settings=system) as tb:
        yield tb


def item(fact_id: str, query: str, signal_type: SignalType = "used") -> SignalItem:
    return SignalItem(fact_id=fact_id, signal_type=signal_type, query=query)


def applied(tb: Tellback, bank: str, count: int) -> None:
    """Wait until the bank has exactly this many signals."""
    wait_until(lambda: bank in bank_names(tb.context.database, tb.context.layout), f"bank {bank} begins", LOADING)
    wait_until(lambda: tb.bank(bank).stats().signal_count >= count, f"{count} signals are applied", LOADING)
    assert tb.bank(bank).stats().signal_count == count


def ranked(tb: Tellback, bank: str, query: str) -> list[RecallHit]:
    return tb.bank(bank).recall(query, [("A", 0.80), ("B", 0.90)], boost_by_usefulness=True, wait=MAX_WAIT)


def test_two_ways_to_ask_for_the_ceo_share_a_cluster(host: Tellback) -> None:
    """Requirement S-26; under the shipped model the pair's cosine is 0.818."""
    host.bank("ceo").signal([item("f", "Who is the CEO?"), item("f", "Who is the chief executive?")])
    host.bank("ceo").signal([item("f", "How is the database pooled?", "ignored")])
    applied(host, "ceo", 3)
    stats = host.bank("ceo").stats()
    assert (stats.model, stats.dimension, stats.threshold) == ("all-MiniLM-L6-v2", 384, 0.81)
    assert stats.clusters == 2
    [hit] = host.bank("ceo").recall("Who is the chief executive?", [("f", 0.5)], wait=MAX_WAIT)
    assert (hit.scope, hit.degraded) == ("cluster", False)
    assert hit.usefulness == pytest.approx(0.7, abs=1e-6)


def test_the_boosting_example_of_the_document(host: Tellback) -> None:
    """Fact A (0.80 semantic, 0.90 useful) reaches 0.83 and passes B (0.90, 0.30) at 0.72; before, B was first."""
    query = "How do I implement authentication?"
    assert [hit.fact_id for hit in ranked(host, "boost", query)] == ["B", "A"]
    host.bank("boost").signal(
        [
            *(item("A", query, kind) for kind in ("helpful", "helpful", "used")),
            *(item("B", query, "not_helpful") for _ in range(2)),
        ]
    )
    applied(host, "boost", 5)
    hits = ranked(host, "boost", "How can I implement authentication?")
    assert [hit.fact_id for hit in hits] == ["A", "B"]
    assert [hit.score for hit in hits] == pytest.approx([0.83, 0.72], abs=1e-6)
    assert [hit.usefulness for hit in hits] == pytest.approx([0.90, 0.30], abs=1e-6)
    assert [hit.scope for hit in hits] == ["cluster", "cluster"]


def test_sixteen_hosts_signal_one_fact_at_once(host: Tellback, system: Settings) -> None:
    """Two workers make one cluster and an exact count, and each session's history has its host's signals."""
    children = [subprocess.Popen([sys.executable, "-c", HOST, f"host-{i}"], env=environment(system)) for i in range(16)]
    assert [child.wait(60) for child in children] == [0] * 16
    applied(host, "fleet", 1_600)
    stats = host.bank("fleet").fact_stats("shared")
    assert stats.signal_breakdown == counted(used=1_600)
    assert stats.usefulness_score == pytest.approx(1.0, abs=1e-6)
    assert host.bank("fleet").stats().clusters == 1
    assert [len(host.history(f"host-{i}")) for i in range(16)] == [100] * 16


def test_the_worker_says_that_its_model_is_loaded(host: Tellback) -> None:
    host.bank("state").signal([item("f", "anything")])
    applied(host, "state", 1)
    [state] = Encoders(host.context.database, host.context.layout).all()
    assert (state.state, state.model, state.dimension) == ("loaded", "all-MiniLM-L6-v2", 384)


def test_facts_are_found_by_meaning_through_a_worker_and_in_process(host: Tellback, system: Settings) -> None:
    """Both give the same hits: the model is the same, and so are scores and facts."""
    facts = {
        "pool": "The database pool holds forty connections.",
        "ceo": "Ada Lovelace leads the company as its chief executive.",
        "tls": "Certificates are renewed on the first of each month.",
    }
    for fact_id, text in facts.items():
        host.bank("held").remember(fact_id, text)
    host.bank("held").signal([item("tls", "Who is the CEO?", "ignored")])
    applied(host, "held", 1)  # or it is applied between the two recalls, and their scores differ
    options: dict[str, Any] = {"limit": 2, "boost_by_usefulness": True, "wait": MAX_WAIT}
    hits = host.bank("held").recall("Who is the CEO?", **options)
    assert (hits[0].fact_id, hits[0].text, hits[0].degraded) == ("ceo", facts["ceo"], False)
    with connect(settings=msgspec.structs.replace(system, recall_in_process=True)) as tb:
        here = tb.bank("held").recall("Who is the CEO?", **options)
    assert [(hit.fact_id, hit.text, hit.scope) for hit in here] == [(hit.fact_id, hit.text, hit.scope) for hit in hits]
    assert [hit.score for hit in here] == pytest.approx([hit.score for hit in hits], abs=1e-5)  # scores fade meanwhile


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_signals_wait_while_a_worker_has_no_model(
    tb: Tellback, start_workers: StartWorkers, settings: Settings, tmp_path: Path
) -> None:
    """The worker says why; hosts recall by global scores; once the model is there, it continues without a restart."""
    folder = tmp_path / "model"
    workers = start_workers(1, queues=QUEUES, pool="threads", env={"TELLBACK_MODEL": str(folder)})
    tb.bank("b").signal([item("f", "anything")] * 3)
    tb.flush()
    encoders = Encoders(tb.context.database, tb.context.layout)
    [state] = wait_until(encoders.all, "the worker says how its model is", LOADING)
    assert state.state == "failed"
    assert str(folder) in state.reason
    [found] = [each for each in run_checks(settings, url_given=True) if each.check == f"model of {state.host}"]
    assert found.state == "wrong"
    [hit] = tb.bank("b").recall("anything", [("f", 0.5)], wait=1)
    assert hit.degraded
    assert Intake(tb.context.database, tb.context.layout).lengths()[tb.context.layout.of("b"), Family.SIGNALS] == 1
    folder.symlink_to(str(files(PACKAGE) / "model"))
    applied(tb, "b", 3)  # half a minute after the first try, and the time to load
    assert [state.state for state in encoders.all()] == ["loaded"]
    assert workers.processes[0].poll() is None
    assert tb.dead.count() == 0


def test_prefork_workers_serve_too(tb: Tellback, start_workers: StartWorkers) -> None:
    """The model is loaded by the pool's child, after the fork."""
    start_workers(1, queues=QUEUES, pool="prefork", concurrency=1)
    tb.bank("b").signal([item("A", "Who is the CEO?", "helpful")] * 3)
    applied(tb, "b", 3)
    hits = ranked(tb, "b", "Who is the chief executive?")
    assert [(hit.fact_id, hit.scope) for hit in hits] == [("A", "cluster"), ("B", "neutral")]
