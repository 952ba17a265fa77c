"""`tellback recall` and `bank`."""

from __future__ import annotations

from typing import Any

import pytest

from tellback import Tellback
from tellback.settings import Settings
from tests.support.cli import rows_of, run
from tests.support.signals import Bench, item, signal


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
