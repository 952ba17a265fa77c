"""The examples of pages print what the pages say; those that need the model are in `test_docs_examples`."""

from __future__ import annotations

from typing import Any

import pytest

from tellback.settings import Settings
from tests.support.pages import examples
from tests.support.workers import StartWorkers

WITH_WORKERS = {"delivery", "guidance"}


@pytest.mark.parametrize(
    "page",
    [
        *("guidance", "observations", "transports", "turns", "turns-pipeline"),
        pytest.param("delivery", marks=pytest.mark.slow),
    ],
)
def test_the_examples_of_a_page_print_what_it_says(
    page: str,
    settings: Settings,
    start_workers: StartWorkers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are one session, in order."""
    if page in WITH_WORKERS:
        start_workers(1, queues="events")
    monkeypatch.setenv("TELLBACK_REDIS_URL", settings.redis_url)
    names: dict[str, Any] = {}
    found = examples(f"docs/loops/{page}.md")
    assert found
    for code, printed in found:
        exec(compile(code, page, "exec"), names)
        assert capsys.readouterr().out == printed
