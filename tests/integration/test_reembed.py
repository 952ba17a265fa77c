"""A bank gets another model while it is in use: nothing is lost, no worker sees half of it, a kill costs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tellback import Tellback
from tellback.cli.app import app
from tellback.embedding import encoder
from tellback.embedding.reembedding import Reembedding
from tellback.errors import ConfigurationError, NotFound
from tellback.settings import Settings
from tellback.state import bank_models
from tellback.state.database import Database
from tellback.state.keys import Layout
from tests.support.lost_tail import restore, snapshot
from tests.support.signals import Angles, Bench, Raced, Wider, interrupt, item, recall, signal


def job(tb: Tellback, layout: Layout, model: Angles | None = None, bank: str = "b") -> Reembedding:
    return Reembedding(tb.context.database, layout.of(bank), bank, model or Wider())


def test_clusters_scores_and_counts_stay(tb: Tellback, bench: Bench, new: Bench, layout: Layout) -> None:
    signal(tb, bench, [item("f", "x@0", "helpful"), item("g", "y@0", "not_helpful"), item("f", "y@0")])
    reported: list[tuple[int, int]] = []
    done = job(tb, layout).run(threshold=0.9, progress=lambda at, of: reported.append((at, of)))
    assert (done.former_model, done.model, done.clusters, done.changed) == ("angles", "wider", 2, True)
    assert reported == [(2, 2)]
    stats = tb.bank("b").stats()
    assert (stats.model, stats.dimension, stats.threshold, stats.clusters) == ("wider", 60, 0.9, 2)
    for query, expected in (("x@10", {"f": 0.65, "g": 0.4}), ("y@10", {"f": 0.6, "g": 0.4})):
        hits = recall(new, tb.bank("b"), query, [("f", 0.5), ("g", 0.5)])
        assert {hit.fact_id: hit.usefulness for hit in hits} == pytest.approx(expected, abs=1e-6)
        assert next(hit.scope for hit in hits if hit.fact_id == "f") == "cluster"
    signal(tb, new, [item("f", "x@10")])
    assert tb.bank("b").stats().clusters == 2
    assert tb.context.database.command("PTTL", layout.of("b").key("clustervec", "b")) == -1, "it stays"


def test_a_worker_of_the_old_model_learns_what_to_do(tb: Tellback, bench: Bench, new: Bench, layout: Layout) -> None:
    """It learns so before and after; what it could not apply waits for a worker that can."""
    signal(tb, bench, [item("f", "x@0")])
    with pytest.raises(ConfigurationError, match=r"tellback bank reembed b"):
        recall(new, tb.bank("b"), "x@0", [("f", 0.5)])
    job(tb, layout).run()
    signal(tb, bench, [item("f", "x@0")])
    for _ in range(7):
        bench.consume()
    with pytest.raises(ConfigurationError, match=r"TELLBACK_MODEL"):
        recall(bench, tb.bank("b"), "x@0", [("f", 0.5)])
    assert tb.bank("b").fact_stats("f").signal_count == 1
    new.consume()
    assert tb.bank("b").fact_stats("f").signal_count == 2
    assert tb.dead.count() == 0


def test_signals_that_come_meanwhile_are_not_lost(
    tb: Tellback, bench: Bench, new: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that begins after all was embedded, a moment before the switch, is embedded too."""
    signal(tb, bench, [item("f", "x@0")])
    original, switches = bank_models.ModelSwitch.switch, list[bool]()

    def raced(self: Any, part: Any, held: Any) -> bool:
        if not switches:
            signal(tb, bench, [item("late", "y@0"), item("f", "x@0")])
        switches.append(original(self, part, held))
        return switches[-1]

    monkeypatch.setattr(bank_models.ModelSwitch, "switch", raced)
    assert job(tb, layout).run().clusters == 2
    assert switches == [False, True]
    [hit] = recall(new, tb.bank("b"), "y@0", [("late", 0.5)])
    assert (hit.scope, round(hit.usefulness, 6)) == ("cluster", 0.6)
    assert tb.bank("b").fact_stats("f").signal_count == 2


def test_a_slot_that_is_used_again_meanwhile_is_embedded_again(
    tb: Tellback, bench: Bench, new: Bench, settings: Settings, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the cap a cluster is evicted a moment before the switch: as many as before, but not the same."""
    full = Bench(Settings(redis_url=settings.redis_url, bank_clusters=1), layout, Angles())
    signal(tb, bench, [item("f", "x@0")])
    original = bank_models.ModelSwitch.switch
    turns = iter([True])

    def raced(self: Any, part: Any, held: Any) -> bool:
        if next(turns, False):
            signal(tb, full, [item("late", "y@0")])
        return original(self, part, held)

    monkeypatch.setattr(bank_models.ModelSwitch, "switch", raced)
    assert job(tb, layout).run().clusters == 1
    [hit] = recall(new, tb.bank("b"), "y@0", [("late", 0.5)])
    assert hit.scope == "cluster"
    full.close()


def test_clusters_of_a_lost_tail_are_not_embedded(
    tb: Tellback, bench: Bench, new: Bench, layout: Layout, database: Database
) -> None:
    """Redis comes back without its last second while a cluster of it is embedded, and its version is another's now."""
    signal(tb, bench, [item("f", "x@0")])
    interrupt(job(tb, layout))
    kept = snapshot(database)
    signal(tb, bench, [item("lost", "y@0")])

    def lose() -> None:
        restore(database, kept)
        signal(tb, bench, [item("g", "z@0")])

    assert job(tb, layout, Raced(lose)).run().clusters == 2
    assert recall(new, tb.bank("b"), "z@0", [("g", 0.5)])[0].scope == "cluster"
    assert recall(new, tb.bank("b"), "y@0", [("g", 0.5)])[0].scope == "global"


def test_killed_it_goes_on_where_it_was(
    tb: Tellback, bench: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bank keeps its model until the end, and nothing is embedded twice; for a third model all starts over."""
    monkeypatch.setattr(bank_models, "EMBED_BATCH", 4)
    signal(tb, bench, [item("f", letter) for letter in "abcdefghij"])
    wider = Wider()

    interrupt(job(tb, layout, wider), 8)
    assert tb.bank("b").stats().model == "angles"
    assert recall(bench, tb.bank("b"), "a", [("f", 0.5)])[0].scope == "cluster"
    assert job(tb, layout, wider).run().clusters == 10
    assert [len(call) for call in wider.calls] == [4, 4, 2]
    third = Wider()
    third.model, third.weights = "third", "0000000000000000"
    interrupt(job(tb, layout, Angles()), 8)
    assert job(tb, layout, third).run().former_model == "wider"
    assert [len(call) for call in third.calls] == [4, 4, 2]
    database = tb.context.database
    assert database.command("EXISTS", *(layout.of("b").key(name, "b") for name in ("next", "nextvec", "lastvec"))) == 0


def test_two_at_once_do_it_once(tb: Tellback, bench: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank_models, "EMBED_BATCH", 4)
    signal(tb, bench, [item("f", letter) for letter in "abcdefghij"])
    second: list[bool] = []

    def race(at: int, _of: int) -> None:
        if at == 4:
            second.append(job(tb, layout).run().changed)

    first = job(tb, layout).run(progress=race)
    assert (first.changed, second) == (False, [True])
    assert tb.bank("b").stats().clusters == 10


def test_again_it_changes_nothing(tb: Tellback, bench: Bench, layout: Layout) -> None:
    signal(tb, bench, [item("f", "a")])
    job(tb, layout).run()
    wider = Wider()
    assert not job(tb, layout, wider).run().changed
    assert wider.calls == []


def test_other_files_under_the_same_name_are_another_model(tb: Tellback, settings: Settings, layout: Layout) -> None:
    """The same files under another name are the same model."""
    first, changed, moved = Angles(), Angles(), Angles()
    first.weights = moved.weights = "0123456789abcdef"
    changed.weights, moved.model = "fedcba9876543210", "/elsewhere/angles"
    workers = [Bench(settings, layout, model) for model in (first, changed, moved)]
    signal(tb, workers[0], [item("f", "a")])
    with pytest.raises(ConfigurationError, match=r"files 0123456789abcdef.*files fedcba9876543210"):
        recall(workers[1], tb.bank("b"), "a", [("f", 0.5)])
    assert recall(workers[2], tb.bank("b"), "a", [("f", 0.5)])[0].scope == "cluster"
    assert job(tb, layout, changed).run().changed
    assert recall(workers[1], tb.bank("b"), "a", [("f", 0.5)])[0].scope == "cluster"
    for worker in workers:
        worker.close()


def test_a_bank_that_is_not_there_is_said(tb: Tellback, bench: Bench, layout: Layout) -> None:
    with pytest.raises(NotFound, match="no bank"):
        job(tb, layout, bank="none").run()
    assert bench.runtime.database.command("EXISTS", layout.of("none").key("next", "none")) == 0


def run(settings: Settings, *arguments: str) -> Result:
    environment = {"TELLBACK_REDIS_URL": settings.redis_url, "TELLBACK_DATA_DIR": settings.data_dir, "COLUMNS": "200"}
    return CliRunner(env=environment).invoke(app, ["bank", *arguments])


def test_the_command_gives_a_bank_another_model(
    tb: Tellback, bench: Bench, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pipe it shows no progress; a bank that has the model already is said to; one that is missing is an error."""

    def chosen(_settings: Settings, model: str | None) -> Angles:
        return Wider() if model == "wider" else Angles()

    monkeypatch.setattr(encoder, "encoder_for", chosen)
    signal(tb, bench, [item("f", "x@0"), item("f", "y@0")])
    done = run(settings, "reembed", "b", "--model", "wider", "--threshold", "0.7")
    assert done.exit_code == 0, done.output
    assert done.stdout == "re-embedded 2 clusters of bank b: angles -> wider, threshold 0.7\n"
    assert done.stderr == ""
    again = run(settings, "reembed", "b", "--model", "wider", "--json")
    assert json.loads(again.stdout)["changed"] is False
    kept = run(settings, "reembed", "b", "--model", "wider", "--threshold", "0.8")
    assert "its threshold stays 0.7: set one by `tellback calibrate`" in kept.stdout
    useless = run(settings, "reembed", "b", "--threshold", "0")
    assert useless.exit_code == 2
    assert "--threshold 0: use a cosine above 0 and at most 1" in useless.stderr
    missing = run(settings, "reembed", "none")
    assert (missing.exit_code, missing.stderr.count("\n")) == (1, 1)
    assert json.loads(run(settings, "b", "--json").stdout)["model"] == "wider"


def test_a_bank_without_clusters_is_not_said_to_have_a_threshold_that_it_does_not_get(
    tb: Tellback, bench: Bench, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wider(_settings: Settings, _model: str | None) -> Angles:
        return Wider()

    monkeypatch.setattr(encoder, "encoder_for", wider)
    tb.bank("b").remember("f", "x@0")
    tb.flush()
    bench.consume()
    done = run(settings, "reembed", "b", "--threshold", "0.7")
    assert done.stdout.endswith("threshold 0.85\n")


def test_a_model_that_does_not_load_is_reported_once(
    tb: Tellback, bench: Bench, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log, which a command shows too, said the same before."""
    signal(tb, bench, [item("f", "x@0")])
    done = run(settings, "reembed", "b", "--model", str(tmp_path / "none"))
    assert (done.exit_code, done.stderr.count("is not a folder")) == (1, 1)
    assert "is not a folder" not in caplog.text


def test_a_bank_that_is_called_as_a_command_is_shown_too(tb: Tellback, bench: Bench, settings: Settings) -> None:
    signal(tb, bench, [item("f", "x@0")], bank="reembed")
    assert json.loads(run(settings, "show", "reembed", "--json").stdout)["bank"] == "reembed"
    assert "reembed" in run(settings).stdout
    assert "reembed" in run(settings, "--help").stdout
