"""A model that loads or does not, as operators see it: `tellback doctor`, `stats`, `bank`, metrics."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from signal import SIGTERM
from unittest import mock

import msgspec
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tellback import Settings, Tellback, clock
from tellback.cli.metrics_collector import render_metrics
from tellback.client.statistics import RECENT_REPORT_MS
from tellback.doctor.examination import run_checks
from tellback.doctor.infrastructure import DoctorFinding
from tellback.errors import Unavailable
from tellback.names import Family
from tellback.state.embeddings import Encoders, EncoderState
from tellback.state.keys import Layout, lifetime_ms, stream_of
from tellback.state.presence import Presence, Worker
from tellback_workers.loops import clusters as loop_clusters
from tellback_workers.presence import ModelPreload
from tests.support.cli import run
from tests.support.processes import tree_of
from tests.support.signals import Angles, Bench, Wider, item, signal
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers


def finding(settings: Settings) -> DoctorFinding:
    [found] = [each for each in run_checks(settings, url_given=True) if each.check.startswith("model of ")]
    return found


def fail(tb: Tellback, bench: Bench, encoder: Angles) -> None:
    encoder.failure = "the embedding model angles does not load: no such file"
    tb.bank("b").signal([item("f", "a")])
    tb.flush()
    with pytest.raises(Unavailable):
        bench.consume()


def test_the_doctor_reports_a_model_that_does_not_load(
    tb: Tellback, bench: Bench, encoder: Angles, settings: Settings
) -> None:
    fail(tb, bench, encoder)
    found = finding(settings)
    assert found.state == "wrong"
    assert "does not load: no such file (reported 0 s ago)" in found.found
    assert "none is lost" in found.advice
    encoder.failure = ""
    bench.consume()
    assert finding(settings).state == "ok"
    assert tb.bank("b").fact_stats("f").signal_count == 1


def encoders(tb: Tellback) -> dict[str, float]:
    return {
        sample.labels["state"]: sample.value
        for family in text_string_to_metric_families(render_metrics(tb))
        for sample in family.samples
        if sample.name == "tellback_encoders"
    }


def test_a_model_loaded_at_a_workers_start_is_counted_before_a_signal_asks_for_it(
    tb: Tellback, settings: Settings, layout: Layout
) -> None:
    """The metric was 0, and doctor silent of a failure, until the first signal. Requirement A-129."""
    presence = Presence(tb.context.database, layout.team)
    started = Worker(name="w@h", host="h", pid=1, queues=("signals",), version="0", preload="loaded")
    for worker in (started, msgspec.structs.replace(started, name="w2@h")):
        presence.announce(worker)
    assert encoders(tb) == {"loaded": 1, "failed": 0}
    Encoders(tb.context.database, layout).report(EncoderState(host="h", model="m", state="loaded"))
    assert encoders(tb) == {"loaded": 1, "failed": 0}, "a host that reports is the same host"
    presence.announce(msgspec.structs.replace(started, name="w3@i", host="i", preload="failed"))
    assert encoders(tb) == {"loaded": 1, "failed": 1}
    [found] = [each for each in run_checks(settings, url_given=True) if each.check.startswith("model in ")]
    assert (found.check, found.state) == ("model in w3@i", "wrong")


def test_a_model_that_a_signal_loads_after_the_start_failed_is_loaded(
    settings: Settings, encoder: Angles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker said that it had failed until it was restarted. Requirement A-129."""
    monkeypatch.setattr("tellback_workers.presence.encoder_for", mock.Mock(return_value=encoder))
    monkeypatch.setattr(encoder, "dimension", 0)
    encoder.failure = "the embedding model angles does not load: no such file"
    preload, done = ModelPreload(settings, wanted=True), threading.Event()
    preload.start(then=done.set)
    assert done.wait(30)
    before = preload.state
    monkeypatch.setattr(encoder, "dimension", 2)
    assert (before, preload.state) == ("failed", "loaded")
    assert ModelPreload(settings, wanted=False).state == "", "it loads none at its start"


def test_what_was_said_long_ago_is_a_note(
    tb: Tellback, bench: Bench, encoder: Angles, settings: Settings, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has signals and no model says so again: nobody does, so that worker is gone or has nothing to do."""
    fail(tb, bench, encoder)
    [said] = Encoders(bench.runtime.database, layout).all()
    wait_until(lambda: tb.context.database.now_ms() > said.at, "the clock continues")
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now + 40)
    with pytest.raises(Unavailable):
        bench.consume()
    [again] = Encoders(bench.runtime.database, layout).all()
    assert again.at > said.at
    key = layout.shard(0).key("encoder")
    old = msgspec.json.encode(msgspec.structs.replace(said, at=said.at - 400_000))
    bench.runtime.database.command("HSET", key, f"{said.host}\0{said.model}", old)
    assert finding(settings).state == "note"


def test_stats_and_bank_say_that_signals_wait(tb: Tellback, bench: Bench, encoder: Angles, settings: Settings) -> None:
    signal(tb, bench, [item("f", "a")])
    assert run(settings, "stats", "--bank", "b").stderr == ""
    fail(tb, bench, encoder)
    of_bank = ["stats", "--bank", "b"]
    for command in (["stats"], of_bank, [*of_bank, "--json"], ["bank"], ["bank", "b"]):
        done = run(settings, *command)
        assert done.exit_code == 0, done.stderr
        assert "does not load: no such file); 1 waiting batch of signals, and none lost" in done.stderr
    model = json.loads(run(settings, "stats", "--bank", "b", "--json").stdout)["model"]
    assert model["waiting"] == 1
    assert [(host["state"], "no such file" in host["reason"]) for host in model["hosts"]] == [("failed", True)]


def test_a_bank_that_could_not_begin_says_why(tb: Tellback, bench: Bench, encoder: Angles, settings: Settings) -> None:
    fail(tb, bench, encoder)
    done = run(settings, "stats", "--bank", "b")
    assert done.exit_code == 1
    assert "no bank 'b'" in done.stderr
    assert "1 waiting batch of signals" in done.stderr
    encoder.failure = ""
    bench.consume()
    assert run(settings, "stats", "--bank", "b").stderr == ""


def test_models_of_one_host_are_shown_beside_each_other(
    tb: Tellback, bench: Bench, encoder: Angles, settings: Settings, layout: Layout
) -> None:
    """Two workers of a host need not have the same; that one fails is not hidden by the other's success."""
    fail(tb, bench, encoder)
    other = Bench(settings, layout, Wider())
    other.consume()
    other.close()
    states = Encoders(tb.context.database, layout).all()
    assert [(each.model, each.state) for each in states] == [("angles", "failed"), ("wider", "loaded")]
    found = [each.state for each in run_checks(settings, url_given=True) if each.check.startswith("model of ")]
    assert found == ["wrong", "ok"]


def test_a_failure_of_the_past_is_no_trouble_now(tb: Tellback, layout: Layout, settings: Settings) -> None:
    """Another model may have been set since: then nobody says that the former one is right again."""
    key, before = layout.shard(0).key("encoder"), tb.context.database.now_ms() - RECENT_REPORT_MS
    past = EncoderState(host="h", model="m", state="failed", reason="none", at=before)
    tb.context.database.command("HSET", key, "h\0m", msgspec.json.encode(past))
    tb.context.database.command("PEXPIRE", key, lifetime_ms("encoder"))
    assert run(settings, "bank").stderr == ""
    Encoders(tb.context.database, layout).report(past)
    assert "the embedding model of h fails (none)" in run(settings, "bank").stderr


class Unloaded(Angles):
    """A model whose load takes until the test lets it end."""

    def __init__(self) -> None:
        super().__init__()
        self.dimension = 0
        self.loading, self.may_end = threading.Event(), threading.Event()

    def load(self) -> None:
        self.loading.set()
        assert self.may_end.wait(60)
        self.dimension = Angles.dimension


def test_a_worker_that_is_stopped_does_not_wait_for_the_load_of_the_model(
    tb: Tellback, settings: Settings, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warm shutdown waits for its tasks, and a load takes up to a minute. The signal stays for another worker."""
    stopping = threading.Event()
    monkeypatch.setattr(loop_clusters, "shutting_down", stopping.is_set)
    encoder = Unloaded()
    with closing(Bench(settings, layout, encoder)) as bench:
        tb.bank("b").signal([item("f", "a")])
        tb.flush()
        ended: list[str] = []

        def consume() -> None:
            try:
                bench.consume()
            except Unavailable as away:
                ended.append(str(away))

        task = threading.Thread(target=consume, daemon=True)
        task.start()
        assert encoder.loading.wait(10)
        stopping.set()
        task.join(10)
        assert not task.is_alive(), "it waits for the load"
        assert ended == ["the worker shuts down while it loads the embedding model"]
        encoder.may_end.set()
        wait_until(lambda: encoder.dimension > 0, "the model is loaded")
        bench.consume()
        assert tb.bank("b").fact_stats("f").signal_count == 1


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(300)
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_worker_stops_while_it_loads_the_real_model(tb: Tellback, start_workers: StartWorkers, pool: str) -> None:
    """Torch holds the interpreter for long while it is imported. The load took up to 18 s, the stop two to three."""
    stream = stream_of(tb.context.layout.of("b"), Family.SIGNALS)
    loading = start_workers(queues="signals", pool=pool)
    members = tree_of(loading.processes[0])
    tb.bank("b").signal([item("f", "a")])
    tb.flush()
    wait_until(lambda: any(map(_imports_torch, members)), "it begins to load the model")
    loading.processes[0].send_signal(SIGTERM)
    assert loading.processes[0].wait(60) == 0
    assert "the worker shuts down while it loads the embedding model" in loading.log()
    assert "encoder.loaded" not in loading.log()
    assert tb.context.database.command("XLEN", stream) == 1
    start_workers(queues="signals", pool="threads")
    wait_until(lambda: tb.context.database.command("XLEN", stream) == 0, "another worker applies it", timeout=120)
    assert tb.bank("b").fact_stats("f").signal_count == 1


def _imports_torch(process: psutil.Process) -> bool:
    return any("libtorch" in each.path for each in process.memory_maps())


class Panics(Unloaded):
    """A model whose library panics: one in Rust raises what is no `Exception`."""

    def load(self) -> None:
        raise GeneratorExit("panic")


def test_a_load_that_panics_ends_the_wait(settings: Settings, layout: Layout) -> None:
    """The thread that loads died with it, and the task waited until its worker stopped."""
    ended: list[BaseException] = []
    with closing(Bench(settings, layout, Panics())) as bench:

        def wait_for_model() -> None:
            try:
                bench.loops[Family.RECALLS].ready()
            except BaseException as error:  # noqa: BLE001 - a panic is no `Exception`
                ended.append(error)

        task = threading.Thread(target=wait_for_model, daemon=True)
        task.start()
        task.join(5)
    assert [str(error) for error in ended] == ["panic"]


def test_a_load_without_a_thread_leaves_entries_in_their_stream(
    settings: Settings, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with closing(Bench(settings, layout, Unloaded())) as bench:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(Unavailable, match="no thread to load in: can't start new thread"):
            bench.loops[Family.RECALLS].ready()
        monkeypatch.undo()
