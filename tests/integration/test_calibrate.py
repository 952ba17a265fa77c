"""`tellback calibrate`, with vectors made for the test in place of a model's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tellback import Tellback
from tellback.cli.app import app
from tellback.embedding.weights import fingerprint
from tellback.errors import ConfigurationError, Unavailable
from tellback.settings import Settings
from tellback.state.bank_models import BankThreshold
from tellback.state.keys import Layout
from tests.support.signals import Angles, Bench, item, recall, signal


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> Angles:
    """Stands where the command asks for the model."""
    angles = Angles()

    def of(_settings: Settings, _model: str | None) -> Angles:
        return angles

    monkeypatch.setattr("tellback.embedding.encoder.encoder_for", of)
    return angles


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """The same up to 40 degrees, not from 50 on: cosines of 0.77 and 0.64."""
    rows = [f"x@0,x@{degrees},{5 if degrees <= 40 else 0}" for degrees in (*range(20, 41), *range(50, 90))]
    file = tmp_path / "pairs.csv"
    file.write_text("\n".join(rows))
    return file


def run(*arguments: object, settings: Settings | None = None) -> Result:
    where = ["--redis-url", settings.redis_url] if settings else []
    env = {"COLUMNS": "200", "TELLBACK_REDIS_URL": "redis://127.0.0.1:1"}
    return CliRunner().invoke(app, ["calibrate", *map(str, arguments), *where], env=env)


def found(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    [line] = result.stdout.splitlines()
    row: dict[str, Any] = json.loads(line)
    return row


def test_the_threshold_lies_between_the_kinds_and_no_redis_is_needed(pairs: Path) -> None:
    row = found(run(pairs, "--json"))
    assert row["threshold"] == pytest.approx(0.704, abs=0.01)
    assert (row["precision"], row["recall"], row["f1"]) == (1, 1, 1)
    assert (row["pairs"], row["same"], row["same_from"]) == (61, 21, 4)
    assert (row["model"], row["dimension"], row["bank"], row["picked"]) == ("angles", 52, None, True)
    assert len(row["points"]) == 101
    assert row["points"][0]["recall"] == 1
    assert row["default"]["threshold"] == 0.85
    assert row["default"]["f1"] < row["highest"]["f1"] == 1


def test_the_page_has_the_curves_and_the_choice(pairs: Path) -> None:
    done = run(pairs)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "61 pairs, 21 matching (score 4 or more), angles"
    rows = [line.split() for line in lines if line.strip().startswith(("0.", "1 "))]
    far = [row[0] for row in rows if not 0.66 < float(row[0]) < 0.76]
    assert far == ["0.5", "0.55", "0.6", "0.65", "0.8", "0.85", "0.9", "0.95", "1"]
    assert len(rows) > len(far) + 6
    [marked] = [line for line in lines if "◀" in line]
    assert marked.split()[1:4] == ["1.000", "1.000", "1.000"]
    assert "█" * 39 in marked
    assert "no bank was changed" in done.stdout
    assert "only 21 matching pairs" in done.stdout


def test_texts_are_encoded_in_parts_and_each_once(pairs: Path, model: Angles) -> None:
    found(run(pairs, "--json"))
    [call] = model.calls
    assert len(call) == len(set(call)) == 62
    pairs.write_text("x@0,x@10,5\ny@0,x@0,0\n" * 300)
    model.calls.clear()
    found(run(pairs, "--json"))
    assert [len(call) for call in model.calls] == [3, 3, 3]


def test_a_bank_gets_the_threshold_and_uses_it(tb: Tellback, bench: Bench, pairs: Path, settings: Settings) -> None:
    """35 degrees are 0.82: another cluster at 0.85, the same at 0.7. A worker that knows the bank reads the change."""
    signal(tb, bench, [item("f", "x@0"), item("f", "x@35"), item("g", "y@0")])
    assert tb.bank("b").stats().clusters == 3
    row = found(run(pairs, "--bank", "b", "--json", settings=settings))
    assert (row["bank"], row["former_threshold"]) == ("b", 0.85)
    stats = tb.bank("b").stats()
    assert stats.threshold == row["threshold"]
    assert stats.clusters == 3, "what exists stays"
    [hit] = recall(bench, tb.bank("b"), "y@40", [("g", 0.5)])
    assert hit.scope == "cluster", "recalls use it"
    signal(tb, bench, [item("g", "y@35")])
    assert tb.bank("b").stats().clusters == 3, "signals use it"
    again = run(pairs, "--bank", "b", settings=settings)
    assert "bank b already has this threshold" in again.stdout


def test_a_bank_that_does_not_exist_begins_with_it(tb: Tellback, bench: Bench, pairs: Path, settings: Settings) -> None:
    done = run(pairs, "--bank", "new", settings=settings)
    assert "bank new was created with this threshold" in done.stdout
    stats = tb.bank("new").stats()
    assert (stats.model, stats.dimension, stats.facts, stats.last_signal_at) == ("angles", 52, 0, None)
    listed = CliRunner().invoke(app, ["bank", "--redis-url", settings.redis_url])
    assert "new" in listed.stdout
    signal(tb, bench, [item("f", "x@0"), item("f", "x@35")], bank="new")
    after = tb.bank("new").stats()
    assert (after.clusters, after.threshold, after.signal_count) == (1, stats.threshold, 2)
    assert recall(bench, tb.bank("new"), "x@40", [("f", 0.5)])[0].scope == "cluster"


def test_a_threshold_of_ones_own_is_judged_and_set(tb: Tellback, bench: Bench, pairs: Path, settings: Settings) -> None:
    signal(tb, bench, [item("f", "x@0")])
    row = found(run(pairs, "--bank", "b", "--threshold", "0.9", "--json", settings=settings))
    assert (row["threshold"], row["precision"], row["picked"]) == (0.9, 1, False)
    assert row["recall"] == pytest.approx(6 / 21)
    assert tb.bank("b").stats().threshold == 0.9
    shown = run(pairs, "--bank", "b", "--threshold", "0.8", settings=settings).stdout
    assert "your threshold 0.8" in shown
    assert "bank b now has this threshold (was 0.9); existing clusters don't change" in shown


def test_what_was_planned_with_the_former_threshold_is_planned_again(
    tb: Tellback, bench: Bench, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threshold changes between a worker's look at the bank and its write: nothing is placed by the old one."""
    signal(tb, bench, [item("f", "x@0")])
    store = BankThreshold(tb.context.database, layout.of("b"), "b")
    clusters = bench.clusters.bank_clusters(layout.of("b"), "b")
    apply, changes = clusters.store.apply, iter([0.7])

    def changed_before(*args: Any) -> bool:
        for threshold in changes:
            store.set(threshold, model="angles", dimension=52)
        return apply(*args)

    monkeypatch.setattr(clusters.store, "apply", changed_before)  # the test comes between
    signal(tb, bench, [item("f", "x@40")])
    assert (tb.bank("b").stats().clusters, tb.bank("b").stats().threshold) == (1, 0.7)
    assert sum(bench.intake.lengths().values()) == 0


def test_a_bank_of_another_model_is_left_alone(
    tb: Tellback, bench: Bench, pairs: Path, settings: Settings, layout: Layout, model: Angles
) -> None:
    signal(tb, bench, [item("f", "x@0")])
    store = BankThreshold(tb.context.database, layout.of("b"), "b")
    for name, dimension in (("other", 52), ("angles", 53)):
        with pytest.raises(ConfigurationError, match="has the model angles of 52"):
            store.set(0.7, model=name, dimension=dimension)
    fresh = BankThreshold(tb.context.database, layout.of("files"), "files")
    assert fresh.set(0.7, model="angles", dimension=52, weights="one") is None
    assert fresh.set(0.6, model="angles", dimension=52) == 0.7
    assert fresh.set(0.7, model="/another/folder", dimension=52, weights="one") == 0.6, "the same files"
    assert fresh.set(0.6, model="angles", dimension=52, weights="one") == 0.7
    with pytest.raises(ConfigurationError, match=r"\(files one\) of \d+ dimensions, .* \(files two\)"):
        fresh.set(0.5, model="angles", dimension=52, weights="two")
    assert fresh.created_with() == ("angles", "one", 0.6)
    done = run(pairs, "--bank", "b", "--model", "other", settings=settings)
    assert done.exit_code == 2
    assert "uses the model angles, but --model is other" in done.stderr
    assert model.calls == [], "it is reported before the model works"
    assert tb.bank("b").stats().threshold == 0.85


def test_a_bank_s_model_may_be_in_another_folder_here(
    tb: Tellback, pairs: Path, settings: Settings, layout: Layout, model: Angles, tmp_path: Path
) -> None:
    """The folder that the bank names is that of another host; the same files were refused under any other name."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "model.safetensors").write_text("weights")
    model.weights = fingerprint(folder)
    store = BankThreshold(tb.context.database, layout.of("b"), "b")
    store.set(0.85, model="/srv/there", dimension=model.dimension, weights=model.weights)
    row = found(run(pairs, "--bank", "b", "--model", folder, "--threshold", "0.9", "--json", settings=settings))
    assert (row["threshold"], store.created_with()) == (0.9, ("/srv/there", model.weights, 0.9))
    (folder / "model.safetensors").write_text("others")
    refused = run(pairs, "--bank", "b", "--model", folder, settings=settings)
    assert refused.exit_code == 2
    assert "uses the model /srv/there" in refused.stderr


@pytest.mark.parametrize(
    ("options", "said", "code"),
    [
        (["--threshold", "0"], "--threshold 0", 2),
        (["--threshold", "1.01"], "--threshold 1.01", 2),
        (["--threshold", "nan"], "--threshold nan", 2),
        (["--same-from", "6"], "no pair is the same", 2),
        (["--columns", "1,2,9"], "--columns", 2),
        (["--plot", "curves.gif"], ".svg", 2),
        (["--bank", ""], "bank is empty", 2),
        (["--bank", "b"], "127.0.0.1:1", 1),
    ],
)
def test_what_is_wrong_is_one_line_before_the_model_works(
    pairs: Path, model: Angles, options: list[str], said: str, code: int
) -> None:
    done = run(pairs, *options)
    assert done.exit_code == code, done.output
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert model.calls == []


def test_bad_files_are_one_line(tmp_path: Path, pairs: Path) -> None:
    assert "No such file" in run(tmp_path / "none.csv").stderr
    assert "directory" in run(tmp_path).stderr
    pairs.write_bytes(b"a,b,5\nc,d,high\n")
    done = run(pairs)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tellback: {pairs}:2: the score 'high'")


def test_standard_input(pairs: Path) -> None:
    done = CliRunner().invoke(app, ["calibrate", "-", "--json"], input=pairs.read_bytes())
    assert found(done)["file"] == "-"


def test_a_model_that_does_not_load_is_one_line_and_the_bank_stays(
    tb: Tellback, bench: Bench, pairs: Path, settings: Settings, model: Angles
) -> None:
    signal(tb, bench, [item("f", "x@0")])
    model.failure = "the embedding model angles does not load: a disk is full"
    done = run(pairs, "--bank", "b", settings=settings)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "tellback: the embedding model angles does not load: a disk is full\n"
    assert tb.bank("b").stats().threshold == 0.85


def test_what_was_found_is_shown_where_redis_has_gone_meanwhile(
    tb: Tellback, bench: Bench, pairs: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal(tb, bench, [item("f", "x@0")])

    def away(*_: object, **__: object) -> None:
        raise Unavailable("Redis does not answer")

    monkeypatch.setattr(BankThreshold, "set", away)
    done = run(pairs, "--bank", "b", "--json", settings=settings)
    assert (done.exit_code, done.stderr) == (1, "tellback: Redis does not answer\n")
    row = json.loads(done.stdout)
    assert row["threshold"] > 0
    assert row["bank"] is None


def test_progress_is_for_terminals(pairs: Path) -> None:
    """Rich takes FORCE_COLOR for a terminal."""
    assert run(pairs).stderr == ""
    done = CliRunner().invoke(app, ["calibrate", str(pairs)], env={"FORCE_COLOR": "1", "TERM": "xterm"})
    assert "pairs" in done.stderr


def test_a_host_without_the_model_learns_what_to_install(pairs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tellback.signals.calibration", None)
    done = run(pairs)
    assert done.exit_code == 2
    assert "pip install 'tellback[workers]'" in done.stderr


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture(pairs: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"curves.{ending}"
    done = run(pairs, "--plot", path, "--json")
    assert found(done)["threshold"] > 0
    assert done.stderr == f"plot written to {path}\n"
    assert path.read_bytes()[:5] in {b"\x89PNG\r", b"<?xml"}
