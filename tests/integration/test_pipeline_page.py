"""docs/loops/turns-pipeline.md is right, beside the examples that `test_page_examples` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback import Tellback
from tellback.turns.fallback_text import KEYS, load_words
from tests.support.pages import ROOT, blocks
from tests.support.turns import opened

PAGE = "docs/loops/turns-pipeline.md"


@pytest.mark.parametrize("fails", [False, True])
def test_what_the_page_asks_of_a_host_finishes_the_turn(tb: Tellback, *, fails: bool) -> None:
    import tellback

    def model(_: object) -> str:
        if fails:
            raise TimeoutError("no reply")
        return "42"

    (code,) = [text for language, text in blocks(PAGE) if language == "py"]
    turn = opened(tb)
    exec(code, {"tellback": tellback, "turn": turn, "model": model, "messages": [{"role": "user", "content": "hi"}]})
    assert turn.state == "finishing"


def test_the_catalog_of_the_page_loads(tmp_path: Path) -> None:
    (text,) = [text for language, text in blocks(PAGE) if language == "po"]
    folder = tmp_path / "nl" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "tellback.po").write_text(text)
    assert load_words("nl", "", str(tmp_path)).feedback().startswith("Er ging iets mis")


def test_the_page_names_every_key() -> None:
    page = (ROOT / PAGE).read_text("utf-8")
    assert not [key for key in KEYS if f"`{key}`" not in page]
