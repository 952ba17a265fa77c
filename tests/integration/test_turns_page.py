"""docs/loops/turns.md shows what really happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tellback.settings import Settings
from tellback.state.database import Database

PAGE = Path(__file__).resolve().parents[2] / "docs" / "loops" / "turns.md"


def test_the_example_prints_what_the_page_says(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del database
    monkeypatch.setenv("TELLBACK_REDIS_URL", settings.redis_url)
    code, printed = (
        re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[0] for kind in ("python", "text")
    )
    exec(compile(code, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == printed
