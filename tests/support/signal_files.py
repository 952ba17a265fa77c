"""Files of signals, and what `tellback signal` does with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tellback import Settings, Tellback
from tellback.cli.app import app
from tellback.cli.signal_file import FileCursor, FilePosition
from tests.support.signals import Bench


def line(**fields: Any) -> str:
    """Return a line of a file; `fields` replace those of a correct one."""
    return json.dumps({"fact_id": "f", "signal_type": "used", "query": "a", **fields}) + "\n"


def run(settings: Settings, file: Path | str, *options: str, bank: str | None = "b", stdin: bytes = b"") -> Result:
    """Run the command on a file."""
    named = ["--bank", bank] if bank else []
    arguments = ["signal", str(file), *named, *options, "--redis-url", settings.redis_url]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}, input=stdin)


def summary(done: Result) -> dict[str, Any]:
    """Return the summary that `--json` prints."""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def counted(tb: Tellback, bench: Bench, bank: str = "b") -> int:
    """Return how many signals a bank counts once all are applied."""
    bench.consume()
    return tb.bank(bank).stats().signal_count


def die_at(monkeypatch: pytest.MonkeyPatch, *times: int) -> list[int]:
    """Have runs end as they note their place for these times, from 1; return the lines that each noted."""
    save, noted = FileCursor.save, list[int]()

    def dying(cursor: FileCursor, place: FilePosition) -> None:
        noted.append(place.lines)
        if len(noted) in times:
            raise KeyboardInterrupt
        save(cursor, place)

    monkeypatch.setattr(FileCursor, "save", dying)
    return noted
