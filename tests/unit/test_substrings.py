"""redaction.substrings: the fast `in`, which decides what rules a text is searched by. Requirement A-56."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tellback.redaction.rules import all_scans
from tellback.redaction.substrings import searchable
from tests.support.examples import examples

ANCHORS = sorted({anchor for group in all_scans() if isinstance(group, dict) for anchor in group})
LETTERS = sorted({*"".join(ANCHORS), "\0", "\n", "é", "🔑", "\ud83d"})  # of 1 to 4 bytes, and halves of a pair
TEXTS = st.text(st.sampled_from(LETTERS), max_size=300)


@given(text=TEXTS, anchors=st.lists(st.sampled_from(ANCHORS), max_size=3), at=st.integers(0, 300))
@settings(max_examples=examples(300))
def test_a_text_holds_exactly_the_anchors_that_in_finds(text: str, anchors: list[str], at: int) -> None:
    text = f"{text[:at]}{''.join(anchors)}{text[at:]}"
    within = searchable(text)
    assert [anchor for anchor in ANCHORS if anchor in within] == [anchor for anchor in ANCHORS if anchor in text]
    assert {*anchors} <= {anchor for anchor in ANCHORS if anchor in within}
