"""`tellback signal`, `recall` and `bank`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tellback import Tellback
from tellback.cli.app import app
from tellback.settings import Settings
from tellback.state.keys import Layout
from tests.support.signals import Angles, Bench, item, signal


@pytest.fixture
def bench(settings: Settings, layout: Layout) -> Iterator[Bench]:
    bench = Bench(settings, layout, Angles())
    yield bench
    bench.close()


def run(settings: Settings, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--redis-url", settings.redis_url], env={"COLUMNS": "200"})


def rows(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def line(**fields: Any) -> str:
    return json.dumps({"fact_id": "f", "signal_type": "used", "query": "a", **fields}) + "\n"


def test_a_file_teaches_a_bank(bench: Bench, settings: Settings, tb: Tellback, tmp_path: Path) -> None:
    file = tmp_path / "signals.jsonl"
    file.write_text("".join([line() for _ in range(1_201)]) + "\n")
    done = run(settings, "signal", str(file), "--bank", "b", "--session", "s")
    assert done.exit_code == 0, done.output
    assert done.stdout == "1201 signals published to bank b\n"
    bench.drain()
    assert tb.bank("b").fact_stats("f").signal_count == 1_201
    assert tb.history("s")


def test_wrong_lines_are_named_and_left_out(bench: Bench, settings: Settings, tb: Tellback, tmp_path: Path) -> None:
    file = tmp_path / "signals.jsonl"
    wrong = [line(confidence=2), line(signal_type="loved"), "{\n", '{"fact_id": "f"}\n', line(query="  ")]
    file.write_text(line() + "".join(wrong) + line(context="seen"))
    done = run(settings, "signal", str(file), "--bank", "b", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout) == {"bank": "b", "published": 2, "rejected": 5}
    named = done.stderr.splitlines()
    assert [text.removeprefix(f"{file}:").split(":")[0] for text in named] == ["2", "3", "4", "5", "6"]
    for text, word in zip(named, ["confidence", "signal_type", "truncated", "signal_type", "query"], strict=True):
        assert word in text
    bench.drain()
    assert tb.bank("b").stats().signal_count == 2


def test_a_missing_file_is_one_line_and_code_2(database: Any, settings: Settings, tmp_path: Path) -> None:
    del database
    done = run(settings, "signal", str(tmp_path / "none"), "--bank", "b")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "No such file" in done.stderr


def test_recall_without_workers_says_so(bench: Bench, settings: Settings, tb: Tellback) -> None:
    signal(tb, bench, [item("A", "a", "helpful")] * 2)
    options = ["-c", "A=0.8", "-c", "B=0.9", "--bank", "b", "--wait", "0"]
    done = run(settings, "recall", "a", *options, "--json")
    assert [(row["fact_id"], row["scope"], row["degraded"]) for row in rows(done)] == [
        ("A", "global", True),
        ("B", "neutral", True),
    ]
    assert "no worker answered" in done.stderr
    assert [row["fact_id"] for row in rows(run(settings, "recall", "a", *options, "--no-boost", "--json"))] == [
        "B",
        "A",
    ]
    assert "usefulness" in run(settings, "recall", "a", *options).stdout


@pytest.mark.parametrize(("option", "value"), [("-c", "f1"), ("-c", "=0.5"), ("--weight", "1.5"), ("--limit", "0")])
def test_wrong_options_of_recall(database: Any, settings: Settings, option: str, value: str) -> None:
    del database
    done = run(settings, "recall", "a", "--bank", "b", "-c", "f=0.5", option, value)
    assert done.exit_code == 2, done.output


def test_banks_and_facts_are_listed(bench: Bench, settings: Settings, tb: Tellback) -> None:
    signal(tb, bench, [item("f", "a"), item("g", "b", "ignored")], bank="one")
    signal(tb, bench, [item("f", "a")], bank="two")
    listed = {row["bank"]: row for row in rows(run(settings, "bank", "--json"))}
    assert {name: row["signal_count"] for name, row in listed.items()} == {"one": 2, "two": 1}
    [one] = rows(run(settings, "bank", "one", "--json"))
    assert (one["contexts"], one["facts"], one["model"]) == (2, 2, "angles")
    [fact] = rows(run(settings, "bank", "one", "--fact", "g", "--json"))
    assert fact["signal_breakdown"]["ignored"] == 1
    shown = run(settings, "bank", "one", "--fact", "g").stdout
    assert "0.4500" in shown
    assert "ignored 1" in shown
    signal(tb, bench, [item("f", "a", context="a remark")], bank="two")
    newest = rows(run(settings, "bank", "two", "--last", "5", "--json"))
    assert [(row["fact_id"], row["query"], row.get("context")) for row in newest] == [
        ("f", "a", None),
        ("f", "a", "a remark"),
    ]
    assert len(rows(run(settings, "bank", "two", "--last", "1", "--json"))) == 1
    assert "a remark" in run(settings, "bank", "two", "--last", "5").stdout
    assert run(settings, "bank", "--fact", "f").exit_code == 2
    missing = run(settings, "bank", "three")
    assert missing.exit_code == 1
    assert "no bank 'three'" in missing.stderr
