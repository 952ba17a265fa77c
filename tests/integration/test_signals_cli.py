"""`tellback recall`, and `tellback bank` with its stored facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tellback import Tellback
from tellback.cli.app import app
from tellback.errors import NotFound
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.teams import Teams
from tests.support.cli import rows_of, run
from tests.support.signals import Bench, item, serving, signal


def test_recall_without_workers_says_so(bench: Bench, settings: Settings, tb: Tellback) -> None:
    signal(tb, bench, [item("A", "a", "helpful")] * 2)
    options = ["-c", "A=0.8", "-c", "B=0.9", "--bank", "b", "--wait", "0"]
    done = run(settings, "recall", "a", *options, "--json")
    assert [(row["fact_id"], row["scope"], row["degraded"]) for row in rows_of(done)] == [
        ("A", "global", True),
        ("B", "neutral", True),
    ]
    assert "no worker answered" in done.stderr
    assert [row["fact_id"] for row in rows_of(run(settings, "recall", "a", *options, "--no-boost", "--json"))] == [
        "B",
        "A",
    ]
    assert "usefulness" in run(settings, "recall", "a", *options).stdout


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("-c", "f1", "--candidate"),
        ("-c", "=0.5", "fact_id"),
        ("--weight", "1.5", "--weight"),
        ("--min-usefulness", "nan", "--min-usefulness"),
        ("--limit", "0", "--limit"),
        ("--wait", "-1", "--wait"),
    ],
)
def test_wrong_options_of_recall(database: Any, settings: Settings, option: str, value: str, named: str) -> None:
    """An option is named, not the argument of the library that it sets."""
    del database
    done = run(settings, "recall", "a", "--bank", "b", "-c", "f=0.5", option, value)
    assert done.exit_code == 2, done.output
    assert named in done.stderr


def test_banks_and_facts_are_listed(bench: Bench, settings: Settings, tb: Tellback) -> None:
    signal(tb, bench, [item("f", "a"), item("g", "b", "ignored")], bank="one")
    signal(tb, bench, [item("f", "a")], bank="two")
    listed = {row["bank"]: row for row in rows_of(run(settings, "bank", "--json"))}
    assert {name: row["signal_count"] for name, row in listed.items()} == {"one": 2, "two": 1}
    [one] = rows_of(run(settings, "bank", "one", "--json"))
    assert (one["clusters"], one["facts"], one["model"]) == (2, 2, "angles")
    [fact] = rows_of(run(settings, "bank", "one", "--fact", "g", "--json"))
    assert fact["signal_breakdown"]["ignored"] == 1
    shown = run(settings, "bank", "one", "--fact", "g").stdout
    assert "0.4500" in shown
    assert "ignored 1" in shown
    signal(tb, bench, [item("f", "a", context="a remark")], bank="two")
    newest = rows_of(run(settings, "bank", "two", "--last", "5", "--json"))
    assert [(row["fact_id"], row["query"], row.get("context")) for row in newest] == [
        ("f", "a", None),
        ("f", "a", "a remark"),
    ]
    assert len(rows_of(run(settings, "bank", "two", "--last", "1", "--json"))) == 1
    assert "a remark" in run(settings, "bank", "two", "--last", "5").stdout
    assert run(settings, "bank", "--fact", "f").exit_code == 2
    missing = run(settings, "bank", "three")
    assert missing.exit_code == 1
    assert "no bank 'three'" in missing.stderr


def test_names_cannot_steer_the_terminal(bench: Bench, settings: Settings, tb: Tellback) -> None:
    """A bank's name, a fact's id and a query may hold anything that is text."""
    evil = "evil\x1b]0;title\x07\x9b2J\r\u202e"
    signal(tb, bench, [item(evil, "a", context=evil)], bank=evil)
    for arguments in (["bank"], ["bank", evil, "--last", "5"], ["bank", evil, "--fact", evil]):
        done = run(settings, *arguments)
        assert done.exit_code == 0, done.output
        assert "evil" in done.stdout
        assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e"} & set(done.stdout)
    assert rows_of(run(settings, "bank", "--json"))[0]["bank"] == evil, "JSON says what it is"


def test_facts_are_stored_listed_recalled_and_forgotten(settings: Settings, bench: Bench) -> None:
    done = run(settings, "bank", "b", "--remember", "near", "--text", "x@10")
    assert (done.exit_code, done.stdout) == (
        0, "fact near will be stored in bank b once a worker applies the change\n",
    )  # fmt: skip
    assert run(settings, "bank", "b", "--remember", "far", "--text", "-", stdin=b"x@60").exit_code == 0
    bench.consume()
    listed = rows_of(run(settings, "bank", "b", "--remembered", "--json"))
    assert [(row["fact_id"], row["text"]) for row in listed] == [("far", "x@60"), ("near", "x@10")]
    assert all(row["at"] > 1_600_000_000_000 for row in listed)
    assert [
        row["fact_id"] for row in rows_of(run(settings, "bank", "b", "--remembered", "--limit", "1", "--json"))
    ] == ["far"]
    with serving(bench):
        hits = rows_of(run(settings, "recall", "x", "--bank", "b", "--wait", "20", "--json"))
        table = run(settings, "recall", "x", "--bank", "b", "--wait", "20").stdout
    assert [(row["fact_id"], row["text"]) for row in hits] == [("near", "x@10"), ("far", "x@60")]
    assert "x@10" in table
    forgotten = run(settings, "bank", "b", "--forget", "near")
    assert forgotten.stdout.endswith("once a worker applies the change; its scores stay\n")
    bench.consume()
    assert [row["fact_id"] for row in rows_of(run(settings, "bank", "b", "--remembered", "--json"))] == ["far"]


@pytest.mark.parametrize("change", [["--remember", "f", "--text", "x"], ["--forget", "f"]])
def test_a_change_of_facts_is_kept_while_redis_is_away(tmp_path: Path, change: list[str]) -> None:
    """It was refused, since the warning of models read Redis first."""
    env = {"TELLBACK_DATA_DIR": str(tmp_path)}
    done = CliRunner().invoke(app, ["bank", "b", *change, "--redis-url", "redis://127.0.0.1:1/0"], env=env)
    assert done.exit_code == 0
    assert "(connection refused)" in done.stderr
    assert "The change is saved on this host's disk; the next client sends it" in done.stderr
    assert list(tmp_path.rglob("*.spool"))


def test_recall_explores(settings: Settings, bench: Bench, tb: Tellback) -> None:
    signal(tb, bench, [item(f"p{i}", "x") for i in range(2) for _ in range(5)])
    options = ["-c", "p0=0.9", "-c", "p1=0.8", "-c", "new=0.7", "--bank", "b", "--wait", "0", "--limit", "2", "--json"]
    assert [row["fact_id"] for row in rows_of(run(settings, "recall", "x", *options))] == ["p0", "p1"]
    explored = rows_of(run(settings, "recall", "x", *options, "--exploration", "0.5"))
    assert [(row["fact_id"], row["explored"]) for row in explored] == [("p0", False), ("new", True)]


def test_recall_of_stored_facts_without_a_worker_is_an_error(settings: Settings, bench: Bench, tb: Tellback) -> None:
    tb.bank("b").remember("f", "x")
    tb.flush()
    bench.consume()
    done = run(settings, "recall", "x", "--bank", "b", "--wait", "0")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no worker has answered within 0 s: start one for the queue recalls" in done.stderr


def test_a_bank_that_holds_nothing_recalls_nothing(settings: Settings, database: Any) -> None:
    del database
    assert rows_of(run(settings, "recall", "x", "--bank", "none", "--json")) == []
    assert run(settings, "recall", "x", "--bank", "none").stdout == "Stored facts of bank none: none\n"


@pytest.mark.parametrize("option", [["--remembered"], ["--last", "5"]])
def test_no_list_is_shown_of_a_bank_that_does_not_exist(settings: Settings, database: Any, option: list[str]) -> None:
    """A misspelt name looked like a bank at rest."""
    del database
    done = run(settings, "bank", "none", *option)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "tellback: no bank 'none'; its first signal or stored fact creates it\n"


def test_a_fact_to_forget_that_no_bank_stores_is_named(settings: Settings, bench: Bench, tb: Tellback) -> None:
    """It is no error, since a worker may be about to store it; a misspelt name passed unnoticed."""
    tb.bank("b").remember("f", "x")
    tb.flush()
    bench.consume()
    for bank, fact_id in (("bb", "f"), ("b", "ff")):
        done = run(settings, "bank", bank, "--forget", fact_id)
        assert done.exit_code == 0
        assert done.stderr == f"tellback: bank {bank} stores no fact {fact_id} now; check both names\n"
    assert run(settings, "bank", "b", "--forget", "f").stderr == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["b", "--remember", "f"], "--remember requires the fact's text: --text TEXT, or --text - for standard input"),
        (["b", "--text", "x"], "--text goes with --remember"),
        (["b", "--forget", "f", "--text", "x"], "--text goes with --remember"),
        (["b", "--forget", "f", "--remembered"], "use one of --forget and --remembered"),
        (["b", "--fact", "f", "--last", "3", "--prune-candidates"], "one of --fact and --last and --prune-candidates"),
        (["b", "--remember", "", "--text", "x"], "fact_id is empty"),
        (["b", "--remember", "f", "--text", " "], "text is blank"),
        (["--remembered"], "name a bank: without one"),
        (["--forget", "f"], "name a bank: without one"),
    ],
)
def test_what_does_not_go_together_is_refused(
    settings: Settings, database: Any, options: list[str], message: str
) -> None:
    del database
    done = run(settings, "bank", *options)
    assert done.exit_code == 2, done.output
    assert message in done.stderr


def test_a_text_that_is_no_utf_8_is_refused(settings: Settings, database: Any) -> None:
    del database
    done = run(settings, "bank", "b", "--remember", "f", "--text", "-", stdin=b"caf\xe9")
    assert (done.exit_code, done.stderr) == (2, "tellback: standard input is not UTF-8: byte 4\n")


def test_banks_count_the_facts_they_store_also_those_without_a_signal(
    settings: Settings, bench: Bench, tb: Tellback
) -> None:
    """Of such a bank there are figures, until all of its facts are forgotten."""
    tb.bank("held").remember("f", "x")
    tb.bank("both").remember("f", "x")
    tb.bank("both").remember("g", "x")
    signal(tb, bench, [item("f", "x")], bank="both")
    signal(tb, bench, [item("f", "x")], bank="signalled")
    counts = {row["bank"]: (row["stored_facts"], row["facts"]) for row in rows_of(run(settings, "bank", "--json"))}
    assert counts == {"signalled": (0, 1), "both": (2, 1), "held": (1, 0)}
    stats = tb.bank("held").stats()
    assert (stats.model, stats.dimension, stats.threshold, stats.clusters) == ("angles", 52, 0.85, 0)
    assert (stats.signal_count, stats.created_at, stats.average_score, stats.most_useful) == (0, None, 0.5, [])
    [report] = rows_of(run(settings, "stats", "--bank", "held", "--json"))
    assert report["stats"]["stored_facts"] == 1
    assert "Bank held · 0 facts, 1 stored, 0 clusters" in run(settings, "stats", "--bank", "held").stdout
    assert "stored facts" in run(settings, "bank").stdout
    assert rows_of(run(settings, "bank", "held", "--prune-candidates", "--json")) == []
    for bank in ("held", "both"):
        for fact_id in ("f", "g"):
            tb.bank(bank).forget(fact_id)
    tb.flush()
    bench.consume()
    left = {row["bank"]: row["stored_facts"] for row in rows_of(run(settings, "bank", "--json"))}
    assert left == {"signalled": 0, "both": 0}
    with pytest.raises(NotFound, match="no bank 'held'; its first signal or stored fact creates it"):
        tb.bank("held").stats()


@pytest.mark.parametrize("wrong", [["signal", "missing.jsonl"], ["recall", "a", "-c", "f1"]])
def test_what_is_wrong_before_anything_is_sent_creates_no_team(
    settings: Settings, database: Database, wrong: list[str]
) -> None:
    """A typing error in the name of the file left a team behind."""
    assert run(settings, *wrong, "--bank", "b", "--team", "never").exit_code == 2
    assert "never" not in Teams(database).names()
