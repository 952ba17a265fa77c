"""`tellback stats --bank`, `tellback bank --prune-candidates`, and the signals that Prometheus scrapes."""

from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tellback import Tellback
from tellback.cli.metrics_collector import render_metrics
from tellback.settings import Settings
from tellback.state.decay import Decay
from tellback.state.embeddings import Encoders, EncoderState
from tellback_workers.decay import run_for as run_decay
from tests.support.cli import rows, run
from tests.support.clocks import DAY_MS, ServerClock
from tests.support.signals import Bench, counted, item, signal

pytestmark = pytest.mark.usefixtures("one_day")


@pytest.fixture
def taught(tb: Tellback, bench: Bench, clock: ServerClock) -> Bench:
    """A bank `b` with three days of signals, and one whose facts nobody can use."""
    for _ in range(3):
        signal(tb, bench, [item("up", "a", "helpful"), item("down", "b", "not_helpful"), item("[red]odd\x1b", "c")])
        clock.step(DAY_MS)
    for _ in range(3):
        signal(tb, bench, [item("down", "b", "ignored")])
    return bench


def test_everything_as_json(settings: Settings, taught: Bench) -> None:
    [report] = rows(settings, "stats", "--bank", "b")
    stats = report["stats"]
    assert (stats["facts"], stats["signal_count"]) == (3, 12)
    assert [fact["fact_id"] for fact in stats["most_useful"]] == ["up", "[red]odd\x1b", "down"]
    assert [sum(day["signal_breakdown"].values()) for day in report["days"]] == [3, 3, 3, 3]
    histories = {history["fact_id"]: history["scores"] for history in report["histories"]}
    assert histories["up"] == pytest.approx([0.65, 0.8, 0.95], abs=0.01)
    assert len(histories["down"]) == 6
    assert next(iter(histories)) == "down", "the most signalled one first"
    assert report["decayed"] is None
    assert len(taught.encoder.calls) > 0


@pytest.mark.usefixtures("taught")
def test_tables(settings: Settings) -> None:
    done = run(settings, "stats", "--bank", "b")
    assert done.exit_code == 0, done.output
    assert "Bank b · 3 facts, 3 clusters · angles, 52 dimensions, threshold 0.85" in done.stdout
    assert "12 signals: used 3, ignored 3, helpful 3, not_helpful 3" in done.stdout
    for title in ("Facts by score", "Most useful", "Least useful", "Average score by day"):
        assert title in done.stdout
    assert r"[red]odd\x1b" in done.stdout, "a name is text, and controls no terminal"
    assert re.search(r"down +0\.0\d\d +\S+ +ignored 3, not_helpful 3", done.stdout)


@pytest.mark.usefixtures("taught")
def test_bars(settings: Settings) -> None:
    """The plot of a terminal: an up and a down are seen in a line of blocks."""
    done = run(settings, "stats", "--bank", "b", "--plot", "-")
    assert done.exit_code == 0, done.output
    up = next(line for line in done.stdout.splitlines() if line.startswith("up"))
    assert re.search(r"up +3 +0\.9\d\d +▆▇█", up), up
    assert "Average score by day" in done.stdout


@pytest.mark.usefixtures("taught")
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture(settings: Settings, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"bank.{ending}"
    done = run(settings, "stats", "--bank", "b", "--plot", str(file))
    assert done.exit_code == 0, done.output
    assert file.stat().st_size > 5_000
    if ending == "svg":
        assert "Scores of the facts most signalled lately" in file.read_text("utf-8")


@pytest.mark.usefixtures("taught")
def test_days_can_be_cut(settings: Settings) -> None:
    [report] = rows(settings, "stats", "--bank", "b", "--days", "2")
    assert len(report["days"]) == 2


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (["stats", "--bank", "none"], "no bank 'none'; its first signal or stored fact creates it", 1),
        (["stats", "--bank", "b", "--session", "s"], "use either --session or --bank, not both", 2),
        (["stats", "--days", "36"], "--days 36: guidance counters are kept for 35 days", 2),
        (["stats", "--bank", ""], "bank is empty", 2),
        (["stats", "--bank", "b", "--plot", "b.gif"], "use a file name ending in .png, .svg, .pdf", 2),
        (["bank", "--prune-candidates"], "name a bank: without one", 2),
        (["bank", "none", "--prune-candidates"], "no bank 'none'", 1),
    ],
)
@pytest.mark.usefixtures("database")
def test_what_is_wrong_is_said(settings: Settings, arguments: list[str], says: str, code: int) -> None:
    done = run(settings, *arguments)
    assert done.exit_code == code, done.output
    assert says in done.output


@pytest.mark.usefixtures("taught")
def test_candidates_for_pruning_are_listed(settings: Settings) -> None:
    assert [row["fact_id"] for row in rows(settings, "bank", "b", "--prune-candidates")] == ["down"]
    assert rows(settings, "bank", "b", "--prune-candidates", "--max-score", "0.01") == []
    assert rows(settings, "bank", "b", "--prune-candidates", "--min-signals", "7") == []
    every = rows(
        settings, *("bank", "b", "--prune-candidates"), *("--max-score", "1", "--min-signals", "0", "--against", "0")
    )
    assert [row["fact_id"] for row in every] == ["down", "[red]odd\x1b", "up"]
    done = run(settings, "bank", "b", "--prune-candidates")
    assert re.search(r"down .*│ 6 .*│ ignored 3, not_helpful 3", done.stdout), done.stdout
    assert [row["facts"] for row in rows(settings, "bank", "b")] == [3], "nothing was deleted"


@pytest.mark.usefixtures("taught")
def test_the_newest_signals_show_the_score(settings: Settings) -> None:
    found = rows(settings, "bank", "b", "--last", "2")
    assert found[-1]["score"] < found[0]["score"] < 0.5
    assert "score" in run(settings, "bank", "b", "--last", "2").stdout


def test_metrics_of_signals(tb: Tellback, taught: Bench, clock: ServerClock) -> None:
    def found() -> dict[str, float]:
        return {
            sample.name + "".join(sample.labels.values()): sample.value
            for family in text_string_to_metric_families(render_metrics(tb))
            for sample in family.samples
            if sample.name.startswith(("tellback_signals", "tellback_banks", "tellback_decay", "tellback_encoders"))
        }

    expected = counted(used=3, ignored=3, helpful=3, not_helpful=3)
    first = found()
    assert first == {
        **{f"tellback_signals_applied_total{kind}": count for kind, count in expected.items()},
        "tellback_banks": 1,
        "tellback_decay_due": 1,
        "tellback_encodersloaded": 1,
        "tellback_encodersfailed": 0,
    }
    assert run_decay(Decay(tb.context.database, taught.layout), "t", 60)
    Encoders(tb.context.database, taught.layout).report(
        EncoderState(host="h", model="m", state="failed", reason="none")
    )
    signal(tb, taught, [item("f", "a")], bank="other")
    clock.step(3_600_000)
    then = found()
    assert then["tellback_signals_applied_totalused"] == 4
    assert (then["tellback_banks"], then["tellback_encodersfailed"]) == (2, 1)
    assert then["tellback_decay_age_seconds"] == pytest.approx(3_600, abs=60)
    assert then["tellback_decay_due"] == (0 if taught.layout.of("b") == taught.layout.of("other") else 1)
    clock.step(7 * DAY_MS)
    assert found()["tellback_decay_due"] == len({taught.layout.of("b"), taught.layout.of("other")})


def test_a_fact_has_one_line_in_eighty_columns(tb: Tellback, bench: Bench, settings: Settings) -> None:
    """The line has a UUID, its score, and its signals of two types."""
    fact_id = "6f1c2a9e-0d7b-4b1f-9c53-2f5f6f3f1a11"
    signal(tb, bench, [item(fact_id, "a", "ignored"), item(fact_id, "a", "not_helpful")])
    shown = run(settings, "stats", "--bank", "b", columns=80).stdout.splitlines()
    assert sum(fact_id in line and "ignored 1, not_helpful 1" in line for line in shown) == 2, shown


@pytest.mark.parametrize("option", ["--json", "--plot=-", "--days=9"])
def test_a_bank_that_somebody_changed_by_hand_ends_no_report_with_a_traceback(
    settings: Settings, taught: Bench, tb: Tellback, option: str
) -> None:
    """It shows what can be read. Requirement A-446."""
    shard, database = tb.context.layout.of("b"), taught.runtime.database
    days = shard.key("bankdays", "b")
    database.command("HSET", days, "x", "", "99999999", "", "20000", struct.pack("<2d", 0.5, math.nan))
    for signal_ in ({"score": 0.5}, {"fact_id": "z", "at": 1, "score": -5}, {"fact_id": ["z"], "at": 1, "score": 0.5}):
        database.command("RPUSH", shard.key("siglog", "b"), json.dumps(signal_))
    database.command("HSET", shard.key("bank", "b"), "last_signal_at", 10**18)
    for side in ("factabove", "factbelow"):
        database.command("DEL", shard.key(side, "b"))
    done = run(settings, "stats", "--bank", "b", option)
    assert done.exit_code == 0, done.output
    if option == "--json":
        report = json.loads(done.stdout)
        assert len(report["days"]) == 4
        assert {history["fact_id"] for history in report["histories"]} == {"up", "down", "[red]odd\x1b"}
