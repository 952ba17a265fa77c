"""The examples of pages print what the pages say; those that need the model are in `test_docs_examples`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tellback.settings import Settings
from tests.support.pages import ROOT, blocks, examples
from tests.support.workers import StartWorkers

PAGES = ("guidance", "observations", "transports", "turns", "turns-pipeline", "delivery")
SLOW = {"delivery"}
WITH_WORKERS = {"delivery", "guidance"}
ELSEWHERE = {
    *("README.md", "docs/quickstart.md", "docs/loops/signals.md"),  # test_docs_examples
    "docs/loops/commands.md",  # test_commands_page
    "docs/operations/records.md",  # test_records_page
}


def test_every_page_with_python_has_a_test() -> None:
    """Fragments, which do not run by themselves, are blocks of `py`."""
    pages = [str(path.relative_to(ROOT)) for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))]
    found = Counter(page for page in pages for language, _ in blocks(page) if language == "python")
    assert {*found} == {*ELSEWHERE, *(f"docs/loops/{name}.md" for name in PAGES)}
    assert found["docs/loops/commands.md"] == found["docs/operations/records.md"] == 1, "the one that they try"


@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.slow] * (page in SLOW)) for page in PAGES])
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
