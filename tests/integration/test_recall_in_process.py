"""Recalls that a host answers itself, where it has the model."""

from __future__ import annotations

import os
import signal as signals
import sys
import threading
from collections.abc import Iterator

import msgspec
import pytest

from tellback import SignalItem, Tellback, connect
from tellback.embedding import encoder as encoders
from tellback.embedding.recall import RecallAnswerer
from tellback.errors import ConfigurationError, InvalidInput, Unavailable
from tellback.names import Family
from tellback.settings import Settings
from tellback.state.keys import stream_of
from tests.support.signals import Angles, Bench, signal


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Angles:
    """The model of the host; the worker has its own."""
    model = Angles()

    def found(*_: object) -> Angles:
        return model

    monkeypatch.setattr(encoders, "encoder_for", found)
    return model


@pytest.fixture
def host(settings: Settings, bench: Bench, model: Angles) -> Iterator[Tellback]:
    with connect(settings=msgspec.structs.replace(settings, recall_in_process=True)) as tb:
        yield tb


def test_a_host_with_the_model_ranks_by_cluster_without_a_worker(host: Tellback, bench: Bench) -> None:
    signal(host, bench, [SignalItem(fact_id="f", signal_type="helpful", query="x@0")])
    [hit] = host.bank("b").recall("x@10", [("f", 0.5)], wait=0)
    assert (hit.scope, hit.degraded) == ("cluster", False)
    assert hit.usefulness == pytest.approx(0.65, abs=1e-6)
    assert host.context.database.command("XLEN", stream_of(host.context.layout.of("b"), Family.RECALLS)) == 0


def test_what_the_bank_holds_is_found_without_a_worker(host: Tellback, bench: Bench) -> None:
    for fact_id, text in (("far", "x@50"), ("near", "x@5")):
        host.bank("b").remember(fact_id, text)
    host.flush()
    bench.consume()
    hits = host.bank("b").recall("x")
    assert [(hit.fact_id, hit.text) for hit in hits] == [("near", "x@5"), ("far", "x@50")]


def test_the_model_is_asked_once_for_a_query(host: Tellback, model: Angles) -> None:
    """All banks of a client share it and what it has embedded."""
    for bank in ("a", "b", "a"):
        host.bank(bank).recall("x", [("f", 0.5)])
    assert model.calls == [["x"]]


def test_a_model_that_does_not_load_leaves_global_scores(host: Tellback, bench: Bench, model: Angles) -> None:
    signal(host, bench, [SignalItem(fact_id="f", signal_type="helpful", query="x")])
    host.bank("b").remember("f", "x")
    host.flush()
    bench.consume()
    model.failure = "no such file"
    [hit] = host.bank("b").recall("y", [("f", 0.5)])
    assert (hit.scope, hit.degraded) == ("global", True)
    with pytest.raises(Unavailable, match="no such file"):
        host.bank("b").recall("y")


def test_a_query_that_the_model_fails_at_is_said(host: Tellback, bench: Bench) -> None:
    """Candidates are ranked by their global scores."""
    host.bank("b").remember("f", "x")
    signal(host, bench, [SignalItem(fact_id="f", signal_type="helpful", query="x")])
    with pytest.raises(InvalidInput, match="query: the model angles fails at this text: ValueError"):
        host.bank("b").recall("x@bad")
    [hit] = host.bank("b").recall("x@bad", [("f", 0.5)])
    assert (hit.degraded, hit.scope) == (True, "global")


def test_another_model_than_the_banks_is_refused(host: Tellback, bench: Bench, model: Angles) -> None:
    signal(host, bench, [SignalItem(fact_id="f", signal_type="helpful", query="x")])
    model.model = "other"
    with pytest.raises(ConfigurationError, match="other"):
        host.bank("b").recall("x", [("f", 0.5)])


def test_a_host_without_the_model_learns_what_it_lacks(host: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tellback.embedding.recall", None)
    with pytest.raises(ConfigurationError, match=r"install tellback\[workers\], or let workers answer"):
        host.bank("b").recall("x", [("f", 0.5)])


def test_a_forked_child_has_a_model_of_its_own(host: Tellback) -> None:
    """The threads of the parent's model are not in it, and what they held would never be let go."""
    host.bank("b").recall("x", [("f", 0.5)])
    answering: RecallAnswerer = vars(host.context.local_recall)["_answering"]
    held: threading.Lock = vars(answering.clusters.embedder)["_guard"]
    with held:
        child = os.fork()
        if not child:
            signals.alarm(60)  # a child that waits for ever is killed, and seen
            [hit] = host.bank("b").recall("y", [("f", 0.5)])
            os._exit(7 if hit.fact_id == "f" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
