"""docs/loops/guidance.md shows what really happens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tellback import FeedbackContext, FeedbackProvider, ToolCall
from tellback.settings import Settings
from tests.support.pages import blocks, examples
from tests.support.workers import StartWorkers

PAGE = "docs/loops/guidance.md"


def test_the_example_prints_what_the_page_says(
    settings: Settings,
    start_workers: StartWorkers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    start_workers(1, queues="events")
    monkeypatch.setenv("TELLBACK_REDIS_URL", settings.redis_url)
    ((code, printed),) = examples(PAGE)
    exec(compile(code, PAGE, "exec"), {})
    assert capsys.readouterr().out == printed


def test_the_custom_provider_of_the_page_works() -> None:
    (code,) = [text for language, text in blocks(PAGE) if language == "py"]
    defined: dict[str, Any] = {"__name__": __name__}
    exec(compile(code, PAGE, "exec"), defined)
    provider: FeedbackProvider = defined["SameToolMonitor"](times=3)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    calls = [ToolCall(at=1, tool="search", call_index=n) for n in range(3)]
    context = FeedbackContext(session="s", prompt="p", now=now, began_at=now, recent=calls)
    assert provider.should_run(context=context)
    assert provider.provide(context=context).summary == "The last 3 calls all went to search."
    assert not provider.should_run(context=FeedbackContext(session="s", prompt="p", now=now, began_at=now))
