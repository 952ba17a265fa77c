"""Files of signals, and what `tellback signal` does with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from tellback import Settings, Tellback
from tellback.cli.app import app
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
