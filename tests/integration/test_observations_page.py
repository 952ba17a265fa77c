"""docs/loops/observations.md shows what really happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tellback import Tellback
from tellback.guidance.observations.catalog import load_catalog
from tellback.guidance.observations.feedback import ToolFeedback
from tellback.settings import Settings
from tests.support.pages import blocks, examples

PAGE = "docs/loops/observations.md"


def test_the_examples_print_what_the_page_says(
    tb: Tellback, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tb.history("s1") == []
    monkeypatch.setenv("TELLBACK_REDIS_URL", settings.redis_url)
    names: dict[str, Any] = {}
    for code, printed in examples(PAGE):
        exec(compile(code, PAGE, "exec"), names)
        assert capsys.readouterr().out == printed


def test_the_classifier_of_the_page_works(tb: Tellback) -> None:
    (code,) = [text for language, text in blocks(PAGE) if language == "py"]
    names: dict[str, Any] = {}
    exec(compile(code, PAGE, "exec"), names)
    prompt = tb.prompt("s1", "p", observations=names["how"])
    seen: ToolFeedback = prompt.observe("api", params={"q": 1}, result="You have used your daily allowance.")
    assert seen.envelope is not None
    assert (seen.envelope.code, seen.envelope.retry_after) == ("rate_limited", 3600.0)


def test_the_templates_of_the_page_load(tmp_path: Path) -> None:
    (text,) = [text for language, text in blocks(PAGE) if language == "toml"]
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    assert load_catalog(path).text("headline", "rate_limited", tool="t") == "t asks you to slow down"
