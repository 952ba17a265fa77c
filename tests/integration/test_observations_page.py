"""docs/loops/observations.md is right, beside the examples that `test_page_examples` runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tellback import Tellback
from tellback.guidance.observations.catalog import load_catalog
from tellback.guidance.observations.feedback import ToolFeedback
from tests.support.pages import blocks

PAGE = "docs/loops/observations.md"


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
