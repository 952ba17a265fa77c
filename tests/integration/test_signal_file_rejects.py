"""Lines that `tellback signal` rejects: each is named, kept with its reason, and published once it is fixed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tellback import Settings, Tellback
from tellback.cli import signal_file, signal_publishing
from tests.support.signal_files import counted, die_at, line, run, summary
from tests.support.signals import Bench


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "signals.jsonl"


def test_wrong_lines_are_named_and_kept_and_left_out(
    bench: Bench, settings: Settings, tb: Tellback, file: Path, tmp_path: Path
) -> None:
    wrong = {
        "confidence": line(confidence=2),
        "signal_type": line(signal_type="loved"),
        "truncated": "{\n",
        "`signal_type`": '{"fact_id": "f"}\n',
        "query": line(query="  "),
        "malformed": '{"fact_id": "f", "signal_type": "used", "query": "a", "confidence": NaN}\n',
        "invalid": '{"fact_id": "f", "signal_type": "used", "query": "a", "confidence": -Infinity}\n',
        "duplicate field 'query'": '{"fact_id": "f", "signal_type": "used", "query": "a", "query": "b"}\n',
        "Expected `object`": "[1]\n",
        "fact_id": line(fact_id=""),
        "Expected `float`": line(confidence="1"),
    }
    file.write_text(line() + "".join(wrong.values()) + line(context="seen"))
    rejects = tmp_path / "rejects.jsonl"
    done = run(settings, file, "--json", "--rejects", str(rejects))
    assert done.exit_code == 1
    assert summary(done) | {"file": ""} == {
        "file": "",
        "bank": "b",
        "published": 2,
        "rejected": len(wrong),
        "skipped": 0,
    }
    named = done.stderr.splitlines()
    for number, (text, word) in enumerate(zip(named, wrong, strict=True), 2):
        assert text.startswith(f"{file}:{number}: "), text
        assert word in text, text
    kept = [json.loads(raw) for raw in rejects.read_text().splitlines()]
    assert [row["line"] for row in kept] == list(range(2, 2 + len(wrong)))
    assert [row["text"] for row in kept] == [text.strip() for text in wrong.values()]
    assert all(f": {row['error']}" in text for row, text in zip(kept, named, strict=True))
    assert counted(tb, bench) == 2


def test_bytes_that_are_no_text_cost_their_own_line(
    bench: Bench, settings: Settings, tb: Tellback, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such are bad UTF-8, half a surrogate pair, a line too long to be a signal, and endless nesting; CRLF passes."""
    monkeypatch.setattr(signal_file, "MAX_LINE", 100_000)
    bad = [
        b'{"fact_id": "f", "signal_type": "used", "query": "\xff\xfe"}\n',
        b'{"fact_id": "\\ud800", "signal_type": "used", "query": "a"}\n',
        b'{"fact_id": "f", "context": "' + b"x" * 350_000 + b'", "signal_type": "used", "query": "a"}\n',
        b'{"fact_id": "f", "signal_type": "used", "query": "a", "more": ' + b"[" * 20_000 + b"]" * 20_000 + b"}\n",
        b"\x00\n",
    ]
    good = line().encode()
    file.write_bytes(b"".join(part + good.replace(b"\n", b"\r\n") + b"  \r\n\n" for part in bad))
    done = run(settings, file, "--json")
    assert (summary(done)["published"], summary(done)["rejected"]) == (5, 5), done.stderr
    assert [text.removeprefix(f"{file}:").split(":")[0] for text in done.stderr.splitlines()] == [
        "1",
        "5",
        "9",
        "13",
        "17",
    ]
    assert "bytes; the maximum is 100000" in done.stderr
    again = summary(run(settings, file, "--json"))
    assert (again["published"], again["rejected"]) == (0, 5), "the rest of a long line is no line of its own"
    assert counted(tb, bench) == 5


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"query": " "}, "signal.query is blank: the query ties a signal to its query cluster"),
        ({"confidence": 2}, "signal.confidence is 2.0: use a number from 0 to 1"),
        ({"signal_type": "loved"}, "signal.signal_type is 'loved': use one of used, ignored, helpful, not_helpful"),
        ({"signal_type": ["used"]}, "signal.signal_type is ['used']: use one of"),
        ({"fact_id": ""}, "signal.fact_id is empty"),
        ({"bank": ""}, "signal.bank is empty"),
        ({"bank": "x" * 513}, "signal.bank has 513 characters: use at most 512"),
        ({"signal_id": "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"}, "signal.signal_id carries a secret"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("database")
def test_a_wrong_line_says_what_to_write(settings: Settings, file: Path, fields: dict[str, Any], says: str) -> None:
    """It uses the words of `Bank.signal`."""
    file.write_text(line(**fields))
    assert f"{file}:1: {says}" in run(settings, file).stderr


def test_a_field_that_nobody_knows_is_wrong(bench: Bench, settings: Settings, tb: Tellback, file: Path) -> None:
    """A misspelt confidence would count as full confidence."""
    file.write_text(line() + line(confidance=0.2))
    done = run(settings, file)
    assert done.exit_code == 1
    assert f"{file}:2: Object contains unknown field `confidance`" in done.stderr
    assert counted(tb, bench) == 1


def test_rejects_of_a_run_that_goes_on(
    settings: Settings, database: Any, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wrong line stands in the file once, whenever the runs died."""
    del database
    monkeypatch.setattr(signal_publishing, "CHUNK", 10)
    file.write_text("".join(line() if i % 2 else "{\n" for i in range(60)))
    rejects = tmp_path / "rejects"
    die_at(monkeypatch, 3, 6)
    for _ in range(3):
        run(settings, file, "--rejects", str(rejects))
    assert [json.loads(raw)["line"] for raw in rejects.read_text().splitlines()] == list(range(1, 61, 2))
    refused = run(settings, file, "--rejects", str(file))
    assert refused.exit_code == 2
    assert file.read_text().startswith("{"), "the input is not overwritten"


def test_many_wrong_lines_do_not_flood_the_terminal(settings: Settings, database: Any, file: Path) -> None:
    del database
    file.write_text("{\n" * 300)
    done = run(settings, file)
    assert len(done.stderr.splitlines()) == 101
    assert "300 rejected" in done.stdout


def test_fixed_lines_are_published_and_nothing_counts_twice(
    bench: Bench, settings: Settings, tb: Tellback, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person fixes some of the rejected lines in place and runs the command again, also after a crash."""
    monkeypatch.setattr(signal_publishing, "CHUNK", 2)
    rejects = tmp_path / "rejects"
    lines = ["\ufeff" + line(fact_id="f1"), "{\n", line(fact_id="f2"), line(confidence=2), "{{\n", line(fact_id="f3")]
    file.write_text("".join(lines))
    assert summary(run(settings, file, "--json", "--rejects", str(rejects)))["rejected"] == 3
    lines[1], lines[3] = line(fact_id="fixed one, longer than it was"), line(fact_id="m2")
    file.write_text("".join(lines))
    die_at(monkeypatch, 1)
    assert run(settings, file, "--rejects", str(rejects)).exit_code == 130
    again = run(settings, file, "--json", "--rejects", str(rejects))
    assert (again.exit_code, summary(again)["published"], summary(again)["rejected"]) == (1, 2, 1)
    assert summary(again)["skipped"] == 3
    assert [json.loads(raw)["line"] for raw in rejects.read_text().splitlines()] == [5]
    assert counted(tb, bench) == 5
    lines[4] = line(fact_id="m3")
    file.write_text("".join(lines) + line(fact_id="f4"))
    last = run(settings, file, "--json", "--rejects", str(rejects))
    assert (last.exit_code, summary(last)["published"], summary(last)["skipped"]) == (0, 2, 5)
    assert counted(tb, bench) == 7
    assert summary(run(settings, file, "--json"))["published"] == 0
    lines[1] = line(fact_id="fixed twice")
    file.write_text("".join(lines) + line(fact_id="f4"))
    assert "has changed" in run(settings, file).stderr, "it was published: it is a line like any other"
    assert counted(tb, bench) == 7
