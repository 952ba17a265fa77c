"""The XML form of feedback: one element, out of which nothing that was said can break."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback import Feedback, InvalidInput, Observation

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["</feedback>", "]]>", "<!--", "&amp;", "<?xml?>", '" onload="', "\x00\x1b\x85", "<![CDATA[x]]>", "\ufffe"]
)


def test_the_form() -> None:
    feedback = Feedback(
        "DeadlineFeedback", "Time < 2 minutes & falling.", (Observation("left", "1 > 0"),), ("Wrap up.",), "warning"
    )
    assert feedback.render(form="xml") == (
        '<feedback provider="Deadline" severity="warning">\n'
        "  <summary>Time &lt; 2 minutes &amp; falling.</summary>\n"
        '  <observation label="left">1 &gt; 0</observation>\n'
        "  <suggestion>Wrap up.</suggestion>\n"
        "</feedback>"
    )


@given(texts, texts, texts, texts, texts)
def test_whatever_is_said_is_text_within_its_element(
    name: str, summary: str, label: str, value: str, hint: str
) -> None:
    text = Feedback(name, summary, (Observation(label, value),), (hint,)).render(form="xml")
    root = ET.fromstring(text)
    assert root.tag == "feedback"
    assert [child.tag for child in root] == ["summary", "observation", "suggestion"]
    assert all(not list(child) for child in root)
    assert text.count("<feedback") == text.count("</feedback>") == 1


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert Feedback("X", "a\ud800b").render(form="xml").encode()


@pytest.mark.parametrize("form", ["html", "", None])
def test_another_form_is_refused(form: Any) -> None:
    with pytest.raises(InvalidInput, match="form is"):
        Feedback("X", "x").render(form)
